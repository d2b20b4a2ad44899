// The port numbers of a node that this process has, the services that it listens on, and its
// memberships in groups. They are locks of bytes in files of the node's folder, which the kernel
// releases when the process dies.
//
// A port number of a port space has a section of bytes of the file `ports` for each of the three
// kinds of addresses:
//
//   | 0: all addresses | 1: addresses of other kinds | 2 ...: an address, by its hash |
//
// An ID locks the byte of its address, or all of its section for the wildcard. Unless it is for its
// kind alone, it also locks byte 1 of the other sections, or all of them for the wildcard. An ID
// that shares its address (RDMA_OPTION_ID_REUSEADDR) takes shared locks, and exclusive ones when it
// listens. Byte 1 is always shared by those that are no wildcards; so IDs with that option and
// wildcards of another kind do not see IDs at one address that lack it.
#pragma once

#include <cstdint>

#include "ipoib/result.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/rdma_cm/node.hpp"
#include "softib/transport/fork_guard.hpp"

namespace softib::ucma {

class PortLocks {
 public:
  PortLocks(const fabric::SubnetFolder& folder, NodeIndex node) : folder_(folder), node_(node) {}

  /// See rdma_cm::Node.
  [[nodiscard]] ipoib::Result<void> lock_port(const rdma_cm::PortRequest& request,
                                              std::uint16_t port);
  void unlock_port(rdma_cm::PortSpace space, std::uint16_t port);
  [[nodiscard]] bool announce(ipoib::wire::ServiceId service);
  void withdraw(ipoib::wire::ServiceId service);
  [[nodiscard]] bool hold_group(const Gid& mgid, std::uint8_t join_state);
  /// True: no process of the node holds the group any more.
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
