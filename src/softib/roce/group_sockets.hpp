// The sockets of the multicast groups of a process. Each group has one, at port 4791 of its
// address, through which the interface joins it; the kernel gives a copy of each packet to every
// process that has such a socket.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "softib/roce/receiver.hpp"

namespace softib::roce {

class GroupSockets {
 public:
  /// Throws std::system_error when the system has no descriptor left.
  GroupSockets();
  /// Leaves all groups that are not among `groups`, and joins the others on the interface with this
  /// index. Returns the error of the first that cannot be joined; the rest is joined.
  ipoib::Result<void> set(std::span<const Gid> groups, unsigned interface);
  /// Joins the same groups on another interface, those that it can.
  void move_to(unsigned interface);

  /// Readable when a packet waits in a socket.
  [[nodiscard]] int fd() const { return ready_.get(); }
  /// Sockets in which packets wait, at most kMostReady. Valid until the next call.
  [[nodiscard]] std::span<const AddressSocket* const> readable();

  static constexpr std::size_t kMostReady = 16;

 private:
  [[nodiscard]] ipoib::Result<void> join(const Gid& group);

  unsigned interface_ = 0;
  ipoib::FileDescriptor ready_;  ///< of epoll
  std::map<Gid, AddressSocket> sockets_;
  std::vector<const AddressSocket*> readable_;
};

}  // namespace softib::roce
