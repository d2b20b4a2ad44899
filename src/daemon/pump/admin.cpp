#include "daemon/pump/admin.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "ipoib/overloaded.hpp"
#include "wire/sa_values.hpp"

namespace ipoib::daemon {

namespace {

Error no_entry(const IpAddress& address) {
  return Error(ENOENT, to_string(address) + ": no such entry");
}

control::Response list(const control::ListRequest& request, const link::Link& link,
                       const ethernet::View* ethernet, TimePoint now) {
  // The protocol's cursor is the link's; 0 stands for the beginning in both.
  const link::NeighbourCursor from{request.cursor};
  const auto page = link.list(from, control::kPageEntries, now);
  control::EntryPage out;
  out.entries.reserve(page.entries.size());
  for (const auto& info : page.entries) out.entries.push_back(to_entry(info, ethernet));
  if (page.next) out.next = page.next->position;
  return control::Reply(std::move(out));
}

control::Response stations(const control::StationsRequest& request, const ethernet::View* ethernet,
                           TimePoint now) {
  const ethernet::Stations* const known = ethernet != nullptr ? ethernet->stations() : nullptr;
  if (known == nullptr) {
    return Error(EOPNOTSUPP,
                 "there are no stations: see --ethernet and --ethernet-stations of ipoibd");
  }
  const auto from = static_cast<std::uint32_t>(std::min<std::uint64_t>(request.cursor, UINT32_MAX));
  const auto page = known->table().list(from, control::kPageEntries, now);
  control::StationPage out;
  for (const auto& one : page.stations) {
    out.stations.push_back({one.address, one.mac, name(one.state), is_served(one.state), one.idle});
  }
  if (page.next) out.next = *page.next;
  return control::Reply(std::move(out));
}

control::Response get(const control::GetRequest& request, const link::Link& link,
                      const ethernet::View* ethernet, TimePoint now) {
  const auto info = link.get(request.address, now);
  if (!info) return no_entry(request.address);
  return control::Reply(to_entry(*info, ethernet));
}

/// Carries out a request that creates an entry or a pin with `create`.
template <class Creation, class Create>
control::Response create(const Creation& request, const link::Link& link, TimePoint now,
                         Create carry_out_on) {
  using Mode = control::SetRequest::Mode;
  if (request.mode != Mode::replace) {
    const bool exists = link.get(request.address, now).has_value();
    if (request.mode == Mode::change && !exists) return no_entry(request.address);
    if (request.mode == Mode::add && exists) {
      return Error(EEXIST, to_string(request.address) + ": entry exists already");
    }
  }
  if (auto done = carry_out_on(); !done) return done.error();
  return control::Reply(control::Done{});
}

/// Whether a flush removes the entry; permanent ones only if the filter names their state.
bool removes_entry(const control::Filter& filter, const link::NeighbourInfo& info) {
  using link::NeighbourState;
  if (info.state == NeighbourState::pinned) return false;
  if (info.state == NeighbourState::permanent && filter.states.empty()) return false;
  return filter.matches(info.address, name(info.state));
}

/// Whether a flush removes the pin of an entry.
bool removes_pin(const control::Filter& filter, const link::NeighbourInfo& info) {
  return info.pinned && !filter.states.empty() && filter.matches(info.address, "pinned");
}

std::size_t flush(const control::Filter& filter, link::Link& link, TimePoint now) {
  if (filter.is_empty()) return link.flush();
  std::vector<IpAddress> entries;
  std::vector<IpAddress> pins;
  std::optional<link::NeighbourCursor> next = link::NeighbourCursor{};
  while (next) {
    const auto page = link.list(*next, control::kPageEntries, now);
    for (const auto& info : page.entries) {
      if (removes_pin(filter, info)) {
        pins.push_back(info.address);
      } else if (removes_entry(filter, info)) {
        entries.push_back(info.address);
      }
    }
    next = page.next;
  }
  for (const auto& address : entries) link.remove_entry(address);
  for (const auto& address : pins) link.remove(address);
  return entries.size() + pins.size();
}

void append(const ethernet::Stations& stations, std::vector<control::Counter>& out) {
  using Kind = ethernet::StationEvent::Kind;
  const auto& counters = stations.table().counters();
  const auto events = [&](Kind kind) {
    return stations.table().event_counts()[static_cast<std::size_t>(kind)];
  };
  out.insert(out.end(),
             {{"drop_station_limit", counters.drop_station_limit, true},
              {"drop_station_address", counters.drop_address, true},
              {"drop_station_budget", counters.drop_budget, true},
              {"drop_station_group", counters.drop_group, true},
              {"drop_station_request_limit", counters.request_limit, true},
              {"station_addresses_appeared", events(Kind::appeared), false},
              {"station_addresses_left", events(Kind::left), false},
              {"station_addresses_moved", events(Kind::moved) + events(Kind::moved_out), false},
              {"station_duplicate_addresses", events(Kind::duplicate), false},
              {"station_addresses_evicted", counters.evicted, false},
              {"station_addresses_not_learnt", counters.address_limit, false},
              {"station_groups_left_out", stations.multicast().left_out(), false},
              {"stations", stations.table().stations(), false, true},
              {"station_addresses", stations.table().size(), false, true}});
}

void append(const ethernet::Counters& of_view, std::vector<control::Counter>& out) {
  out.insert(out.end(), {{"drop_ethernet_stp", of_view.drop_stp, true},
                         {"drop_ethernet_lldp", of_view.drop_lldp, true},
                         {"drop_ethernet_vlan", of_view.drop_vlan, true},
                         {"drop_ethernet_type", of_view.drop_type, true},
                         {"drop_ethernet_destination", of_view.drop_destination, true},
                         {"drop_ethernet_source", of_view.drop_source, true},
                         {"drop_ethernet_malformed_arp", of_view.drop_malformed_arp, true},
                         {"drop_ethernet_request_limit", of_view.drop_request_limit, true},
                         {"drop_ethernet_no_frame", of_view.drop_no_frame, true},
                         {"ethernet_requests", of_view.requests, false},
                         {"ethernet_answers", of_view.answers, false},
                         {"ethernet_announcements", of_view.announcements, false}});
}

/// The sum of the counters of all ports, so that none becomes smaller when another port serves.
verbs::UdCounters sum_of_queue_pairs(const InterfaceState& state) {
  auto sum = state.queue_pair;
  if (state.idle) sum += state.idle->queue_pair;
  if (state.retired != nullptr) sum += state.retired->queue_pair;
  return sum;
}
offload::Coalescer::Counters sum_to_host(const InterfaceState& state) {
  auto sum = state.to_host;
  if (state.idle) sum += state.idle->to_host;
  if (state.retired != nullptr) sum += state.retired->to_host;
  return sum;
}

std::vector<control::Counter> counters(const link::Link& link, const InterfaceState& state) {
  std::vector<control::Counter> out;
  for (std::size_t i = 0; i < link::kCounterCount; ++i) {
    const auto counter = static_cast<link::Counter>(i);
    auto value = link.counters()[counter];
    if (state.idle) value += state.idle->link.counters()[counter];
    if (state.retired != nullptr) value += state.retired->link[counter];
    out.push_back({std::string(name(counter)), value, is_drop(counter)});
  }
  const auto pair = sum_of_queue_pairs(state);
  const auto to_host = sum_to_host(state);
  out.insert(out.end(), {{"drop_host_refused", to_host.refused, true},
                         {"drop_host_malformed", state.of_host.malformed, true},
                         {"drop_receive_error", pair.receive_errors, true},
                         {"drop_send_error", pair.send_errors, true},
                         {"drop_receive_malformed", pair.malformed, true},
                         {"drop_receive_reset", pair.receives_lost, true},
                         {"drop_send_flushed", pair.sends_flushed, true},
                         {"send_queue_full", pair.send_queue_full, false},
                         {"receive_starved", pair.receive_starved, false},
                         {"post_refused", pair.post_refused, false},
                         {"queue_pair_bring_ups", pair.bring_ups, false},
                         {"tx_timeouts", state.status.tx_timeouts, false},
                         {"tx_large_packets", pair.large_packets, false},
                         {"tx_segments", pair.segments, false},
                         {"rx_large_packets", to_host.large, false},
                         {"rx_segments", to_host.segments, false},
                         {"sleeps", state.poll.sleeps, false},
                         {"spins", state.poll.spins, false},
                         {"spins_in_vain", state.poll.spins_in_vain, false},
                         {"messages_lost", state.status.messages_lost, false},
                         {"failovers", state.status.failovers, false},
                         {"captured_packets", state.captures.packets, false},
                         {"captured_packets_lost", state.captures.lost, false}});
  if (state.ethernet != nullptr) {
    append(state.ethernet->counters(), out);
    out.push_back({"drop_vlan_queue", state.of_host.vlan_queue, true});
  }
  if (state.ethernet != nullptr && state.ethernet->stations() != nullptr) {
    append(*state.ethernet->stations(), out);
  }
  out.push_back({"neighbours", link.neighbour_count(), false, true});
  const auto& entries = link.neighbour_statistics().entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto of = static_cast<link::NeighbourState>(i);
    out.push_back({"neighbours_" + std::string(name(of)), entries[i], false, true});
  }
  return out;
}

control::Histogram histogram(std::string name, const DurationHistogram& values) {
  control::Histogram out{std::move(name), {}, {}, 0};
  for (const Duration bound : DurationHistogram::kBounds) {
    out.bounds.push_back(static_cast<std::uint64_t>(bound.count()));
  }
  out.counts.assign(values.counts().begin(), values.counts().end());
  out.sum = static_cast<std::uint64_t>(values.sum().count());
  return out;
}

DurationHistogram resolution_times(const link::Link& link, const InterfaceState& state) {
  auto sum = link.neighbour_statistics().resolution;
  if (state.idle) sum += state.idle->link.neighbour_statistics().resolution;
  if (state.retired != nullptr) sum += state.retired->resolution;
  return sum;
}

control::PortInfo port_information(const PortState& port, bool is_active) {
  control::PortInfo info;
  info.device = port.name.device;
  info.port = port.name.port;
  info.role = name(port.role);
  info.active = is_active;
  info.state = name(port.link.state());
  if (port.link.state() != link::LinkState::up) {
    info.waiting_for = port.link.waiting_for();
  } else if (port.status.silent) {
    info.waiting_for = "the SA to answer it: it is ACTIVE, but passes nothing";
  }
  info.gid = port.status.gid;
  info.lid = port.status.lid;
  info.sm_lid = port.status.sm_lid;
  return info;
}

/// Both ports, the primary one first; nothing if there is only one.
std::vector<control::PortInfo> ports_of(const link::Link& link, const InterfaceState& state) {
  if (!state.idle) return {};
  const PortName name{state.identity.device, state.identity.port};
  const PortState active{state.active,     name,         link, state.status.port,
                         state.queue_pair, state.to_host};
  std::vector ports{port_information(active, true), port_information(*state.idle, false)};
  if (state.active != PortRole::primary) std::swap(ports.front(), ports.back());
  return ports;
}

}  // namespace

