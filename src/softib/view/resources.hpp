// What `rdma resource` lists: the objects of the processes on an HCA, and the IDs of their
// connection managers, as attributes of the kernel's RDMA family of netlink.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "softib/core/object_list.hpp"
#include "softib/rdma_cm/id_status.hpp"
#include "softib/view/netlink_message.hpp"
#include "softib/view/tree.hpp"

namespace softib::view {

/// A process on an HCA.
struct Owner {
  int pid = 0;
  std::uint32_t slot = 0;
};

/// Lists what the processes on an HCA have.
class ResourceSource {
 public:
  template <class Status>
  struct Owned {
    Owner owner;
    Status status;
  };
  virtual ~ResourceSource() = default;
  [[nodiscard]] virtual std::vector<Owned<ObjectStatus>> objects(const ShownHca& hca,
                                                                 ObjectKind kind) = 0;
  [[nodiscard]] virtual std::vector<Owned<rdma_cm::IdStatus>> ids(const ShownHca& hca) = 0;
};

/// How netlink lists the resources of a kind.
struct ResourceKind {
  std::string_view name;  ///< in the summary
  unsigned command;
  std::uint16_t table;               ///< attribute that holds all of them
  std::uint16_t entry;               ///< attribute that holds one
  std::uint16_t number;              ///< attribute that names one
  std::optional<ObjectKind> object;  ///< nullopt: IDs of the connection manager
};
/// In the order of the summary.
extern const std::array<ResourceKind, 7> kResourceKinds;

struct Resource {
  std::uint32_t number = 0;  ///< as in its attributes; unique on its HCA
  std::uint32_t port = 0;    ///< of the HCA; 0: none, or unknown
  Datagram attributes;
};
[[nodiscard]] std::vector<Resource> list_resources(const ResourceKind& kind, const ShownHca& hca,
                                                   ResourceSource& source);

}  // namespace softib::view
