#include "ethernet/stations.hpp"

#include <algorithm>
#include <utility>

#include "ethernet/addresses_of.hpp"
#include "ipoib/overloaded.hpp"
#include "ipoib/well_known_groups.hpp"
#include "wire/group_membership.hpp"
#include "wire/vrrp.hpp"

namespace ipoib::ethernet {
namespace {

using wire::ArpOperation;
using wire::EthernetArp;
using wire::EthernetHeader;
using wire::NdMessage;
using wire::NdType;

/// The view asks stations from NeighbourMacs::kOfOthers and the link-local address that belongs to
/// it; by IPv4 as RFC 5227, 2.1 does, since any address could be somebody's.
constexpr Ipv6Address kOfView(Ipv6Address::Bytes{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x04, 0, 0, 0xff,
                                                 0xfe, 0, 0, 0});

}  // namespace

Stations::Stations(std::size_t limit, bool strict, const HashKey& key, const Dependencies& deps)
    : deps_(deps), strict_(strict), table_(limit, key), multicast_(key, deps.messages, kOfView) {}

// --- From stations -------------------------------------------------------------------------------

bool Stations::receive(const Header& header, ConstBytes packet, TimePoint now) {
  const auto addresses = addresses_of(packet);
  if (!addresses) return true;  // the link counts it
  const IpAddress& source = addresses->source;
  const bool is_known = last_.entry != nullptr && last_.version == table_.version() &&
                        last_.mac == header.source && last_.source == source;
  if (is_known) {
    last_.entry->touch(now);
  } else if (!wire::is_virtual_router_mac(header.source) || !wire::is_vrrp_advertisement(packet)) {
    // An advertisement has the virtual MAC, and the address of the router that sends it (RFC 5798,
    // 5.1.1.1, 7.2). So do the reports of a virtual router that joins its group.
    const bool is_strict = strict_ && !wire::changes_host_groups(packet);
    if (!admit_source(header.source, source, is_strict, now)) return false;
  }
  return !header.destination.is_multicast() ||
         receive_multicast(header, addresses->destination, packet, now);
}

bool Stations::receive_multicast(const Header& header, const IpAddress& group, ConstBytes packet,
                                 TimePoint now) {
  using Admission = StationMulticast::Admission;
  StationBudget* const station = table_.station(header.source);
  if (station == nullptr) return false;
  switch (multicast_.receive(*station, group, packet, now)) {
    case Admission::pass:
      return true;
    case Admission::over_budget:
      return drop(&StationCounters::drop_budget);
    case Admission::too_many_groups:
      return drop(&StationCounters::drop_group);
  }
  return false;
}

/// Handles a report of the host. The link knows the groups of its own interface.
void Stations::receive_host_report(ConstBytes packet, TimePoint now) {
  auto memberships = wire::group_memberships(packet);
  std::erase_if(memberships, [this](const wire::GroupMembership& one) {
    return one.is_member && deps_.host.is_in_group(one.group);
  });
  multicast_.on_memberships(deps_.host.mac(), memberships, now);
}

/// Checks the source of a packet. One without a source address is of DHCP or duplicate address
/// detection.
bool Stations::admit_source(MacAddress mac, const IpAddress& source, bool is_strict,
                            TimePoint now) {
  StationBudget* const station = table_.station(mac);
  if (station == nullptr) return false;
  const bool is_unspecified =
      std::visit([](const auto& any) { return any.is_unspecified(); }, source);
  if (is_unspecified) return true;
  if (!may_have(mac, source)) return drop(&StationCounters::drop_address);
  StationAddress* const entry = deps_.host.has(mac, source) ? table_.on_owned(*station, source, now)
                                                            : table_.on_seen(*station, source, now);
  settle(now);
  const bool is_served = entry != nullptr && entry->is_served();
  if (entry != nullptr && !(is_strict ? entry->admits(mac) : entry->receives())) {
    return drop(&StationCounters::drop_address);
  }
  // Only a station that answers for it may have the address of a neighbour.
  if (!is_served && deps_.neighbours.find(source) != nullptr) {
    return drop(&StationCounters::drop_address);
  }
  const bool is_its_own = is_served && entry->mac() == mac;
  last_ = {mac, source, is_its_own ? entry : nullptr, table_.version()};
  return true;
}

bool Stations::may_have(MacAddress mac, const IpAddress& address) const {
  if (!is_of_a_host(address) || deps_.host.is_broadcast(address)) return false;
  if (deps_.host.is_own(address)) return false;
  return !deps_.host.is_local(address) || deps_.host.is_other_mac(mac);
}

StationAddress* Stations::claim(StationBudget& station, const IpAddress& address, bool is_request,
                                TimePoint now) {
  const MacAddress mac = station.mac();
  const auto learn = [&]() -> StationAddress* {
    if (!may_have(mac, address)) return nullptr;
    if (deps_.host.has(mac, address)) return table_.on_owned(station, address, now);
    const StationAddress* const known = table_.find(address);
    const bool is_of_other = known != nullptr && known->is_served() && known->mac() != mac;
    return is_of_other && is_request ? table_.on_seen(station, address, now)
                                     : table_.on_claimed(station, address, now);
  };
  StationAddress* const entry = learn();
  settle(now);
  const bool passes_on = is_request && !strict_;
  if (entry != nullptr && (passes_on ? entry->receives() : entry->admits(mac))) return entry;
  drop(&StationCounters::drop_address);
  return nullptr;
}

bool Stations::receive_arp(const Header& header, const EthernetArp& message, TimePoint now) {
  StationBudget* const station = table_.station(header.source);
  if (station == nullptr) return false;
  if (message.sender_hardware != header.source) return drop(&StationCounters::drop_address);
  const bool is_request = message.operation == ArpOperation::request;
  if (message.sender_protocol.is_unspecified()) {
    StationAddress* const entry = table_.find(message.target_protocol);
    // A station that has just started must not be asked for the address that it checks itself.
    const bool is_its_own = entry != nullptr && entry->mac() == header.source;
    if (is_its_own) entry->touch(now);
    if (!is_request || (is_its_own && entry->is_served())) return false;
  } else {
    const bool is_only_request = is_request && message.sender_protocol != message.target_protocol;
    const bool is_of_proxy = !is_request && deps_.host.is_mac(header.source) &&
                             deps_.host.is_proxy_for(message.sender_protocol);
    if (is_of_proxy && table_.find(message.sender_protocol) == nullptr) return false;
    const StationAddress* const known = table_.find(message.sender_protocol);
    const bool was_served = known != nullptr && known->is_served();
    const StationAddress* const entry =
        claim(*station, message.sender_protocol, is_only_request, now);
    if (entry == nullptr) return false;
    if (!is_request) {
      if (entry->is_served()) requests_.take(message.sender_protocol, replies_);
      return false;
    }
    if (message.sender_protocol == message.target_protocol) {
      if (!was_served || !entry->is_served()) return false;
      if (!station->requests.take(now)) return drop(&StationCounters::drop_budget);
      announce_again(*entry);
      return false;
    }
  }
  return station->requests.take(now) || drop(&StationCounters::drop_budget);
}

bool Stations::receive_discovery(const Header& header, const NdMessage& message, TimePoint now) {
  StationBudget* const station = table_.station(header.source);
  if (station == nullptr) return false;
  const auto claims = [&](const Ipv6Address& address, bool is_request = false) {
    return claim(*station, address, is_request, now);
  };
  switch (message.type) {
    case NdType::neighbour_advertisement: {
      // What the host says as a proxy (ip neigh add proxy) does not override (RFC 4861, 7.2.8). Nor
      // does its answer to a unicast solicitation, so the view knows what it asks for.
      const bool may_be_of_proxy = deps_.host.is_mac(header.source) && !message.overrides;
      if (may_be_of_proxy && table_.find(message.target) == nullptr) return true;
      StationAddress* const entry = claims(message.target);
      if (entry == nullptr) return false;
      table_.set_router(*entry, message.is_router);
      settle(now);
      if (message.destination == kOfView) return false;
      // Before the fabric has been asked, it would claim the address there.
      return entry->is_served();
    }
    case NdType::neighbour_solicitation:
      if (!message.source.is_unspecified() && claims(message.source, true) == nullptr) {
        return false;
      }
      if (message.target == kOfView) return false;
      return station->requests.take(now) || drop(&StationCounters::drop_budget);
    case NdType::router_solicitation:
    case NdType::router_advertisement:
      if (message.source.is_unspecified()) return true;
      if (StationAddress* const entry = claims(message.source)) {
        if (message.type == NdType::router_advertisement) table_.set_router(*entry, true);
        settle(now);
        return true;
      }
      return false;
    case NdType::redirect:
      return true;
  }
  return true;
}

bool Stations::drop(std::uint64_t StationCounters::*why) {
  ++(table_.counters().*why);
  return false;
}

void Stations::on_arrival(MacAddress mac, TimePoint now) {
  StationBudget* const station = table_.station(mac);
  if (station == nullptr) return;
  if (!station->arrivals.take(now) || !arrivals_.take(now)) {
    return void(drop(&StationCounters::drop_budget));
  }
  deps_.neighbours.visit_recent(kAskedOnArrival, [&](const IpAddress& address) {
    probe({address, mac});
  });
  multicast_.ask(mac);
}

bool Stations::may_correct(MacAddress mac, bool is_known, TimePoint now) {
  StationBudget* const station = table_.station(mac);
  if (station == nullptr) return false;
  if (is_known) return station->corrections.take(now);
  return station->guesses.take(now) && guesses_.take(now);
}

// --- From the fabric -----------------------------------------------------------------------------

/// Passes a request on as the neighbour would send it on Ethernet; to one station only if that is
/// known to have the address.
void Stations::on_request(const wire::Arp& request, TimePoint now) {
  if (deps_.host.is_own(request.target_protocol)) return;
  if (!requests_.add(request, now)) {
    ++table_.counters().request_limit;
    return;
  }
  const auto station = table_.on_asked(request.target_protocol, now);
  settle(now);
  deps_.messages.arp(
      {.operation = ArpOperation::request,
       .sender_hardware = deps_.neighbours.show(request.sender_protocol, request.sender_hardware),
       .sender_protocol = request.sender_protocol,
       .target_hardware = {},
       .target_protocol = request.target_protocol},
      station.value_or(kBroadcastMac));
}

bool Stations::on_fabric(const IpAddress& address, const HwAddress& host, TimePoint now) {
  const bool keeps = table_.on_fabric(address, host, now);
  settle(now);
  return keeps;
}

/// The bridge delivers the request and the answer, which the view does not see. If the station has
/// moved away, there is no answer; so it is asked, and the next request goes to the fabric.
bool Stations::on_asked(const IpAddress& address, TimePoint now) {
  const StationAddress* const entry = table_.find(address);
  if (entry == nullptr || !entry->is_served()) return false;
  (void)table_.on_asked(address, now);
  settle(now);
  return true;
}

void Stations::on_host_changed(const std::vector<LinkAddress>& gone, TimePoint now) {
  table_.set_shared(deps_.host.mac());
  for (const IpAddress& address : deps_.host.own()) table_.remove(address);
  for (const IpAddress& address : deps_.host.local()) table_.remove(deps_.host.mac(), address);
  for (const auto& [mac, address] : gone) table_.remove(mac, address);
  for (const auto& [mac, address] : deps_.host.link_addresses()) {
    table_.on_owned(mac, address, now);
  }
  last_.entry = nullptr;
  settle(now);
}

void Stations::restore(std::span<const SavedStation> saved, TimePoint now) {
  for (const SavedStation& each : saved) {
    if (may_have(each.mac, each.address)) table_.restore(each, now);
  }
  settle(now);
}

void Stations::tick(TimePoint now) {
  table_.tick(now);
  multicast_.tick(now);
  settle(now);
}

StationAddress* Stations::receiver(const IpAddress& address) const {
  StationAddress* const entry = table_.find(address);
  return entry != nullptr && entry->receives() ? entry : nullptr;
}

// --- What stations cause -------------------------------------------------------------------------

void Stations::settle(TimePoint now) {
  if (table_.has_heard_any()) multicast_.start(now);
  StationOutput& out = table_.out();
  for (const auto& one : out.probes) probe(one);
  out.probes.clear();
  deps_.wanted.insert(deps_.wanted.end(), out.checks.begin(), out.checks.end());
  out.checks.clear();
  for (const auto& one : out.services) serve(one);
  out.services.clear();
  for (const auto& event : out.events) {
    if (event.kind == StationEvent::Kind::moved_out) on_moved_out(event);
    events_.push_back(event);
  }
  out.events.clear();
}

void Stations::probe(const StationOutput::Probe& probe) {
  constexpr MacAddress kFrom = NeighbourMacs::kOfOthers;
  std::visit(Overloaded{
                 [&](Ipv4Address target) {
                   deps_.messages.arp({.operation = ArpOperation::request,
                                       .sender_hardware = kFrom,
                                       .sender_protocol = {},
                                       .target_hardware = {},
                                       .target_protocol = target},
                                      probe.mac);
                 },
                 [&](const Ipv6Address& target) {
                   NdMessage message;
                   message.source = kOfView;
                   message.destination = message.target = target;
                   deps_.messages.solicitation(message, kFrom, probe.mac);
                 },
             },
             probe.address);
}

void Stations::serve(const StationOutput::Service& service) {
  services_.push_back(service);
  if (family(service.address) == IpFamily::v6) multicast_.on_served();
  if (!service.on) return;
  if (const auto* const neighbour = deps_.neighbours.find(service.address)) {
    if (StationAddress* const entry = table_.find(service.address)) {
      entry->set_was_at(neighbour->mac);
    }
  }
  deps_.neighbours.forget(service.address);
  if (const auto* const ipv4 = std::get_if<Ipv4Address>(&service.address)) {
    requests_.take(*ipv4, replies_);
  }
}

/// Tells the stations that still know the address where it is now.
void Stations::on_moved_out(const StationEvent& event) {
  const auto* const host = event.rival ? std::get_if<HwAddress>(&*event.rival) : nullptr;
  if (host == nullptr) return;
  table_.on_moved_out(event.mac);
  (void)deps_.neighbours.learn(event.address, *host);
  const MacAddress mac = deps_.neighbours.mac_of(*host);
  std::visit(Overloaded{
                 [&](Ipv4Address address) { deps_.messages.announce(address, mac); },
                 [&](const Ipv6Address& address) {
                   NdMessage message;
                   message.type = NdType::neighbour_advertisement;
                   message.source = message.target = address;
                   message.destination = kAllNodesOfIpv6;
                   message.overrides = true;
                   deps_.messages.advertisement(message, mac, wire::multicast_mac(kAllNodesOfIpv6));
                 },
             },
             event.address);
}

}  // namespace ipoib::ethernet