control::Station to_station(const IpAddress& address, MacAddress mac,
                            const ethernet::StationTable& table, TimePoint now) {
  const ethernet::StationAddress* const entry = table.find(address);
  if (entry == nullptr) return {address, mac, "gone"};
  return {address, entry->mac(), name(entry->state_name()), entry->is_served(),
          now - entry->heard()};
}

control::Entry to_entry(const link::NeighbourInfo& info, const ethernet::View* ethernet) {
  control::Entry entry;
  entry.address = info.address;
  entry.state = name(info.state);
  entry.hardware = info.hardware;
  entry.pinned = info.pinned;
  if (ethernet != nullptr && info.hardware) entry.mac = ethernet->mac_of(*info.hardware);
  if (info.path) {
    entry.path = control::Path{info.path->dlid, info.path->sl, info.path->mtu,
                               wire::rate_mbps(info.path->rate)};
  }
  entry.idle = info.used.value_or(Duration::zero());
  entry.uses = info.uses;
  entry.references = info.references;
  entry.waiting = info.parked;
  return entry;
}

control::Group to_group(const link::GroupInfo& info) {
  return {info.mgid, info.mlid, std::string(name(info.state)), info.address, info.parked};
}

std::string membership(const link::PortStatus& port) {
  if (!port.pkey_index) return {};
  return port.limited ? "limited" : "full";
}

