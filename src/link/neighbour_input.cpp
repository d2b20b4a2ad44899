#include "link/neighbour_input.hpp"

#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/log_event.hpp"
#include "wire/encapsulation.hpp"

namespace ipoib::link {

/// A change of a peer's LID is not announced, but its datagrams show it. Only datagrams of the
/// peer's queue pair count, and of its GID if they have a GRH.
void NeighbourInput::check_source(const Neighbour& sender, const Incoming& datagram,
                                  TimePoint now) {
  const Route* const route = sender.route();
  if (route == nullptr || route->qpn != datagram.source_qpn) return;
  if (datagram.has_grh && route->path->gid() != datagram.source_gid) return;
  deps_.paths.on_source_lid(*route->path, datagram.source_lid, now);
}

// --- Neighbour Discovery -------------------------------------------------------------------------

bool NeighbourInput::receive_discovery(Incoming& datagram, TimePoint now) {
  deps_.out.counters.add(Counter::nd_received);
  const auto message = wire::NdMessage::parse(std::as_const(datagram.frame).bytes());
  if (!message) {
    deps_.out.counters.add(Counter::drop_malformed_nd);
    return false;
  }
  if (const auto claim = claim_in(*message)) {
    if (!claims_.admit(claim->neighbour, claim->hardware, datagram, now)) return false;
    // A station answers a solicitation only if that shows the sender's address (RFC 4861, 4.3), and
    // the target may be one that the link does not serve yet.
    const bool is_for_station =
        deps_.config.serves_stations && message->type == wire::NdType::neighbour_solicitation &&
        deps_.host.can_be_neighbour(claim->neighbour) && is_endpoint(claim->hardware);
    if (is_for_station || deps_.host.is_served(claim->neighbour)) {
      report(claim->neighbour, claim->hardware);
    }
  }
  if (message->type == wire::NdType::redirect) deps_.reports.redirect_received(now);
  if (const auto update = neighbour_update(*message, deps_.host, deps_.own)) {
    // The host's response to a solicitation would solicit its sender.
    const bool is_answered = message->type == wire::NdType::neighbour_solicitation;
    if (!apply(*update, datagram, now) && is_answered) return false;
  }
  const std::size_t size = wire::strip_link_layer_options(datagram.frame.bytes());
  datagram.frame.window(datagram.frame.headroom(), size);
  return true;
}

bool NeighbourInput::apply(const NeighbourUpdate& update, const Incoming& datagram, TimePoint now) {
  // A redirect has the address of another node, which cannot be checked: that node will be
  // solicited.
  if (update.hardware && !claims_.is_admissible(update.neighbour, *update.hardware, datagram)) {
    return true;
  }
  if (update.creates_entry && update.hardware &&
      !admits_path(update.neighbour, *update.hardware, datagram, now)) {
    return false;
  }
  Neighbour* const neighbour = update.creates_entry && update.hardware
                                   ? find_or_create(update.neighbour)
                                   : deps_.neighbours.find(update.neighbour);
  if (neighbour == nullptr) return !update.creates_entry || !update.hardware;
  const Route* const known = neighbour->route();
  if (!update.hardware) {
    // The sender confirms the known address, so it has to be there.
    if (known == nullptr || !claims_.may_be_sender(known->hardware(), datagram)) return true;
  }
  const HwAddress hardware = update.hardware ? *update.hardware : known->hardware();
  if (known != nullptr && !update.overrides && !known->leads_to(hardware)) {
    deps_.neighbours.contradicted(*neighbour, now);
  } else if (update.creates_entry || admits_path(update.neighbour, hardware, datagram, now)) {
    set_address(*neighbour, hardware, update.evidence, datagram, now);
  }
  return true;
}

/// Whether a message may cause a request for the path to a GID. A message that the host waits for
/// may; the others are limited, by their source and in all.
bool NeighbourInput::admits_path(const IpAddress& sender, const HwAddress& hardware,
                                 const Incoming& datagram, TimePoint now) {
  const Path* const path = deps_.paths.find(hardware.gid);
  if (path != nullptr && !std::holds_alternative<Path::Failed>(path->state())) return true;
  const Neighbour* const known = deps_.neighbours.find(sender);
  const bool is_awaited =
      known != nullptr && known->current_eviction_class() == EvictionClass::unresolved;
  if (is_awaited) return true;
  if (!sources_.take(datagram, deps_.paths.source_lmc(), now)) {
    deps_.out.counters.add(Counter::drop_source_limit);
    return false;
  }
  if (deps_.neighbours.count(EvictionClass::pending) >= deps_.config.limits.pending) {
    deps_.out.counters.add(Counter::drop_paths_pending);
    return false;
  }
  return true;
}

// --- ARP -----------------------------------------------------------------------------------------

void NeighbourInput::receive_arp(const Incoming& datagram, TimePoint now) {
  deps_.out.counters.add(Counter::arp_received);
  const auto arp_bytes = datagram.frame.bytes().subspan(wire::kEncapsulationSize);
  const auto message = wire::Arp::parse(arp_bytes);
  if (!message) return deps_.out.counters.add(Counter::drop_malformed_arp);
  const ArpKind kind = classify(*message, deps_.host, deps_.own);
  if (kind == ArpKind::bad_sender) return deps_.out.counters.add(Counter::drop_bad_arp_sender);
  if (!claims_.admit(message->sender_protocol, message->sender_hardware, datagram, now)) return;
  switch (kind) {
    case ArpKind::bad_sender:
      return;
    case ArpKind::duplicate_address:
      return log_duplicate(*message, now);
    case ArpKind::station_address:
      return report(message->sender_protocol, message->sender_hardware);
    case ArpKind::probe_of_other:
      return pass_on(*message, now);
    case ArpKind::probe:
    case ArpKind::request_for_us:
      return respond(*message, datagram, now);
    case ArpKind::third_party:
      deps_.reports.use_arp_policy(now, HostReports::kProxyPolicyAge);
      update_known(*message, datagram, now);
      answer_as_proxy(*message, datagram, now);
      return pass_on(*message, now);
    case ArpKind::reply_for_us:
      return receive_reply(*message, datagram, now);
  }
}

/// Responds to a request for an address of the host.
void NeighbourInput::respond(const wire::Arp& request, const Incoming& datagram, TimePoint now) {
  deps_.reports.use_arp_policy(now);
  const bool is_probe = request.sender_protocol.is_unspecified();
  switch (answer_to(request, deps_.host)) {
    case ArpAnswer::none:
      deps_.out.counters.add(Counter::arp_ignored);
      update_known(request, datagram, now);
      // Another interface of the host at the TAP may have the address, and reply itself.
      if (deps_.config.serves_stations && !deps_.host.is_own(request.target_protocol)) {
        pass_on(request, now);
      }
      return;
    case ArpAnswer::ask_proxies:
    case ArpAnswer::ask_routes:
      update_known(request, datagram, now);
      return ask_routes(request, datagram, now);
    case ArpAnswer::reply:
      if (is_probe) return reply_to_probe(request, now);
      if (!admits_path(request.sender_protocol, request.sender_hardware, datagram, now)) return;
      reply_to_arp(request, now);
      if (const Neighbour* const sender = deps_.neighbours.find(request.sender_protocol)) {
        check_source(*sender, datagram, now);
      }
      return;
  }
}

/// The kernel does not announce `ip neigh add proxy`. So for an unknown address the control thread
/// looks whether it is proxied now. Addresses that are known to be proxied have a limit of look-ups
/// for themselves.
void NeighbourInput::answer_as_proxy(const wire::Arp& request, const Incoming& datagram,
                                     TimePoint now) {
  switch (answer_to(request, deps_.host)) {
    case ArpAnswer::none:
    case ArpAnswer::reply:
      return;
    case ArpAnswer::ask_routes:
      return ask_routes(request, datagram, now);
    case ArpAnswer::ask_proxies:
      if (proxy_checks_.take(now)) ask_routes(request, datagram, now);
      return;
  }
}

/// Passes a request on, since a station behind the host may have the address.
void NeighbourInput::pass_on(const wire::Arp& request, TimePoint now) {
  if (request.operation != wire::ArpOperation::request || is_announcement(request)) return;
  if (!deps_.config.serves_stations) {
    if (request.sender_protocol.is_unspecified()) {
      deps_.out.counters.add(Counter::drop_bad_arp_sender);
    }
    return;
  }
  const bool is_known = deps_.host.is_served(request.target_protocol);
  if (!(is_known ? known_stations_ : unknown_stations_).take(now)) {
    return deps_.out.counters.add(Counter::arp_limited);
  }
  deps_.out.station_requests.push_back(request);
}

/// Reports a claim without making an entry: the view of the stations decides what it means. If a
/// station has moved, its old host must no longer announce it.
void NeighbourInput::report(const IpAddress& address, const HwAddress& hardware) {
  if (deps_.host.is_served(address)) deps_.announcer.stop(address);
  if (deps_.config.reports_neighbours) deps_.out.known_neighbours.push_back({address, hardware});
}

/// Handles a reply, which finds the entry that has sent the request.
void NeighbourInput::receive_reply(const wire::Arp& reply, const Incoming& datagram,
                                   TimePoint now) {
  Neighbour* const sender = deps_.neighbours.find(reply.sender_protocol);
  if (sender == nullptr) return deps_.out.counters.add(Counter::drop_unsolicited_reply);
  const bool is_unicast = !datagram.has_grh || !datagram.destination_gid.is_multicast();
  learn(*sender, reply, is_unicast ? Evidence::confirmed : Evidence::unconfirmed, datagram, now);
}

/// Updates the entry of the sender of a message that gets no reply, or not yet; creates none.
void NeighbourInput::update_known(const wire::Arp& message, const Incoming& datagram,
                                  TimePoint now) {
  Neighbour* const known = deps_.neighbours.find(message.sender_protocol);
  if (known != nullptr) learn(*known, message, Evidence::unconfirmed, datagram, now);
}

/// Learns an address. As in Linux, the lock time does not apply to announcements: a peer may have a
/// new queue pair.
void NeighbourInput::learn(Neighbour& sender, const wire::Arp& message, Evidence evidence,
                           const Incoming& datagram, TimePoint now) {
  if (sender.is_locked(deps_.config.ageing.lock_time, now) && !is_announcement(message) &&
      !sender.route()->leads_to(message.sender_hardware)) {
    return deps_.out.counters.add(Counter::drop_locked_address);
  }
  if (!admits_path(sender.address(), message.sender_hardware, datagram, now)) return;
  set_address(sender, message.sender_hardware, evidence, datagram, now);
}

void NeighbourInput::ask_routes(const wire::Arp& request, const Incoming& datagram, TimePoint now) {
  if (!reply_checks_.take(now)) return deps_.out.counters.add(Counter::arp_limited);
  if (!admits_path(request.sender_protocol, request.sender_hardware, datagram, now)) return;
  deps_.out.counters.add(Counter::arp_route_lookups);
  deps_.out.events.emplace_back(ArpReplyCheck{request});
}

/// Sends the reply to the requester: "swap hardware and protocol fields" (RFC 826). It is parked in
/// the entry until the path is known.
void NeighbourInput::reply_to_arp(const wire::Arp& request, TimePoint now) {
  // The look-up of the routes may have taken longer than setting a pin.
  if (!claims_.agrees_with_pin(request.sender_protocol, request.sender_hardware)) return;
  Neighbour* const requester = find_or_create(request.sender_protocol);
  if (requester == nullptr) return;
  deps_.neighbours.address(*requester, request.sender_hardware, Evidence::unconfirmed, now);
  Frame message = deps_.arp.make_reply(request);
  if (!message) return;
  deps_.out.counters.add(Counter::arp_replies_sent);
  deps_.neighbours.send_reply(*requester, std::move(message), now);
}

Neighbour* NeighbourInput::find_or_create(const IpAddress& address) {
  if (Neighbour* const known = deps_.neighbours.find(address)) return known;
  Neighbour* const made = deps_.neighbours.create(address, Purpose::reply);
  if (made == nullptr) deps_.out.counters.add(Counter::drop_neighbour_limit);
  return made;
}

void NeighbourInput::set_address(Neighbour& sender, const HwAddress& hardware, Evidence evidence,
                                 const Incoming& datagram, TimePoint now) {
  deps_.neighbours.address(sender, hardware, evidence, now);
  check_source(sender, datagram, now);
}

/// Broadcasts the reply to a probe, since that has no sender address.
void NeighbourInput::reply_to_probe(const wire::Arp& request, TimePoint now) {
  if (!probe_replies_.take(now)) {
    return deps_.out.counters.add(Counter::arp_limited);
  }
  deps_.out.counters.add(Counter::arp_replies_sent);
  deps_.arp.broadcast_reply(request);
}

/// Logs a duplicate address. Each address has a pause of its own, so one that is claimed all the
/// time hides no other.
void NeighbourInput::log_duplicate(const wire::Arp& message, TimePoint now) {
  constexpr std::size_t kMostPauses = 64;
  deps_.out.counters.add(Counter::drop_duplicate_address);
  const bool is_known = duplicates_.contains(message.sender_protocol);
  if (!is_known && duplicates_.size() >= kMostPauses) duplicates_.clear();
  if (!duplicates_[message.sender_protocol].take(now)) return;
  deps_.log.log(message_id(events::kDuplicateAddress), spdlog::level::warn,
                "duplicate address: {} is claimed by {}", message.sender_protocol.to_string(),
                message.sender_hardware.to_string());
}

}  // namespace ipoib::link
