// Responds to SA requests on a port that has no SA: a RoCE port.
//
// The path to a GID is the GID itself. A path request waits until the kernel has resolved the
// GID's Ethernet address; otherwise creating an address handle would block the packet thread. A
// multicast group is its MGID as an IPv6 group: the network device joins it, which programs the
// switches. The members of a group are unknown. All other responses follow at once from
// the state of this port. All hosts must be configured with the same parameters of group traffic
// (RFC 4391, 10).
//
// Like SaClient it does no I/O: requests and `now` in, responses out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ipoib/ip_group_port.hpp"
#include "ipoib/ip_neighbour_port.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/time.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::sa {

class LocalSa {
 public:
  /// Longer than the kernel takes for its three solicitations (RFC 4861, 10).
  static constexpr Duration kNeighbourTimeout = std::chrono::seconds(4);
  static constexpr std::size_t kMaxWaiting = 1024;

  struct Port {
    Gid gid;               ///< zero if nothing can be sent
    std::uint8_t mtu = 0;  ///< IBA code
  };

  /// `group` holds the parameters of all groups; its MTU is an upper bound.
  LocalSa(const wire::McMemberRecord& group, IpGroupPort& members, IpNeighbourPort& neighbours,
          Logger& log)
      : group_(group), members_(members), neighbours_(neighbours), log_(log) {}

  void set_port(const Port& port) { port_ = port; }
  /// The response is available on return, except for a path to a neighbour that the kernel has not
  /// resolved.
  void request(const wire::SaRequest& request, TimePoint now);
  /// To call when a neighbour has changed its state, or next_deadline() has come.
  void on_neighbours(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;
  /// The responses so far. The caller takes them out.
  [[nodiscard]] std::vector<wire::SaResponse>& responses() { return responses_; }

 private:
  using Result = wire::SaResult;
  struct WaitingPath {
    wire::SaRequestId id;
    wire::PathQuery query;
    TimePoint deadline;
  };
  void request_path(wire::SaRequestId id, const wire::PathQuery& query, TimePoint now);
  [[nodiscard]] std::optional<Result> try_path(const WaitingPath& path, TimePoint now);
  [[nodiscard]] Result path_record(const wire::PathQuery& query) const;
  [[nodiscard]] Result join(const wire::McMemberRecord& wanted);
  [[nodiscard]] Result leave(const wire::McMemberRecord& wanted);
  [[nodiscard]] wire::McMemberRecord group_record(const wire::McMemberRecord& wanted) const;

  const wire::McMemberRecord group_;
  IpGroupPort& members_;
  IpNeighbourPort& neighbours_;
  Logger& log_;
  Port port_;
  std::vector<WaitingPath> waiting_;  ///< by deadline
  std::vector<wire::SaResponse> responses_;
};

}  // namespace ipoib::sa
