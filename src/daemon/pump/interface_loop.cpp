#include "daemon/pump/interface_loop.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/pump/pools.hpp"
#include "daemon/pump/sa_requests.hpp"
#include "ipoib/log.hpp"
#include "ipoib/log_event.hpp"
#include "ipoib/overloaded.hpp"
#include "verbs/receive_layout.hpp"

namespace ipoib::daemon {

namespace {

static_assert(verbs::kSpareReceiveFrames >= kBatch, "a batch must leave frames to post receives");

}  // namespace

InterfaceLoop::InterfaceLoop(Settings settings, const Dependencies& dependencies)
    : settings_(std::move(settings)), dependencies_(dependencies), policy_(settings_.poll) {
  const auto& [interface, device, port, pid] = settings_.identity;
  const auto make = [&dependencies](PortName name, Pump& pump, verbs::RecoverableUdPort& qp) {
    dependencies.routes.add(pump.link());
    return std::make_unique<LinkPort>(
        std::move(name), LinkPort::Dependencies{pump, qp, dependencies.trace, dependencies.log});
  };
  ports_[PortRole::primary] = make({device, port}, dependencies.pump, dependencies.queue_pair);
  const auto& backup = dependencies.backup;
  if (!backup) return;
  ports_[PortRole::backup] = make(backup->port, backup->pump, backup->queue_pair);
  selection_.emplace(backup->selection);
  backup->pump.host().share_view_of(dependencies.pump.host(), {});
}

void InterfaceLoop::run() {
  while (!stopping_) turn();
  now_ = dependencies_.sleeper.now();
  active().pump().host().stop_view();
  for_each_port([this](LinkPort& port) {
    port.link().shut_down(now_);
    port.pump().drain(now_);
    post_messages(port);
  });
  (void)dependencies_.outbox.post(Stopped{std::move(stop_reason_)});
}

void InterfaceLoop::turn() {
  now_ = dependencies_.sleeper.now();
  dependencies_.routes.turn(now_);
  if (dependencies_.inbox.has_messages()) take_messages();
  bool busy = false;
  for_each_port([&](LinkPort& port) { busy |= port.turn(now_); });
  select_port();
  if (active().pump().mode() == PumpMode::held) prepare_takeover();
  for_each_port([this](LinkPort& port) { post_messages(port); });
  std::erase_if(released_, [this](const PortReleased& m) { return dependencies_.outbox.post(m); });
  if (reported_ != link().state()) report_link();
  auto& wants_view = dependencies_.routes.wants_view();
  if (wants_view) wants_view = !dependencies_.outbox.post(RoutesWanted{});
  report_changes();
  answer_resolutions();
  if (is_observed_ && !captures_.is_on()) observe_ports();
  if (dependencies_.tun.is_gone()) end({StopReason::Kind::deleted, {}});
  if (stopping_) return;
  if (busy) {
    policy_.on_work(now_);
  } else if (policy_.on_idle(now_) == PollPolicy::Next::sleep) {
    sleep();
  }
}

void InterfaceLoop::sleep() {
  if (arm()) return policy_.on_work(now_);
  const WokenBy woken = dependencies_.sleeper.sleep(now_, next_deadline());
  if (woken.routes) dependencies_.routes.refresh(now_);
  if (woken.completions) for_each_port([](LinkPort& port) { port.on_completions(); });
}

/// Returns whether there is more to do.
bool InterfaceLoop::arm() {
  bool has_work = false;
  for_each_port([&](LinkPort& port) { has_work |= port.arm(now_); });
  return has_work;
}

TimePoint InterfaceLoop::next_deadline() {
  auto due = std::min(reporter_.next_deadline(link()), resolutions_.next_deadline());
  for_each_port([&due](const LinkPort& port) { due = std::min(due, port.next_deadline()); });
  return selection_ ? std::min(due, selection_->next_deadline()) : due;
}

void InterfaceLoop::end(StopReason why) {
  if (stopping_) return;
  stopping_ = true;
  stop_reason_ = std::move(why);
}

// --- Messages of the control thread --------------------------------------------------------------

/// A link that goes down hands over to the other port before its instructions are carried out.
void InterfaceLoop::take_messages() {
  dependencies_.inbox.drain(messages_);
  for (auto& message : messages_) {
    dependencies_.trace.record("message", now_, message.index());
    take(message);
    select_port();
    for_each_port([this](LinkPort& port) { port.pump().drain(now_); });
  }
  messages_.clear();
}

void InterfaceLoop::take(ToInterface& message) {
  std::visit(
      Overloaded{
          [&](const PortChanged& m) { on_port(m); },
          [&](const ClientReregister& m) { ports_[m.role]->link().on_client_reregister(now_); },
          [&](const ObjectFailed& m) {
            for_each_port([&](LinkPort& port) { port.queue_pair().on_object_failed(m.object); });
          },
          [&](const SubnetNotice& m) { ports_[m.role]->link().on_notice(m.notice, now_); },
          [&](const HostChanged& m) {
            knows_host_ = true;
            if (selection_) host_ = m;
            for_each_port([&](LinkPort& port) { port.pump().on_host_changed(m, now_); });
            dependencies_.routes.on_view(m.began, now_);
            host_mtu_ = m.view.mtu;
            check_mtu();
            if (reporter_.is_on()) admin_up_ = dependencies_.tun.is_up();
          },
          [&](const wire::SaResponse& m) { ports_[port_of(m.id)]->link().on_response(m, now_); },
          [&](const ArpReplyPermitted& m) { link().reply_to_arp(m.request, now_); },
          [&](const SetNeighbours& m) { set_neighbours(m); },
          [&](const Reconfigured& m) { reconfigure(m); },
          [&](AdminRequest& m) { on_admin_request(m); },
          [&](Renamed& m) {
            dependencies_.routes.rename(m.name);
            settings_.identity.interface = std::move(m.name);
          },
          [&](const PortReplaced& m) { replace_port(m); },
          [&](StartCapture& m) {
            captures_.add(m.request, std::move(m.connection));
            observe_ports();
          },
          [&](const LinkReportRequest&) { report_link(); }, [&](SaveCache& m) { save_cache(m); },
          [&](RestoreCache& m) { restore_cache(std::move(m.saved)); },
          [&](const SetMode& m) { set_mode(m.mode); }, [&](const Stop&) { stopping_ = true; }},
      message);
}

void InterfaceLoop::on_port(const PortChanged& message) {
  ports_[message.role]->on_port(message.status, now_);
  if (is_observed_) observe_ports();
  if (message.role != active_) return;
  status_.port = message.status;
  show_speed();
  const bool waits = link().state() != link::LinkState::up;
  const auto awaited = waits ? link().waiting_for() : std::string();
  if (std::exchange(awaited_, awaited) == awaited || !waits) return;
  dependencies_.log.info("waiting for {}", awaited);
  report_link();
}

void InterfaceLoop::observe_ports() {
  is_observed_ = captures_.is_on();
  for_each_port([this](LinkPort& port) {
    const auto& status = port.status();
    const PKey pkey = status.limited ? PKey(settings_.pkey.value() & ~PKey::kFullMember)
                                     : settings_.pkey.as_full();
    port.pump().observe(is_observed_ ? &captures_ : nullptr, status.lid, pkey);
  });
}

/// The kernel's own driver refuses such an MTU; a TUN cannot.
void InterfaceLoop::check_mtu() {
  const auto allowed = link().mtu();
  const auto excess = allowed != 0 && host_mtu_ > allowed ? host_mtu_ : 0;
  if (std::exchange(excess_mtu_, excess) == excess || excess == 0) return;
  dependencies_.log.warn(
      "the interface has MTU {}, and the link carries {} bytes, by the MTU of the partition's "
      "broadcast group (OpenSM: mtu= in its partitions file): larger packets are fragmented or "
      "refused with an ICMP error",
      excess, allowed);
}

/// Does nothing if the port is down and has no speed, or if another daemon still serves the TUN.
void InterfaceLoop::show_speed() {
  const auto& port = active().status();
  if (!port.active || active().pump().mode() != PumpMode::active) return;
  dependencies_.tun.set_speed(port.rate_mbps);
}

/// If the mailbox is full, the next turn tries again.
void InterfaceLoop::report_link() {
  const auto state = link().state();
  const bool is_up = state == link::LinkState::up;
  const bool posted =
      dependencies_.outbox.post(LinkReport{is_up ? std::string() : link().waiting_for(), active_});
  reported_ = posted ? std::optional(state) : std::nullopt;
}

/// Each port has them, so that the other one can take over.
void InterfaceLoop::set_neighbours(const SetNeighbours& message) {
  std::size_t refused = 0;
  std::string first;
  for (const auto& [address, to, interface] : message.neighbours) {
    for_each_port([&, &address = address, &to = to](LinkPort& port) {
      const auto* const gid = std::get_if<Gid>(&to);
      const auto set = gid != nullptr
                           ? port.link().pin(address, *gid)
                           : port.link().set_permanent(address, std::get<HwAddress>(to), now_);
      if (!set && &port == &active() && refused++ == 0) first = set.error().message;
    });
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
    for_each_port([&address = address](LinkPort& port) { port.link().remove(address); });
    if (to) wanted.neighbours.push_back({address, *to, {}});
  }
  set_neighbours(wanted);
}

/// Whether the interface is up is asked for by the caller, since that takes system calls.
InterfaceState InterfaceLoop::state() {
  status_.tx_timeouts = 0;
  for_each_port([this](const LinkPort& port) { status_.tx_timeouts += port.tx_timeouts(); });
  status_.tx_timeouts += retired_.tx_timeouts;
  InterfaceState state{.identity = settings_.identity,
                       .status = status_,
                       .queue_pair = active().queue_pair().counters(),
                       .to_host = active().pump().counters(),
                       .poll = policy_.counters(),
                       .of_host = dependencies_.tun.drops(),
                       .pkey = settings_.pkey,
                       .admin_up = admin_up_,
                       .ethernet = active().pump().host().ethernet(),
                       .active = active_,
                       .retired = &retired_,
                       .host_mtu = host_mtu_,
                       .captures = captures_.counters()};
  const PortRole other = other_than(active_);
  if (!ports_[other]) return state;
  LinkPort& idle = *ports_[other];
  state.idle.emplace(PortState{other, idle.name(), idle.link(), idle.status(),
                               idle.queue_pair().counters(), idle.pump().counters()});
  return state;
}

// --- Handover ------------------------------------------------------------------------------------

/// If the mailbox is full, the page is lost, and the handover with it.
void InterfaceLoop::save_cache(SaveCache& message) {
  SavedCache page{link().save(message.from, kSavedPage, now_), {}, {}, {}};
  if (selection_) page.selection = selection_->save();
  page.selection.port = active().name();
  page.mtu = active().pump().allowed_mtu(page.mtu);
  const auto* const view = active().pump().host().ethernet();
  const auto* const stations = view != nullptr ? view->stations() : nullptr;
  if (message.from.position == 0 && stations != nullptr) {
    page.stations = stations->table().save(now_);
    page.station_groups = stations->multicast().save();
  }
  (void)dependencies_.outbox.post(CacheSaved{std::move(page), std::move(message.done)});
}

/// The other daemon's port goes on to serve, if it comes up as early as a primary port has to.
void InterfaceLoop::restore_cache(SavedCache&& saved) {
  saved_ = std::move(saved);
  if (!selection_) return;
  for (const PortRole role : kPortRoles) {
    if (ports_[role]->name() != saved_->selection.port) continue;
    selection_->restore(role, saved_->selection);
    if (role != active_) serve_by(role);
  }
}

void InterfaceLoop::set_mode(PumpMode mode) {
  for_each_port([&](LinkPort& port) {
    const bool is_idle = mode == PumpMode::active && &port != &active();
    port.pump().set_mode(is_idle ? PumpMode::standby : mode, now_);
  });
  if (mode == PumpMode::active) serve_stations();
  show_speed();
  (void)dependencies_.outbox.post(ModeReached{mode});
}

/// The link announces their addresses, as peers know them with the other daemon's queue pair.
void InterfaceLoop::serve_stations() {
  active().pump().host().restore(std::exchange(stations_to_serve_, {}), now_);
  active().pump().drain(now_);
}

/// Restores the cache once the link is up, and then waits until its groups are joined.
void InterfaceLoop::prepare_takeover() {
  if (settled_ || !knows_host_) return;
  if (saved_ && link().state() == link::LinkState::up) {
    const auto& port = saved_->selection.port;
    if (!port.device.empty() && !is_in_one_subnet_with(port)) saved_->neighbours.clear();
    const auto added = link().restore(*saved_, now_);
    dependencies_.log.info("has taken {} neighbours from the other daemon", added);
    active().pump().host().restore(saved_->station_groups, now_);
    stations_to_serve_ = std::move(saved_->stations);
    saved_.reset();
    active().pump().drain(now_);
  }
  if (is_settled()) settled_ = dependencies_.outbox.post(ModeReached{PumpMode::held});
}

/// Whether nothing is gained by waiting. A port that is down is settled only if the other one is,
/// too, since that may serve instead.
bool InterfaceLoop::is_settled() {
  if (active().health() != PortHealth::down) return link().is_settled();
  bool are_down = true;
  for_each_port([&](const LinkPort& port) {
    are_down &= port.health() == PortHealth::down && port.link().is_settled();
  });
  return are_down;
}

void InterfaceLoop::on_admin_request(AdminRequest& message) {
  admin_up_ = dependencies_.tun.is_up();
  if (const auto* const wanted = std::get_if<control::SubscribeRequest>(&message.request)) {
    reporter_.watch(wanted->topics, link(), state());
  }
  if (const auto* const wanted = std::get_if<control::ResolveRequest>(&message.request)) {
    const auto added = resolutions_.add(*wanted, message.done, now_);
    if (added) return;
    AdminResponse refused{added.error(), std::move(message.done)};
    if (!dependencies_.outbox.post(std::move(refused))) ++status_.messages_lost;
    return;
  }
  const auto* const failover = std::get_if<control::FailoverRequest>(&message.request);
  AdminResponse response{failover != nullptr ? fail_over(*failover)
                                             : carry_out(message.request, link(), state(), now_),
                         std::move(message.done)};
  if (selection_ && response.response && control::is_change(message.request)) {
    repeat_on(ports_[other_than(active_)]->link(), message.request, now_);
  }
  if (!dependencies_.outbox.post(std::move(response))) ++status_.messages_lost;
}

/// What the link sends for them is posted here, since the pumps have had their turn.
void InterfaceLoop::answer_resolutions() {
  if (resolutions_.next_deadline() == kNever) return;
  const auto& port = status_.port;
  auto answers = resolutions_.turn(link(), {port.gid, port.lid, settings_.pkey}, now_);
  active().pump().drain(now_);
  post_messages(active());
  for (auto& [response, done] : answers) {
    const bool posted =
        dependencies_.outbox.post(AdminResponse{std::move(response), std::move(done)});
    if (!posted) ++status_.messages_lost;
  }
}

void InterfaceLoop::report_changes() {
  auto& stations = active().pump().host().station_events();
  for (const auto& event : stations) reporter_.on_station(event, state(), now_);
  stations.clear();
  if (!reporter_.is_on()) return;
  auto events = reporter_.take(link(), state(), now_);
  if (events.empty()) return;
  ToControl message(Events{std::move(events)});
  if (dependencies_.outbox.post(std::move(message))) return;
  ++status_.messages_lost;
  reporter_.on_lost(std::get<Events>(message).events);  // unchanged, since it was refused
}

/// An SA request that finds the mailbox full fails at once.
void InterfaceLoop::post_messages(LinkPort& port) {
  auto& pump = port.pump();
  while (!pump.to_control().empty()) {
    for (auto& message : std::exchange(pump.to_control(), {})) {
      if (dependencies_.outbox.post(std::move(message))) continue;
      ++status_.messages_lost;
      if (const auto* const request = std::get_if<wire::SaRequest>(&message)) {
        const wire::SaFailure failure(wire::SaFailure::Kind::overloaded);
        port.link().on_response({request->id, failure}, now_);
      }
      pump.drain(now_);
    }
  }
}

}  // namespace ipoib::daemon
