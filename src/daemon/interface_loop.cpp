#include "daemon/interface_loop.hpp"

#include <algorithm>
#include <utility>

#include "daemon/pools.hpp"
#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"
#include "verbs/receive_layout.hpp"

namespace ipoib::daemon {

namespace {

// Neighbours that are saved at a time.
constexpr std::size_t kSavedPage = 128;
// Between two repairs of a queue pair that fails again at once.
constexpr Duration kRepairPause = std::chrono::seconds(1);

static_assert(verbs::kSpareReceiveFrames >= kBatch, "a batch must leave frames to post receives");

}  // namespace

InterfaceLoop::InterfaceLoop(Settings settings, const Dependencies& dependencies)
    : settings_(std::move(settings)), dependencies_(dependencies), policy_(settings_.poll) {}

void InterfaceLoop::run() {
  while (!stopping_) turn();
  now_ = dependencies_.sleeper.now();
  dependencies_.pump.link().shut_down(now_);
  dependencies_.pump.drain(now_);
  post_messages();
  (void)dependencies_.outbox.post(Stopped{std::move(stop_reason_)});
}

void InterfaceLoop::turn() {
  now_ = dependencies_.sleeper.now();
  if (dependencies_.inbox.has_messages()) take_messages();
  bool busy = dependencies_.pump.turn(now_);
  busy |= watch_queue_pair();
  if (dependencies_.pump.mode() == PumpMode::held) prepare_takeover();
  post_messages();
  if (reported_ != dependencies_.pump.link().state()) report_link();
  if (reporter_.is_on()) report_changes();
  if (dependencies_.tun.is_gone()) end({StopReason::Kind::deleted, {}});
  if (stopping_) return;
  if (busy) {
    policy_.on_work(now_);
  } else if (policy_.on_idle(now_) == PollPolicy::Next::sleep) {
    sleep();
  }
}

void InterfaceLoop::sleep() {
  if (!std::exchange(armed_, true)) {
    dependencies_.queue_pair.acknowledge_events();
    dependencies_.queue_pair.arm();
    // Completions from before arming raise no event.
    if (dependencies_.pump.from_fabric(now_)) return policy_.on_work(now_);
  }
  if (dependencies_.sleeper.sleep(now_, next_deadline())) armed_ = false;
}

TimePoint InterfaceLoop::next_deadline() const {
  auto& link = dependencies_.pump.link();
  const auto due = std::min(
      {dependencies_.pump.next_deadline(), watchdog_.deadline(), reporter_.next_deadline(link)});
  const bool is_broken = needs_repair_ || dependencies_.queue_pair.is_broken();
  return is_broken ? std::min(due, no_repair_before_) : due;
}

// --- Repair of the queue pair --------------------------------------------------------------------

/// Returns whether the queue pair was repaired, so that it may take waiting sends.
bool InterfaceLoop::watch_queue_pair() {
  const auto& queue_pair = dependencies_.queue_pair;
  if (watchdog_.is_stuck(queue_pair.send_progress(), now_)) {
    ++status_.tx_timeouts;
    needs_repair_ = true;
    dependencies_.log.warn("no send has completed for {} seconds", SendWatchdog::kTimeout.count());
  }
  if (!needs_repair_ && !queue_pair.is_broken()) return false;
  if (now_ < no_repair_before_) return false;
  repair_queue_pair();
  return true;
}

void InterfaceLoop::repair_queue_pair() {
  armed_ = false;
  auto& queue_pair = dependencies_.queue_pair;
  const auto& counters = queue_pair.counters();
  dependencies_.trace.record("restart", now_, counters.send_errors, counters.receive_errors);
  needs_repair_ = false;
  no_repair_before_ = now_ + kRepairPause;
  const auto restarted = queue_pair.restart();
  if (restarted) {
    (void)repair_.succeeded();
    dependencies_.log.warn(
        "queue pair {:#x} was in error ({} sends, {} receives so far) and is up again",
        queue_pair.qpn().value(), counters.send_errors, counters.receive_errors);
    return;
  }
  const auto recreated = recreate_queue_pair();
  if (recreated) {
    (void)repair_.succeeded();
    dependencies_.log.warn("{}; has created another queue pair", restarted.error().message);
    return;
  }
  needs_repair_ = true;
  if (repair_.failed()) {
    dependencies_.log.error("{}; {}; trying again", restarted.error().message,
                            recreated.error().message);
  }
  no_repair_before_ = now_ + repair_.pause();
  dependencies_.pump.link().on_setup_failed(now_);
  dependencies_.pump.drain(now_);
}

/// Even if it fails, there may be another queue pair.
Result<void> InterfaceLoop::recreate_queue_pair() {
  auto& queue_pair = dependencies_.queue_pair;
  const Qpn before = queue_pair.qpn();
  auto recreated = queue_pair.recreate();
  if (recreated || queue_pair.qpn() != before) {
    dependencies_.pump.link().on_queue_pair(queue_pair.qpn(), now_);
    dependencies_.pump.drain(now_);
  }
  return recreated;
}

void InterfaceLoop::end(StopReason why) {
  if (stopping_) return;
  stopping_ = true;
  stop_reason_ = std::move(why);
}

void InterfaceLoop::take_messages() {
  auto& link = dependencies_.pump.link();
  dependencies_.inbox.drain(messages_);
  for (auto& message : messages_) {
    dependencies_.trace.record("message", now_, message.index());
    std::visit(Overloaded{[&](const PortChanged& m) { on_port(m.status); },
                          [&](const ClientReregister&) { link.on_client_reregister(now_); },
                          [&](const ObjectFailed& m) {
                            dependencies_.queue_pair.on_object_failed(m.object);
                          },
                          [&](const SubnetNotice& m) { link.on_notice(m.notice, now_); },
                          [&](const HostChanged& m) {
                            knows_host_ = true;
                            dependencies_.pump.host().on_changed(m.view, now_);
                            if (reporter_.is_on()) admin_up_ = dependencies_.tun.is_up();
                          },
                          [&](const wire::SaResponse& m) { link.on_response(m, now_); },
                          [&](const ArpReplyPermitted& m) { link.reply_to_arp(m.request, now_); },
                          [&](const SetNeighbours& m) { set_neighbours(m); },
                          [&](const Reconfigured& m) { reconfigure(m); },
                          [&](AdminRequest& m) { on_admin_request(m); },
                          [&](Renamed& m) { settings_.identity.interface = std::move(m.name); },
                          [&](const LinkReportRequest&) { report_link(); },
                          [&](SaveCache& m) { save_cache(m); },
                          [&](RestoreCache& m) { saved_ = std::move(m.saved); },
                          [&](const SetMode& m) { set_mode(m.mode); },
                          [&](const Stop&) { stopping_ = true; }},
               message);
    dependencies_.pump.drain(now_);
  }
  messages_.clear();
}

void InterfaceLoop::on_port(const link::PortStatus& status) {
  auto& link = dependencies_.pump.link();
  status_.port = status;
  link.on_port(status, now_);
  const bool waits = link.state() != link::LinkState::up;
  const auto awaited = waits ? link.waiting_for() : std::string();
  if (std::exchange(awaited_, awaited) == awaited || !waits) return;
  dependencies_.log.info("waiting for {}", awaited);
  report_link();
}

/// If the mailbox is full, the next turn tries again.
void InterfaceLoop::report_link() {
  const auto& link = dependencies_.pump.link();
  const auto state = link.state();
  const bool is_up = state == link::LinkState::up;
  const bool posted =
      dependencies_.outbox.post(LinkReport{is_up ? std::string() : link.waiting_for()});
  reported_ = posted ? std::optional(state) : std::nullopt;
}

void InterfaceLoop::set_neighbours(const SetNeighbours& message) {
  auto& link = dependencies_.pump.link();
  std::size_t refused = 0;
  std::string first;
  for (const auto& [address, to, interface] : message.neighbours) {
    const auto* const gid = std::get_if<Gid>(&to);
    const auto set = gid != nullptr ? link.pin(address, *gid)
                                    : link.set_permanent(address, std::get<HwAddress>(to), now_);
    if (!set && refused++ == 0) first = set.error().message;
  }
  if (refused > 0) {
    dependencies_.log.warn("{} static neighbours cannot be set, the first because: {}", refused,
                           first);
  }
}

void InterfaceLoop::reconfigure(const Reconfigured& changes) {
  if (changes.poll) policy_.set_mode(*changes.poll);
  SetNeighbours wanted;
  for (const auto& [address, to] : changes.neighbours) {
    // A pin would not replace a permanent entry.
    dependencies_.pump.link().remove(address);
    if (to) wanted.neighbours.push_back({address, *to, {}});
  }
  set_neighbours(wanted);
}

/// Whether the interface is up is asked for by the caller, since that takes system calls.
InterfaceState InterfaceLoop::state() const {
  return {settings_.identity,
          status_,
          dependencies_.queue_pair.counters(),
          dependencies_.pump.counters(),
          policy_.counters(),
          dependencies_.tun.malformed(),
          settings_.pkey,
          admin_up_,
          dependencies_.pump.host().ethernet()};
}

// --- Handover ------------------------------------------------------------------------------------

/// If the mailbox is full, the page is lost, and the handover with it.
void InterfaceLoop::save_cache(SaveCache& message) {
  auto& pump = dependencies_.pump;
  auto page = pump.link().save(message.from, kSavedPage, now_);
  page.mtu = pump.allowed_mtu(page.mtu);
  (void)dependencies_.outbox.post(CacheSaved{std::move(page), std::move(message.done)});
}

void InterfaceLoop::set_mode(PumpMode mode) {
  dependencies_.pump.set_mode(mode, now_);
  (void)dependencies_.outbox.post(ModeReached{mode});
}

/// Restores the cache once the link is up, and then waits until its groups are joined.
void InterfaceLoop::prepare_takeover() {
  auto& link = dependencies_.pump.link();
  if (settled_ || !knows_host_) return;
  if (saved_ && link.state() == link::LinkState::up) {
    const auto added = link.restore(*saved_, now_);
    dependencies_.log.info("has {} neighbours of the other daemon", added);
    saved_.reset();
    dependencies_.pump.drain(now_);
  }
  if (link.is_settled())
    settled_ = dependencies_.outbox.post(ModeReached{PumpMode::held});
}

void InterfaceLoop::on_admin_request(AdminRequest& message) {
  auto& link = dependencies_.pump.link();
  admin_up_ = dependencies_.tun.is_up();
  if (const auto* const wanted = std::get_if<control::SubscribeRequest>(&message.request)) {
    reporter_.watch(wanted->topics, link, state());
  }
  AdminResponse response{carry_out(message.request, link, state(), now_), std::move(message.done)};
  if (!dependencies_.outbox.post(std::move(response))) ++status_.messages_lost;
}

void InterfaceLoop::report_changes() {
  auto events = reporter_.take(dependencies_.pump.link(), state(), now_);
  if (events.empty()) return;
  ToControl message(Events{std::move(events)});
  if (dependencies_.outbox.post(std::move(message))) return;
  ++status_.messages_lost;
  reporter_.on_lost(std::get<Events>(message).events);  // unchanged, since it was refused
}

/// An SA request that finds the mailbox full fails at once.
void InterfaceLoop::post_messages() {
  auto& pump = dependencies_.pump;
  auto& link = pump.link();
  while (!pump.to_control().empty()) {
    for (auto& message : std::exchange(pump.to_control(), {})) {
      if (dependencies_.outbox.post(std::move(message))) continue;
      ++status_.messages_lost;
      if (const auto* const request = std::get_if<wire::SaRequest>(&message)) {
        const wire::SaFailure failure(wire::SaFailure::Kind::overloaded);
        link.on_response({request->id, failure}, now_);
      }
      pump.drain(now_);
    }
  }
}

}  // namespace ipoib::daemon
