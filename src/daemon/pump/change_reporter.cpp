#include "daemon/pump/change_reporter.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ipoib/overloaded.hpp"

namespace ipoib::daemon {

namespace {

const char* name(link::NeighbourChange::Kind kind) {
  using Kind = link::NeighbourChange::Kind;
  switch (kind) {
    case Kind::created:
      return "new";
    case Kind::changed:
      return "changed";
    case Kind::removed:
      return "deleted";
  }
  return "changed";
}

const char* name(link::GroupChange::Kind kind) {
  using Kind = link::GroupChange::Kind;
  switch (kind) {
    case Kind::joining:
      return "joining";
    case Kind::joined:
      return "joined";
    case Kind::failed:
      return "failed";
    case Kind::left:
      return "left";
  }
  return "joining";
}

control::Event to_event(const link::Change& change, const ethernet::View* ethernet) {
  return std::visit(
      Overloaded{
          [&](const link::NeighbourChange& each) -> control::Event {
            return control::NeighbourEvent{name(each.kind), each.why,
                                           to_entry(each.neighbour, ethernet)};
          },
          [](const link::GroupChange& each) -> control::Event {
            return control::GroupEvent{name(each.kind), each.why, to_group(each.group)};
          },
      },
      change);
}

/// Who else claims the address.
std::string claim_on(const ethernet::StationEvent& event) {
  if (!event.rival) return {};
  return "claimed by " +
         std::visit([](const auto& rival) { return rival.to_string(); }, *event.rival);
}

}  // namespace

void ChangeReporter::watch(const control::Topics& topics, link::Link& link,
                           const InterfaceState& state) {
  if (topics.link && !wants_link_) reported_ = summary(link, state);
  wants_link_ = topics.link;
  is_link_pending_ &= wants_link_;
  wants_stations_ = topics.stations;
  if (!wants_stations_) stations_.clear();
  is_on_ = topics.neighbours || topics.groups || topics.link || topics.stations;
  wanted_ = {.neighbours = topics.neighbours, .groups = topics.groups};
  link.changes().watch(wanted_);
}

void ChangeReporter::move(link::Link& from, link::Link& to, TimePoint now) {
  const auto left = from.take_changes(link::Changes::kMax, now);
  lost_ += left.changes.size() + left.lost;
  from.changes().watch({});
  to.changes().watch(wanted_);
}

void ChangeReporter::on_station(const ethernet::StationEvent& event, const InterfaceState& state,
                                TimePoint now) {
  if (!wants_stations_) return;
  if (stations_.size() >= kMaxStationEvents) {
    ++lost_;
    return;
  }
  stations_.emplace_back(control::StationEvent{
      name(event.kind), claim_on(event),
      to_station(event.address, event.mac, state.ethernet->stations()->table(), now)});
}

ChangeReporter::Summary ChangeReporter::summary(const link::Link& link,
                                                const InterfaceState& state) {
  const bool is_up = link.state() == link::LinkState::up;
  return {.state = link.state(),
          .waiting_for = is_up ? std::string() : link.waiting_for(),
          .admin_up = state.admin_up,
          .mtu = link.mtu(),
          .hardware = link.hardware_address(),
          .lid = state.status.port.lid,
          .sm_lid = state.status.port.sm_lid,
          .qkey = link.qkey(),
          .limited = state.status.port.limited,
          .host_mtu = state.host_mtu,
          .active = state.active};
}

/// Names of the InterfaceInfo fields that changed.
std::vector<std::string> ChangeReporter::differences(const Summary& before, const Summary& now) {
  std::vector<std::string> out;
  const auto compare = [&](const char* name, const auto& a, const auto& b) {
    if (a != b) out.emplace_back(name);
  };
  compare("state", before.state, now.state);
  compare("waiting_for", before.waiting_for, now.waiting_for);
  compare("admin_up", before.admin_up, now.admin_up);
  compare("mtu", before.mtu, now.mtu);
  compare("qpn", before.hardware.qpn, now.hardware.qpn);
  compare("gid", before.hardware.gid, now.hardware.gid);
  compare("lid", before.lid, now.lid);
  compare("sm_lid", before.sm_lid, now.sm_lid);
  compare("qkey", before.qkey, now.qkey);
  compare("membership", before.limited, now.limited);
  compare("host_mtu", before.host_mtu, now.host_mtu);
  compare("port", before.active, now.active);
  return out;
}

std::vector<control::Event> ChangeReporter::take(link::Link& link, const InterfaceState& state,
                                                 TimePoint now) {
  Summary current;
  if (wants_link_) {
    current = summary(link, state);
    is_link_pending_ = current != reported_;
  }
  std::vector<control::Event> events;
  if (next_deadline(link) > now) return events;
  if (is_link_pending_) {
    auto info = information(link, state);
    info.groups.clear();
    events.emplace_back(control::LinkEvent{differences(reported_, current), std::move(info)});
    before_ = std::exchange(reported_, std::move(current));
    is_link_pending_ = false;
  }
  std::ranges::move(std::exchange(stations_, {}), std::back_inserter(events));
  const auto page = link.take_changes(kMaxEvents - events.size(), now);
  for (const auto& change : page.changes) events.push_back(to_event(change, state.ethernet));
  const auto lost = page.lost + std::exchange(lost_, 0);
  if (lost > 0) events.emplace_back(control::LostEvent{lost});
  not_before_ = now + kPause;
  return events;
}

void ChangeReporter::on_lost(const std::vector<control::Event>& events) {
  for (const auto& event : events) {
    if (const auto* const lost = std::get_if<control::LostEvent>(&event)) {
      lost_ += lost->events;
    } else if (std::holds_alternative<control::LinkEvent>(event)) {
      reported_ = before_;  // so it is reported again
    } else {
      ++lost_;
    }
  }
}

TimePoint ChangeReporter::next_deadline(link::Link& link) const {
  const bool is_due =
      is_on_ && (is_link_pending_ || lost_ > 0 || !stations_.empty() || !link.changes().empty());
  return is_due ? not_before_ : kNever;
}

}  // namespace ipoib::daemon
