#include "linux/netlink_dump.hpp"

#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>

#include <memory>

#include "linux/netlink_error.hpp"

namespace ipoib::linux {
namespace {

constexpr int kMaxAttempts = 5;

int visit_message(nl_msg* message, void* argument) {
  (*static_cast<const std::function<void(nlmsghdr*)>*>(argument))(nlmsg_hdr(message));
  return NL_OK;
}

int dump_once(nl_sock* socket, const DumpRequest& request,
              const std::function<void(nlmsghdr*)>& visit) {
  const std::unique_ptr<nl_msg, decltype(&nlmsg_free)> message(
      nlmsg_alloc_simple(request.type, NLM_F_DUMP), &nlmsg_free);
  if (!message) return -NLE_NOMEM;
  // libnl takes a void* but only reads from it.
  auto* const header = const_cast<std::uint8_t*>(request.header.data());
  if (nlmsg_append(message.get(), header, request.header.size(), NLMSG_ALIGNTO) < 0) {
    return -NLE_MSGSIZE;
  }
  const auto out_interface = static_cast<std::uint32_t>(request.out_interface);
  if (out_interface != 0 && nla_put_u32(message.get(), RTA_OIF, out_interface) < 0) {
    return -NLE_MSGSIZE;
  }
  if (const int error = nl_send_auto(socket, message.get()); error < 0) return error;
  nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, &visit_message,
                      const_cast<std::function<void(nlmsghdr*)>*>(&visit));
  return nl_recvmsgs_default(socket);
}

}  // namespace

Result<void> netlink_dump(nl_sock* socket, const DumpRequest& request,
                          const std::function<void()>& start,
                          const std::function<void(nlmsghdr*)>& visit) {
  int error = -NLE_DUMP_INTR;
  for (int i = 0; i < kMaxAttempts && error == -NLE_DUMP_INTR; ++i) {
    start();
    error = dump_once(socket, request, visit);
  }
  // The kernel does not support this family, so there is nothing to list.
  if (error >= 0 || error == -NLE_AF_NOSUPPORT || error == -NLE_OPNOTSUPP) return {};
  return netlink_error("cannot list the host's configuration", error);
}

}  // namespace ipoib::linux
