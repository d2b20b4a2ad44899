// The part of InterfaceLoop that moves the interface from one of its ports to the other, and
// replaces its part on a port whose device was repaired.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/pump/interface_loop.hpp"
#include "ipoib/log.hpp"
#include "ipoib/log_event.hpp"

namespace ipoib::daemon {

namespace {

/// The whole cache of a link.
link::SavedPage save_all(const link::Link& link, TimePoint now) {
  auto all = link.save({}, kSavedPage, now);
  while (all.next) {
    auto page = link.save(*all.next, kSavedPage, now);
    all.neighbours.insert(all.neighbours.end(), page.neighbours.begin(), page.neighbours.end());
    all.next = page.next;
  }
  return all;
}

/// Whether what is reached from one port has the same addresses as seen from the other.
bool are_in_one_subnet(const link::PortStatus& a, const link::PortStatus& b) {
  return a.gid.prefix() == b.gid.prefix() && a.sm_lid == b.sm_lid;
}

std::string text_of(PortSelection::Reason reason, const LinkPort& from) {
  switch (reason) {
    case PortSelection::Reason::down:
      return from.name().text() + " waits for " + from.link().waiting_for();
    case PortSelection::Reason::silent:
      return from.name().text() + " is ACTIVE, but passes nothing";
    case PortSelection::Reason::no_sm:
      return from.name().text() + " has no subnet manager";
    case PortSelection::Reason::primary_is_back:
      return "the primary port can be used again";
  }
  return {};
}

}  // namespace

void InterfaceLoop::select_port() {
  if (!selection_) return;
  for (const PortRole role : kPortRoles) selection_->on_health(role, ports_[role]->health(), now_);
  const auto& before = active();
  if (const auto move = selection_->next(now_)) move_to(move->to, text_of(move->why, before));
}

void InterfaceLoop::serve_by(PortRole role) {
  LinkPort& after = *ports_[role];
  reporter_.move(active().link(), after.link(), now_);
  active_ = role;
  settings_.identity.device = after.name().device;
  settings_.identity.port = after.name().port;
  status_.port = after.status();
}

bool InterfaceLoop::is_in_one_subnet_with(const PortName& port) {
  return std::ranges::any_of(ports_.values, [&](const auto& each) {
    return each && each->name() == port && are_in_one_subnet(each->status(), active().status());
  });
}

/// The other port gets the neighbours, so that the host's packets go on at once. Before its
/// settings are made, the one before must not turn off the carrier.
void InterfaceLoop::move_to(PortRole role, const std::string& why) {
  LinkPort& before = active();
  LinkPort& after = *ports_[role];
  auto saved = save_all(before.link(), now_);
  if (!are_in_one_subnet(before.status(), after.status())) saved.neighbours.clear();
  serve_by(role);
  const PumpMode mode = before.pump().mode();
  before.pump().set_mode(mode == PumpMode::active ? PumpMode::standby : mode, now_);
  before.link().flush();
  after.link().flush();
  const auto added = after.link().restore(saved, now_);
  after.pump().set_mode(mode, now_);
  after.pump().drain(now_);
  show_speed();
  ++status_.failovers;
  dependencies_.trace.record("failover", now_, static_cast<std::uint64_t>(role), added);
  dependencies_.log.log(message_id(events::kFailover), spdlog::level::warn,
                        "{} serves the interface now, with {} neighbours: {}", after.name().text(),
                        added, why);
  report_link();
}

/// Keeps the counters of a part. Gauges are not kept: those of the new part count.
void InterfaceLoop::retire(LinkPort& port) {
  retired_.link += port.link().counters();
  retired_.queue_pair += port.queue_pair().counters();
  retired_.to_host += port.pump().counters();
  retired_.resolution += port.link().neighbour_statistics().resolution;
  retired_.tx_timeouts += port.tx_timeouts();
}

/// Requires two ports, and that the interface has left this one. The new part begins as at the
/// start; it learns here what the host has, and from SetNeighbours what the operator has set.
void InterfaceLoop::replace_port(const PortReplaced& message) {
  auto& port = ports_[message.role];
  LinkPort& other = *ports_[other_than(message.role)];
  const auto before = std::move(port);
  const LinkPort::Dependencies parts{*message.pump, *message.queue_pair, dependencies_.trace,
                                     dependencies_.log};
  port = std::make_unique<LinkPort>(before->name(), parts);
  dependencies_.routes.remove(before->link());
  dependencies_.routes.add(port->link());
  Pump& pump = port->pump();
  pump.host().share_view_of(other.pump().host(), now_);
  const PumpMode mode = before->pump().mode();
  const PumpMode of_others = other.pump().mode();
  pump.set_mode(mode == PumpMode::standby || mode == PumpMode::active ? mode : of_others, now_);
  pump.on_host_changed(host_, now_);
  if (message.role == active_) reporter_.move(before->link(), port->link(), now_);
  retire(*before);
  if (is_observed_) observe_ports();
  before->pump().host().leave_view();
  dependencies_.log.info("{} is used again", port->name().text());
  released_.push_back({message.role});
}

control::Response InterfaceLoop::fail_over(const control::FailoverRequest& request) {
  if (!selection_) return Error(EOPNOTSUPP, "the interface has one port: see ipoibd --backup");
  PortRole to = other_than(active_);
  if (!request.device.empty()) {
    const PortName wanted{request.device, request.port};
    if (active().name() == wanted) return control::Reply(control::Done{});
    if (ports_[to]->name() != wanted) {
      return Error(ENODEV, wanted.text() + " is not a port of the interface, which has " +
                               ports_[PortRole::primary]->name().text() + " and " +
                               ports_[PortRole::backup]->name().text());
    }
  }
  const LinkPort& port = *ports_[to];
  if (port.health() == PortHealth::down) {
    return Error(ENETDOWN, port.name().text() + " cannot serve the interface: it waits for " +
                               port.link().waiting_for());
  }
  selection_->choose(to);
  move_to(to, "the operator has chosen it");
  return control::Reply(control::Done{});
}

}  // namespace ipoib::daemon
