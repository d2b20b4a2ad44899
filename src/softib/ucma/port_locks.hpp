// The port numbers of a node that this process has, the services that it listens on, and its
// memberships in groups. They are locks of bytes in files of the node's folder, which the kernel
// releases when the process dies.
//
// A port number of a port space has 65,536 bytes of the file `ports`. An address locks one of them,
// the wildcard all.
#pragma once

#include <cstdint>

#include "ipoib/result.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/rdma_cm/address.hpp"
#include "softib/transport/fork_guard.hpp"

namespace softib::ucma {

class PortLocks {
 public:
  PortLocks(const fabric::SubnetFolder& folder, NodeIndex node) : folder_(folder), node_(node) {}

  /// False: another process has the port number at this address, or at all of them.
  [[nodiscard]] bool lock_port(rdma_cm::PortSpace space, std::uint16_t port,
                               const rdma_cm::Address& address);
  void unlock_port(rdma_cm::PortSpace space, std::uint16_t port);
  [[nodiscard]] bool announce(ipoib::wire::ServiceId service);
  void withdraw(ipoib::wire::ServiceId service);
  [[nodiscard]] bool hold_group(const Gid& mgid, std::uint8_t join_state);
  /// True: no process of the node holds the group any more. Two groups may share a lock; then one
  /// of them keeps the other.
  [[nodiscard]] bool release_group(const Gid& mgid, std::uint8_t join_state);

 private:
  [[nodiscard]] bool open(transport::GuardedFd& file, const char* name) const;

  const fabric::SubnetFolder folder_;
  const NodeIndex node_;
  transport::GuardedFd ports_;
  transport::GuardedFd services_;
  transport::GuardedFd groups_;
};

}  // namespace softib::ucma
