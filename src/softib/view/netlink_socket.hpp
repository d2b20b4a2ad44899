// Sockets by which a program talks to the kernel's RDMA family of netlink. Each is a netlink socket
// for messages between programs (NETLINK_USERSOCK), which needs no module of the kernel, so all
// that a program does with it but to send is done by the kernel.
#pragma once

#include <sys/types.h>

#include "softib/core/fabric_types.hpp"

namespace softib::view {

/// Opens one, as socket(2) with this type. Fails with -1 and errno.
int open_netlink_socket(int type);
/// Whether it is one; cheap if the process has opened none.
[[nodiscard]] bool is_netlink_socket(int fd);
/// Sends the answers to what the program sends by it. Returns its size, or -1 with errno.
ssize_t answer_netlink(int fd, ConstBytes sent);

}  // namespace softib::view
