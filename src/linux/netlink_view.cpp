#include "linux/netlink_view.hpp"

#include <net/if.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <sys/socket.h>

#include <algorithm>

#include "linux/ethernet_links.hpp"
#include "linux/host_reader.hpp"
#include "linux/local_addresses.hpp"
#include "linux/netlink_error.hpp"

namespace ipoib::linux {

namespace {

// The buffer for bursts of notifications, in bytes; an overrun causes one ENOBUFS and one dump.
constexpr int kEventBuffer = 256 * 1024;

// RTNLGRP_IPV4_MCADDR and RTNLGRP_IPV6_MCADDR, missing in older headers.
constexpr int kIpv4GroupChanges = 37;
constexpr int kIpv6GroupChanges = 38;

struct Watch {
  int interface_index;
  int configured_index;  ///< the same, or its master
  bool is_tap;
  LinkLocal& link_local;
  bool& routes_changed;
  HostMirror::Pending pending = HostMirror::Pending::none;
};

/// Notes whether a notification concerns the watched interface.
int note_event(nl_msg* message, void* argument) {
  auto* const watch = static_cast<Watch*>(argument);
  const bool concerned = concerns_host_view(nlmsg_hdr(message), watch->interface_index) ||
                         concerns_host_view(nlmsg_hdr(message), watch->configured_index) ||
                         (watch->is_tap && concerns_ethernet_links(nlmsg_hdr(message)));
  using Pending = HostMirror::Pending;
  if (concerned) {
    const bool is_only_routes = concerns_only_routes(nlmsg_hdr(message));
    watch->pending = std::max(watch->pending, is_only_routes ? Pending::routes : Pending::any);
    watch->routes_changed |= is_only_routes;
  }
  watch->link_local.on_event(nlmsg_hdr(message));
  return NL_OK;
}

/// Makes the kernel filter dumps; before Linux 4.20 it lists everything.
void ask_for_strict_checking(nl_sock* socket) {
  const int on = 1;
  (void)setsockopt(nl_socket_get_fd(socket), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof on);
}

}  // namespace

NetlinkView::NetlinkView(NetlinkSockets sockets, HostGroups groups, int interface_index,
                         const std::optional<Ipv6Address>& link_local)
    : events_(std::move(sockets.events)),
      queries_(std::move(sockets.queries)),
      groups_(std::move(groups)),
      interface_index_(interface_index),
      configured_{interface_index, {}},
      link_local_(interface_index, link_local) {}

Result<std::unique_ptr<NetlinkView>> NetlinkView::open(
    int interface_index, const std::optional<Ipv6Address>& link_local) {
  auto sockets = NetlinkSockets::open();
  if (!sockets) return sockets.error();
  auto& [events, queries] = *sockets;
  ask_for_strict_checking(queries.get());
  (void)nl_socket_set_buffer_size(events.get(), kEventBuffer, 0);
  if (const int error = nl_socket_add_memberships(
          events.get(), RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
          RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
          RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE, RTNLGRP_NEXTHOP, RTNLGRP_NONE);
      error < 0) {
    return netlink_error("cannot subscribe to changes of addresses and routes", error);
  }
  // Linux 6.14 and later have these groups; see expect_change() for older kernels.
  for (const int group : {kIpv4GroupChanges, kIpv6GroupChanges}) {
    (void)nl_socket_add_membership(events.get(), group);
  }
  auto groups = HostGroups::open();
  if (!groups) return groups.error();
  return std::unique_ptr<NetlinkView>(
      new NetlinkView(std::move(*sockets), std::move(*groups), interface_index, link_local));
}

int NetlinkView::descriptor() const { return nl_socket_get_fd(events_.get()); }

void NetlinkView::drain_events() {
  Watch watch{.interface_index = interface_index_,
              .configured_index = configured_.index,
              .is_tap = last_ && last_->mac,
              .link_local = link_local_,
              .routes_changed = routes_changed_,
              .pending = pending_};
  nl_socket_modify_cb(events_.get(), NL_CB_VALID, NL_CB_CUSTOM, &note_event, &watch);
  int error = 0;
  for (int i = 0; i < kMaxEventReads && error >= 0; ++i) {
    error = nl_recvmsgs_default(events_.get());
  }
  // After any other error (mostly ENOBUFS) notifications were lost, which may have concerned
  // anything.
  const bool lost = error < 0 && error != -NLE_AGAIN;
  if (lost) link_local_.on_events_lost();
  pending_ = lost ? Pending::any : watch.pending;
  routes_changed_ |= lost;
}

Result<HostView> NetlinkView::take_snapshot() {
  is_duplicate_ = false;
  rtnl_link* raw = nullptr;
  const int error = rtnl_link_get_kernel(queries_.get(), interface_index_, nullptr, &raw);
  const std::unique_ptr<rtnl_link, decltype(&rtnl_link_put)> link(raw, &rtnl_link_put);
  if (error == -NLE_NODEV || error == -NLE_OBJ_NOTFOUND) {
    exists_ = false;
    return HostView();
  }
  if (error < 0) return netlink_error("cannot read the interface's flags", error);
  name_ = rtnl_link_get_name(link.get());
  const bool is_up = (rtnl_link_get_flags(link.get()) & IFF_UP) != 0;
  if (!is_up) return HostView{.mac = mac_of(link.get())};
  const auto master = master_of(queries_.get(), link.get());
  const InterfaceName own{interface_index_, name_};
  configured_ = master ? master->interface : own;
  if (!master) {
    if (auto done = ensure_link_local(rtnl_link_get_mtu(link.get())); !done) return done.error();
  }
  const auto own_mac = mac_of(link.get());
  const auto mac = own_mac && master && master->mac ? master->mac : own_mac;
  EthernetLinks links;
  if (mac) {
    auto read = read_ethernet_links(queries_.get(), interface_index_);
    if (!read) return read.error();
    links = std::move(*read);
    // Another port speaks for the bond's addresses.
    if (links.is_backup) return HostView{.mac = mac, .macs = std::move(links.macs)};
  }
  auto view = read_host_view(queries_.get(), configured_,
                             arp_.read(configured_.name).value_or(ArpPolicy()));
  if (!view) return view.error();
  auto proxied = read_proxied_addresses();
  if (!proxied) return proxied.error();
  view->proxied = std::move(*proxied);
  auto groups = groups_.read(configured_.name);
  if (!groups) return groups.error();
  view->groups = std::move(*groups);
  view->mac = mac;
  view->mtu = rtnl_link_get_mtu(link.get());
  view->macs = std::move(links.macs);
  view->link_addresses = std::move(links.addresses);
  return view;
}

Result<void> NetlinkView::ensure_link_local(std::uint32_t mtu) {
  if (auto done = link_local_.ensure(queries_.get(), mtu); !done) return done.error();
  const auto is_duplicate = link_local_.is_duplicate(queries_.get());
  if (!is_duplicate) return is_duplicate.error();
  is_duplicate_ = *is_duplicate;
  return {};
}

void NetlinkView::set_link_local(const Ipv6Address& address) {
  link_local_.replace(address);
  is_duplicate_ = false;
  pending_ = Pending::any;
}

/// Decides as the kernel's arp_process() does.
bool NetlinkView::permits_reply(Ipv4Address target, Ipv4Address sender) {
  if (!last_) return false;
  const bool is_local = std::ranges::any_of(
      last_->local, [target](const IpPrefix& one) { return one.contains(target); });
  if (is_local) {
    const auto back =
        out_interface(queries_.get(), {.destination = sender, .source = target, .in_interface = 0});
    return back == configured_.index;
  }
  const auto onward = out_interface(
      queries_.get(), {.destination = target, .source = sender, .in_interface = configured_.index});
  if (!onward) return false;
  if (*onward != configured_.index) {
    if (arp_.proxies(configured_.name)) return true;
    const auto proxied = read_proxied_addresses();
    return proxied && std::ranges::binary_search(*proxied, target);
  }
  return arp_.proxies_within(configured_.name) && target != sender;
}

/// Compares settings and proxied neighbours, whose changes the kernel does not announce either.
bool NetlinkView::check_arp_policy() {
  if (!last_ || name_.empty() || pending_ == Pending::any) return pending_ == Pending::any;
  const auto proxied = read_proxied_addresses();
  const bool has_changed =
      arp_.read(configured_.name) != last_->arp || !proxied || *proxied != last_->proxied;
  if (has_changed) pending_ = Pending::any;
  return has_changed;
}

Result<std::vector<Ipv4Address>> NetlinkView::read_proxied_addresses() {
  if (!arp_.forwards(configured_.name)) return std::vector<Ipv4Address>();
  return read_proxied(queries_.get(), configured_.index);
}

HostMirror::Pending NetlinkView::take_events() {
  drain_events();
  return pending_;
}

Result<std::optional<HostView>> NetlinkView::update() {
  if (take_events() == Pending::none) return std::optional<HostView>();
  auto snapshot = take_snapshot();
  if (!snapshot) return snapshot.error();
  pending_ = Pending::none;
  if (last_ == *snapshot && !std::exchange(routes_changed_, false)) {
    return std::optional<HostView>();
  }
  routes_changed_ = false;
  last_ = *snapshot;
  return std::optional<HostView>(std::move(*snapshot));
}

}  // namespace ipoib::linux