control::InterfaceInfo information(const link::Link& link, const InterfaceState& state) {
  control::InterfaceInfo info;
  info.interface = state.identity.interface;
  info.device = state.identity.device;
  info.port = state.identity.port;
  info.pkey = state.pkey;
  info.qkey = link.qkey();
  info.qpn = link.hardware_address().qpn;
  info.gid = state.status.port.gid;
  info.lid = state.status.port.lid;
  info.sm_lid = state.status.port.sm_lid;
  info.mtu = link.mtu();
  info.host_mtu = state.host_mtu;
  if (state.status.port.active) {
    info.port_mtu = state.status.port.mtu;
    info.port_rate_mbps = state.status.port.rate_mbps;
  }
  info.group_rate_mbps = wire::rate_mbps(link.group_rate());
  info.membership = membership(state.status.port);
  info.admin_up = state.admin_up;
  info.state = name(link.state());
  if (link.state() != link::LinkState::up) info.waiting_for = link.waiting_for();
  info.version = IPOIB_VERSION;
  info.pid = state.identity.pid;
  info.ports = ports_of(link, state);
  for (const auto& group : link.groups()) info.groups.push_back(to_group(group));
  return info;
}

std::vector<control::Counter> port_counters(const verbs::PortCounters& counters) {
  std::vector<control::Counter> out{{"drop_port_bad_pkey", counters.bad_pkey, true},
                                    {"drop_port_bad_qkey", counters.bad_qkey, true}};
  if (counters.missing_receives) {
    out.push_back({"drop_port_no_receive", *counters.missing_receives, true});
  }
  return out;
}

