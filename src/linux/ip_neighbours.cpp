#include "linux/ip_neighbours.hpp"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <sys/socket.h>

#include "linux/netlink_error.hpp"

namespace ipoib::linux {

namespace {

using Message = std::unique_ptr<nl_msg, decltype(&nlmsg_free)>;

constexpr unsigned kValid =
    NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY;

/// Makes a message about one neighbour; null if memory is exhausted.
Message message_about(const Gid& gid, std::uint32_t interface_index, int type, int flags) {
  Message message(nlmsg_alloc_simple(type, flags), &nlmsg_free);
  ndmsg header{};
  header.ndm_family = AF_INET6;
  header.ndm_ifindex = static_cast<int>(interface_index);
  if (type == RTM_NEWNEIGH) header.ndm_flags = NTF_USE;
  if (!message || nlmsg_append(message.get(), &header, sizeof(header), NLMSG_ALIGNTO) < 0 ||
      nla_put(message.get(), NDA_DST, static_cast<int>(gid.bytes().size()), gid.bytes().data()) <
          0) {
    return {nullptr, &nlmsg_free};
  }
  return message;
}

int note_state(nl_msg* message, void* argument) {
  const auto* const header = nlmsg_hdr(message);
  if (nlmsg_datalen(header) >= static_cast<int>(sizeof(ndmsg))) {
    *static_cast<unsigned*>(argument) = static_cast<const ndmsg*>(nlmsg_data(header))->ndm_state;
  }
  return NL_OK;
}

int ignore(nl_msg*, void*) { return NL_OK; }

}  // namespace

Result<std::unique_ptr<IpNeighbours>> IpNeighbours::open() {
  auto sockets = NetlinkSockets::open();
  if (!sockets) return sockets.error();
  auto& [events, queries] = *sockets;
  nl_socket_disable_auto_ack(queries.get());
  nl_socket_modify_cb(events.get(), NL_CB_VALID, NL_CB_CUSTOM, &ignore, nullptr);
  if (const int error = nl_socket_add_membership(events.get(), RTNLGRP_NEIGH); error < 0) {
    return netlink_error("cannot subscribe to changes of neighbours", error);
  }
  return std::unique_ptr<IpNeighbours>(new IpNeighbours(std::move(*sockets)));
}

/// Asks the kernel to resolve a neighbour. Waits for the ACK, so that an error is not taken for the
/// response to the next request.
void IpNeighbours::resolve(const Gid& gid) {
  constexpr int kFlags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK;
  const auto message = message_about(gid, interface_index_, RTM_NEWNEIGH, kFlags);
  if (!message || nl_send_auto_complete(queries_.get(), message.get()) < 0) return;
  (void)nl_wait_for_ack(queries_.get());
}

IpNeighbours::State IpNeighbours::state(const Gid& gid) {
  unsigned found = NUD_NONE;
  nl_socket_modify_cb(queries_.get(), NL_CB_VALID, NL_CB_CUSTOM, &note_state, &found);
  const auto message = message_about(gid, interface_index_, RTM_GETNEIGH, NLM_F_REQUEST);
  if (!message || nl_send_auto_complete(queries_.get(), message.get()) < 0 ||
      nl_recvmsgs_default(queries_.get()) < 0) {
    return State::unknown;
  }
  if ((found & kValid) != 0) return State::reachable;
  return (found & NUD_FAILED) != 0 ? State::failed : State::unknown;
}

int IpNeighbours::descriptor() const { return nl_socket_get_fd(events_.get()); }

/// Reads notifications. After an error, such as an overrun (-NLE_NOMEM), the descriptor is still
/// readable if there are more.
void IpNeighbours::take_events() {
  int error = 0;
  for (int i = 0; i < kMaxEventReads && error >= 0; ++i) {
    error = nl_recvmsgs_default(events_.get());
  }
}

}  // namespace ipoib::linux
