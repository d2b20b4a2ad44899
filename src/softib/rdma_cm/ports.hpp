// The port numbers that the IDs of this process have, by port space, with the rules of
// cma_check_port() in Linux.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "ipoib/random.hpp"
#include "ipoib/result.hpp"
#include "softib/rdma_cm/address.hpp"
#include "softib/rdma_cm/events.hpp"
#include "softib/rdma_cm/node.hpp"

namespace softib::rdma_cm {

class Ports {
 public:
  using Request = PortRequest;

  /// Reserves the port number of the address, or a free one if that is 0. Returns it. Fails with
  /// EADDRINUSE or EADDRNOTAVAIL if another ID has it at the same address, or one of the two has it
  /// at all addresses, and with EACCES for a privileged one.
  [[nodiscard]] ipoib::Result<std::uint16_t> bind(const Request& request, Node& node,
                                                  ipoib::Random& random);
  /// Nobody else may be bound to the same address from now on. EADDRINUSE, EADDRNOTAVAIL: somebody
  /// is.
  [[nodiscard]] ipoib::Result<void> listen(const Request& request, Node& node);
  /// The ID, which was bound alone, shares its address from now on (RDMA_OPTION_ID_REUSEADDR).
  void share(IdHandle id, PortSpace space, std::uint16_t port, Node& node);
  void release(IdHandle id, PortSpace space, std::uint16_t port, Node& node);

 private:
  struct Binding {
    Request request;
    bool is_listening = false;
  };
  using Key = std::pair<PortSpace, std::uint16_t>;

  [[nodiscard]] ipoib::Result<void> check(const Request& request, std::uint16_t port) const;

  std::map<Key, std::vector<Binding>> bindings_;
};

}  // namespace softib::rdma_cm
