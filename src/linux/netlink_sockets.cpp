#include "linux/netlink_sockets.hpp"

#include <netlink/errno.h>
#include <netlink/netlink.h>

#include "linux/netlink_error.hpp"

namespace ipoib::linux {

void NetlinkSockets::Free::operator()(nl_sock* socket) const { nl_socket_free(socket); }

Result<NetlinkSockets::Socket> NetlinkSockets::open_one() {
  Socket socket(nl_socket_alloc());
  const int error = socket ? nl_connect(socket.get(), NETLINK_ROUTE) : -NLE_NOMEM;
  if (error < 0) return netlink_error("cannot open a netlink socket", error);
  return socket;
}

Result<NetlinkSockets> NetlinkSockets::open() {
  auto events = open_one();
  if (!events) return events.error();
  auto queries = open_one();
  if (!queries) return queries.error();
  NetlinkSockets sockets{std::move(*events), std::move(*queries)};
  // Notifications are no responses, so their sequence numbers match no request.
  nl_socket_disable_seq_check(sockets.events.get());
  if (const int error = nl_socket_set_nonblocking(sockets.events.get()); error < 0) {
    return netlink_error("cannot make a netlink socket non-blocking", error);
  }
  return sockets;
}

}  // namespace ipoib::linux