std::vector<control::Counter> sa_counters(const sa::Counters& counters) {
  return {{"drop_sa_foreign_response", counters.foreign_responses, true},
          {"drop_sa_foreign_report", counters.foreign_reports, true},
          {"drop_sa_unmatched", counters.unmatched_mads, true},
          {"drop_sa_malformed_response", counters.malformed_responses, true},
          {"sa_requests", counters.requests, false},
          {"sa_mads_sent", counters.mads_sent, false},
          {"sa_retries", counters.retries, false},
          {"sa_timeouts", counters.timeouts, false},
          {"sa_refusals", counters.refused_by_status, false},
          {"sa_groups_missing", counters.groups_missing, false},
          {"sa_busy", counters.busy, false},
          {"sa_redirects", counters.redirects, false},
          {"sa_reports", counters.reports, false},
          {"sa_send_errors", counters.send_errors, false},
          {"sa_overloaded", counters.overloaded, false},
          {"sa_without_sm", counters.without_sm, false}};
}

control::Response carry_out(const control::InterfaceRequest& request, link::Link& link,
                            const InterfaceState& state, TimePoint now) {
  using control::Reply;
  using control::Response;
  return std::visit(
      Overloaded{
          [&](const control::ListRequest& r) { return list(r, link, state.ethernet, now); },
          [&](const control::GetRequest& r) { return get(r, link, state.ethernet, now); },
          [&](const control::SetRequest& r) {
            return create(r, link, now,
                          [&] { return link.set_permanent(r.address, r.hardware, now); });
          },
          [&](const control::PinRequest& r) {
            return create(r, link, now, [&] { return link.pin(r.address, r.gid); });
          },
          [&](const control::DeleteRequest& r) {
            return link.remove(r.address) ? Response(Reply(control::Done{}))
                                          : Response(no_entry(r.address));
          },
          [&](const control::FlushRequest& r) {
            return Response(Reply(control::Flushed{flush(r.filter, link, now)}));
          },
          [&](const control::StationsRequest& r) { return stations(r, state.ethernet, now); },
          [&](const control::StatsRequest&) { return Response(Reply(counters(link, state))); },
          [&](const control::HistogramsRequest&) {
            return Response(
                Reply(std::vector{histogram("resolution_time", resolution_times(link, state))}));
          },
          [&](const control::InfoRequest&) { return Response(Reply(information(link, state))); },
          // The owner of the link sends the reports.
          [&](const control::SubscribeRequest&) { return Response(Reply(control::Done{})); },
          // The owner of the link waits for the neighbour.
          [&](const control::ResolveRequest& r) {
            return Response(Error(EOPNOTSUPP, to_string(r.address) + ": nobody waits for it"));
          },
          // The owner of the links moves the interface.
          [&](const control::FailoverRequest&) {
            return Response(Error(EOPNOTSUPP, "the interface has one port"));
          },
      },
      request);
}

void repeat_on(link::Link& idle, const control::InterfaceRequest& change, TimePoint now) {
  std::visit(Overloaded{
                 [&](const control::SetRequest& r) {
                   (void)idle.set_permanent(r.address, r.hardware, now);
                 },
                 [&](const control::PinRequest& r) { (void)idle.pin(r.address, r.gid); },
                 [&](const control::DeleteRequest& r) { idle.remove(r.address); },
                 [&](const control::FlushRequest& r) { flush(r.filter, idle, now); },
                 [](const auto&) {},
             },
             change);
}

}  // namespace ipoib::daemon
