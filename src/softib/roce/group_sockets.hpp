// The sockets of the multicast groups of a process. Each group has one, at port 4791 of its
// address, through which the interface joins it; the kernel gives a copy of each packet to every
// process that has such a socket.
#pragma once

#include <map>
#include <span>

#include "ipoib/result.hpp"
#include "softib/roce/socket_set.hpp"

namespace softib::roce {

class GroupSockets {
 public:
  /// `set` gets the sockets, and must outlive them.
  explicit GroupSockets(SocketSet& set) : set_(set) {}
  GroupSockets(const GroupSockets&) = delete;
  GroupSockets& operator=(const GroupSockets&) = delete;
  ~GroupSockets() { (void)replace({}, 0); }

  /// Leaves all groups that are not among `groups`, and joins the others on the interface with this
  /// index. Returns the error of the first that cannot be joined; the rest is joined.
  ipoib::Result<void> replace(std::span<const Gid> groups, unsigned interface);
  /// Joins the same groups on another interface, those that it can.
  void move_to(unsigned interface);

 private:
  [[nodiscard]] ipoib::Result<void> join(const Gid& group);

  SocketSet& set_;
  unsigned interface_ = 0;
  std::map<Gid, AddressSocket> sockets_;
};

}  // namespace softib::roce
