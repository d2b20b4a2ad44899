#include "linux/netlink_sockets.hpp"

#include <netlink/errno.h>
#include <netlink/netlink.h>

#include "linux/netlink_error.hpp"

namespace ipoib::linux {

void NetlinkSockets::Free::operator()(nl_sock* socket) const { nl_socket_free(socket); }

Result<NetlinkSockets> NetlinkSockets::open() {
  NetlinkSockets sockets{Socket(nl_socket_alloc()), Socket(nl_socket_alloc())};
  if (!sockets.events || !sockets.queries)
    return netlink_error("cannot open a netlink socket", -NLE_NOMEM);
  // Notifications are no responses, so their sequence numbers match no request.
  nl_socket_disable_seq_check(sockets.events.get());
  for (auto* const socket : {sockets.events.get(), sockets.queries.get()}) {
    if (const int error = nl_connect(socket, NETLINK_ROUTE); error < 0) {
      return netlink_error("cannot open a netlink socket", error);
    }
  }
  if (const int error = nl_socket_set_nonblocking(sockets.events.get()); error < 0) {
    return netlink_error("cannot make a netlink socket non-blocking", error);
  }
  return sockets;
}

}  // namespace ipoib::linux
