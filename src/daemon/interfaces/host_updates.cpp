#include "daemon/interfaces/host_updates.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "ipoib/random_bits.hpp"

namespace ipoib::daemon {

namespace {

// Between two dumps of the host's configuration, to combine changes.
constexpr std::chrono::milliseconds kHostPause{50};
// Routes can wait: the interface's thread follows their changes itself.
constexpr std::chrono::seconds kRoutePause{1};
// The control thread has other work than reading the host's configuration: this share of its time.
constexpr int kHostShare = 4;
// Between two dumps because of redirects, which strangers can send.
constexpr std::chrono::seconds kRedirectPause{1};
// How often the kernel is asked whether it still follows a redirect: it forgets them in silence.
constexpr std::chrono::seconds kRedirectCheck{30};
}  // namespace

HostUpdates::HostUpdates(Dependencies dependencies)
    : dependencies_(std::move(dependencies)),
      timer_(dependencies_.context, [this] { update(); }),
      redirect_timer_(dependencies_.context, [this] { check_redirects(); }),
      watch_(dependencies_.context, dependencies_.host.descriptor(), [this] { on_event(); }) {
  timer_.set(monotonic_now());
}

/// Handles the first change at once, and further ones together after a pause.
void HostUpdates::on_event() {
  using Pending = host::HostMirror::Pending;
  const Pending pending = dependencies_.host.take_events();
  if (pending == Pending::none) return;
  const bool can_wait = pending == Pending::routes;
  if (timer_.is_set() && (can_wait || !is_late_)) return;
  is_late_ = can_wait;
  const auto now = monotonic_now();
  timer_.set(std::max(can_wait ? now + kRoutePause : now, not_before_));
}

void HostUpdates::update() {
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
    if (auto& view = *update) {
      has_redirects_ = !view->redirects.empty();
      dependencies_.trace.record("host changed", now, view->addresses.size(), view->tables.size());
      if (view->routes_left_out > 0) {
        dependencies_.log.warn(
            "{} routes through the interface are ignored, beyond the maximum of {}",
            view->routes_left_out, HostView::kMaxRoutes);
      }
      auto routes = take_routes(*view);
      dependencies_.changed({std::move(*view), std::move(routes), began});
    }
    if (has_redirects_) redirect_timer_.set(now + kRedirectCheck);
  }
  dependencies_.updated();
}

/// Builds the routes, and destroys those that the interface's thread has released.
std::shared_ptr<link::HostRoutes> HostUpdates::take_routes(HostView& view) {
  std::erase_if(routes_given_, [](const auto& given) { return given.use_count() == 1; });
  const HashKey key(random_bits(), random_bits());
  routes_given_.push_back(std::make_shared<link::HostRoutes>(view, key));
  view.tables.clear();
  view.nexthops.clear();
  return routes_given_.back();
}

// --- Changes that the kernel does not announce ---------------------------------------------------

void HostUpdates::update_soon() {
  is_late_ = false;
  timer_.set(std::max(monotonic_now(), not_before_));
}

void HostUpdates::expect_change() {
  dependencies_.host.expect_change();
  on_event();
}

void HostUpdates::expect_view() {
  dependencies_.host.expect_routes();
  on_event();
}

void HostUpdates::expect_redirect() {
  redirect_timer_.set(std::max(monotonic_now(), redirects_not_before_));
}

void HostUpdates::check_redirects() {
  redirects_not_before_ = monotonic_now() + kRedirectPause;
  expect_change();
}

void HostUpdates::check_arp_policy() {
  if (dependencies_.host.check_arp_policy()) on_event();
}

}  // namespace ipoib::daemon
