#include "daemon/interfaces/host_follower.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "ipoib/random_bits.hpp"

namespace ipoib::daemon {

namespace {

// Pause between two dumps of the host's configuration, which combines changes.
constexpr std::chrono::milliseconds kHostPause{50};
// Routes can wait: the interface's thread follows their changes itself.
constexpr std::chrono::seconds kRoutePause{1};
// One part in so many of the control thread's time is for reading the host's configuration.
constexpr int kHostShare = 4;
// Pause between two dumps because of redirects, which strangers can send.
constexpr std::chrono::seconds kRedirectPause{1};
// How often the kernel is asked whether it still follows a redirect: it forgets them in silence.
constexpr std::chrono::seconds kRedirectCheck{30};
}  // namespace

HostFollower::HostFollower(Dependencies dependencies)
    : dependencies_(std::move(dependencies)),
      timer_(dependencies_.context, [this] { update(); }),
      redirect_timer_(dependencies_.context, [this] { check_redirects(); }),
      watch_(dependencies_.context, dependencies_.host.descriptor(), [this] { on_event(); }) {
  timer_.set(monotonic_now());
}

/// Handles the first change at once, and further ones together after a pause.
void HostFollower::on_event() {
  using Pending = linux::HostMirror::Pending;
  const Pending pending = dependencies_.host.take_events();
  if (pending == Pending::none) return;
  const bool can_wait = pending == Pending::routes;
  if (timer_.is_set() && (can_wait || !is_late_)) return;
  is_late_ = can_wait;
  const auto now = monotonic_now();
  timer_.set(std::max(can_wait ? now + kRoutePause : now, not_before_));
}

void HostFollower::update() {
  const auto began = monotonic_now();
  auto update = dependencies_.host.update();
  const auto now = monotonic_now();
  is_late_ = false;
  not_before_ = now + std::max<Duration>(kHostPause, kHostShare * (now - began));
  if (!update) {
    if (retry_.failed()) {
      dependencies_.log.warn("{}; trying again", update.error().message);
    }
    timer_.set(now + std::max<Duration>(kHostPause, retry_.pause()));
  } else {
    if (retry_.succeeded()) dependencies_.log.info("reading the host's configuration works again");
    if (*update) take(std::move(**update), began);
    if (has_redirects_) redirect_timer_.set(now + kRedirectCheck);
  }
  check_interface();
}

void HostFollower::take(HostView&& view, TimePoint began) {
  has_redirects_ = !view.redirects.empty();
  addresses_ = view.addresses;
  dependencies_.trace.record("host changed", monotonic_now(), view.addresses.size(),
                             view.tables.size());
  if (view.routes_left_out > 0) {
    dependencies_.log.warn(
        "{} routes through the interface are ignored, beyond the maximum of {}: replace some by "
        "routes of shorter prefixes",
        view.routes_left_out, HostView::kMaxRoutes);
  }
  auto routes = take_routes(view);
  dependencies_.changed({std::move(view), std::move(routes), began});
}

/// Builds the routes, and destroys those that the interface's thread has released.
std::shared_ptr<link::HostRoutes> HostFollower::take_routes(HostView& view) {
  std::erase_if(routes_given_, [](const auto& given) { return given.use_count() == 1; });
  const HashKey key(random_bits(), random_bits());
  routes_given_.push_back(std::make_shared<link::HostRoutes>(view, key));
  view.tables.clear();
  view.nexthops.clear();
  return routes_given_.back();
}

// --- The network interface, and its link-local address -------------------------------------------

void HostFollower::check_interface() {
  if (!dependencies_.host.interface_exists()) return dependencies_.gone();
  const auto& name = dependencies_.host.interface_name();
  if (!name.empty() && name != dependencies_.interface) {
    dependencies_.interface = name;
    dependencies_.renamed(name);
  }
  if (!dependencies_.host.link_local_is_duplicate()) return;
  // Another interface of the same port and partition has the same identifier: in another network
  // namespace, or of another program.
  if (const auto address = dependencies_.link_local.on_duplicate()) {
    dependencies_.log.warn(
        "another interface on the link has the IPv6 link-local address: using {} instead",
        address->to_string());
    set_link_local(*address);
  }
}

void HostFollower::on_guid(Guid guid) {
  if (const auto address = dependencies_.link_local.on_guid(guid)) {
    dependencies_.log.info("the port has another GUID: the IPv6 link-local address is {}",
                           address->to_string());
    set_link_local(*address);
  }
}

void HostFollower::set_link_local(const Ipv6Address& address) {
  dependencies_.host.set_link_local(address);
  is_late_ = false;
  timer_.set(std::max(monotonic_now(), not_before_));
}

bool HostFollower::has_address(const IpAddress& address) const {
  return std::ranges::any_of(addresses_,
                             [&](const auto& prefix) { return prefix.address == address; });
}

bool HostFollower::permits_reply(const wire::Arp& request) {
  return dependencies_.host.permits_reply(request.target_protocol, request.sender_protocol);
}

// --- Changes that the kernel does not announce ---------------------------------------------------

void HostFollower::expect_change() {
  dependencies_.host.expect_change();
  on_event();
}

void HostFollower::expect_view() {
  dependencies_.host.expect_routes();
  on_event();
}

void HostFollower::expect_redirect() {
  redirect_timer_.set(std::max(monotonic_now(), redirects_not_before_));
}

void HostFollower::check_redirects() {
  redirects_not_before_ = monotonic_now() + kRedirectPause;
  expect_change();
}

void HostFollower::check_arp_policy() {
  if (dependencies_.host.check_arp_policy()) on_event();
}

}  // namespace ipoib::daemon
