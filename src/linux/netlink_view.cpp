#include "linux/netlink_view.hpp"

#include <net/if.h>
#include <netlink/addr.h>
#include <netlink/cache.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>

#include <array>
#include <cstring>

#include "linux/netlink_error.hpp"

namespace ipoib::host {

namespace {

// A dump during which the kernel's tables changed is taken again, but not for ever: the change that
// spoilt it has been announced too, so the next update() repairs what is left.
constexpr int kMaxDumpAttempts = 5;

// Room for bursts of notifications, in octets; more than this is one ENOBUFS and one dump.
constexpr int kEventBuffer = 256 * 1024;

struct Watch {
  int interface_index;
  bool concerned;
};

/// Notes whether a notification is about the watched interface.
int note_event(nl_msg* message, void* argument) {
  auto* const watch = static_cast<Watch*>(argument);
  auto* const header = nlmsg_hdr(message);
  switch (header->nlmsg_type) {
    case RTM_NEWADDR:
    case RTM_DELADDR:
      if (nlmsg_datalen(header) >= static_cast<int>(sizeof(ifaddrmsg))) {
        const auto* const about = static_cast<const ifaddrmsg*>(nlmsg_data(header));
        watch->concerned |= static_cast<int>(about->ifa_index) == watch->interface_index;
      }
      break;
    case RTM_NEWLINK:
    case RTM_DELLINK:
      if (nlmsg_datalen(header) >= static_cast<int>(sizeof(ifinfomsg))) {
        const auto* const about = static_cast<const ifinfomsg*>(nlmsg_data(header));
        watch->concerned |= about->ifi_index == watch->interface_index;
      }
      break;
    default:
      break;
  }
  return NL_OK;
}

std::optional<Ipv4Prefix> ipv4_of(rtnl_addr* entry, int interface_index) {
  if (rtnl_addr_get_ifindex(entry) != interface_index) return std::nullopt;
  const nl_addr* const local = rtnl_addr_get_local(entry);
  if (local == nullptr || nl_addr_get_family(local) != AF_INET ||
      nl_addr_get_len(local) != Ipv4Address::kSize) {
    return std::nullopt;
  }
  Ipv4Address::Bytes bytes;
  std::memcpy(bytes.data(), nl_addr_get_binary_addr(local), bytes.size());
  const int length = rtnl_addr_get_prefixlen(entry);
  return Ipv4Prefix{Ipv4Address(bytes), static_cast<std::uint8_t>(length)};
}

using Cache = std::unique_ptr<nl_cache, decltype(&nl_cache_free)>;

Result<std::vector<Ipv4Prefix>> dump_addresses(nl_sock* socket, int interface_index) {
  nl_cache* raw = nullptr;
  int error = -NLE_DUMP_INTR;
  for (int i = 0; i < kMaxDumpAttempts && error == -NLE_DUMP_INTR; ++i) {
    error = rtnl_addr_alloc_cache(socket, &raw);
  }
  if (error < 0) return netlink_error("cannot list the interface's addresses", error);
  const Cache cache(raw, &nl_cache_free);
  std::vector<Ipv4Prefix> out;
  for (auto* object = nl_cache_get_first(cache.get()); object != nullptr;
       object = nl_cache_get_next(object)) {
    // A cache of addresses holds rtnl_addr objects; libnl spells its inheritance as a cast.
    auto* const entry = reinterpret_cast<rtnl_addr*>(object);
    if (const auto prefix = ipv4_of(entry, interface_index)) out.push_back(*prefix);
  }
  return out;
}

}  // namespace

void NetlinkView::CloseSocket::operator()(nl_sock* socket) const { nl_socket_free(socket); }

NetlinkView::NetlinkView(Socket events, Socket queries, int interface_index)
    : events_(std::move(events)), queries_(std::move(queries)), interface_index_(interface_index) {}

Result<std::unique_ptr<NetlinkView>> NetlinkView::open(int interface_index) {
  Socket events(nl_socket_alloc());
  Socket queries(nl_socket_alloc());
  if (!events || !queries) return netlink_error("netlink", -NLE_NOMEM);
  // Notifications come unasked: their sequence numbers answer nothing.
  nl_socket_disable_seq_check(events.get());
  for (auto* const socket : {events.get(), queries.get()}) {
    if (const int error = nl_connect(socket, NETLINK_ROUTE); error < 0) {
      return netlink_error("cannot open a netlink socket", error);
    }
  }
  (void)nl_socket_set_buffer_size(events.get(), kEventBuffer, 0);
  if (const int error =
          nl_socket_add_memberships(events.get(), RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_NONE);
      error < 0) {
    return netlink_error("cannot subscribe to address changes", error);
  }
  if (const int error = nl_socket_set_nonblocking(events.get()); error < 0) {
    return netlink_error("cannot make a netlink socket non-blocking", error);
  }
  return std::unique_ptr<NetlinkView>(
      new NetlinkView(std::move(events), std::move(queries), interface_index));
}

int NetlinkView::descriptor() const { return nl_socket_get_fd(events_.get()); }

bool NetlinkView::drain_events() {
  Watch watch{interface_index_, false};
  nl_socket_modify_cb(events_.get(), NL_CB_VALID, NL_CB_CUSTOM, &note_event, &watch);
  for (;;) {
    const int error = nl_recvmsgs_default(events_.get());
    if (error == -NLE_AGAIN) return watch.concerned;
    // Anything else, ENOBUFS first of all: something was lost, and it may have concerned us.
    if (error < 0) return true;
  }
}

Result<HostSnapshot> NetlinkView::take_snapshot() {
  rtnl_link* raw = nullptr;
  const int error = rtnl_link_get_kernel(queries_.get(), interface_index_, nullptr, &raw);
  const std::unique_ptr<rtnl_link, decltype(&rtnl_link_put)> link(raw, &rtnl_link_put);
  if (error == -NLE_NODEV || error == -NLE_OBJ_NOTFOUND) {
    exists_ = false;
    return HostSnapshot();
  }
  if (error < 0) return netlink_error("cannot read the interface's flags", error);
  if ((rtnl_link_get_flags(link.get()) & IFF_UP) == 0) return HostSnapshot();
  auto addresses = dump_addresses(queries_.get(), interface_index_);
  if (!addresses) return addresses.error();
  return HostSnapshot(std::move(*addresses));
}

bool NetlinkView::take_events() {
  dirty_ |= drain_events();
  return dirty_;
}

Result<std::optional<HostSnapshot>> NetlinkView::update() {
  if (!take_events()) return std::optional<HostSnapshot>();
  auto snapshot = take_snapshot();
  if (!snapshot) return snapshot.error();
  dirty_ = false;
  if (last_ == *snapshot) return std::optional<HostSnapshot>();
  last_ = *snapshot;
  return std::optional<HostSnapshot>(std::move(*snapshot));
}

}  // namespace ipoib::host
