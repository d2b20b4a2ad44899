// The multicast groups that the RDMA connection managers of processes have joined, by the responses
// of the SA. A process that is killed leaves no group by itself. On a host, the kernel has the
// memberships and ends them; here the subnet process does it. Memberships of programs of libibumad
// are not among them: they stay until the port goes down, as on hardware.
#pragma once

#include <map>
#include <set>

#include "softib/core/mad_packet.hpp"
#include "softib/endpoint/endpoint.hpp"

namespace softib::subnetd {

/// Bound of the groups that are noted. A process that is killed remains a member of further ones.
inline constexpr std::size_t kMaxNotedGroups = 1U << 16;

class CmMemberships {
 public:
  /// Notes the group of a response that grants a join to a process at the port `node`. Ignores
  /// other MADs.
  void note(NodeIndex node, const MadPacket& response);
  /// The groups that a process, named with the port, has joined there, also those that it has left
  /// since. They are forgotten.
  [[nodiscard]] std::set<Gid> take(const endpoint::RemoteProcess& process);

 private:
  std::map<endpoint::RemoteProcess, std::set<Gid>> groups_;
  std::size_t count_ = 0;
};

}  // namespace softib::subnetd
