#include "linux/link_settings.hpp"

#include <linux/if_link.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/link/inet6.h>

#include <memory>

#include "linux/netlink_error.hpp"

namespace ipoib::host {

Result<void> disable_generated_link_local(int interface_index) {
  const std::unique_ptr<nl_sock, decltype(&nl_socket_free)> socket(nl_socket_alloc(),
                                                                   &nl_socket_free);
  const std::unique_ptr<rtnl_link, decltype(&rtnl_link_put)> original(rtnl_link_alloc(),
                                                                      &rtnl_link_put);
  const std::unique_ptr<rtnl_link, decltype(&rtnl_link_put)> change(rtnl_link_alloc(),
                                                                    &rtnl_link_put);
  if (!socket || !original || !change) return netlink_error("addr_gen_mode", -NLE_NOMEM);
  if (const int error = nl_connect(socket.get(), NETLINK_ROUTE); error < 0) {
    return netlink_error("cannot open a netlink socket", error);
  }
  rtnl_link_set_ifindex(original.get(), interface_index);
  rtnl_link_inet6_set_addr_gen_mode(change.get(), IN6_ADDR_GEN_MODE_NONE);
  const int error = rtnl_link_change(socket.get(), original.get(), change.get(), 0);
  if (error == 0 || error == -NLE_AF_NOSUPPORT || error == -NLE_OPNOTSUPP) return {};
  return netlink_error("cannot set addr_gen_mode none", error);
}

}  // namespace ipoib::host
