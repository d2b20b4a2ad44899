// The stimuli of the manager apart from commands: MADs, time, and the events of the communication
// manager.
#include <algorithm>
#include <cerrno>

#include "ipoib/overloaded.hpp"
#include "softib/rdma_cm/limits.hpp"
#include "softib/rdma_cm/manager.hpp"
#include "wire/cm_ip_header.hpp"

namespace softib::rdma_cm {

using ipoib::OneOf;
using ipoib::Overloaded;
using ipoib::TimePoint;

/// A request of a peer for a connection or for a UD queue pair.
struct Manager::Request {
  cm::Handle handle;
  LocalPort port;  ///< where it has arrived
  wire::ServiceId service;
  ipoib::ConstBytes private_data;
  wire::PathRecord path;  ///< to the peer
  Event event;            ///< without IDs and private data
};

namespace {

/// The parameters that the peer offers in a REQ or REP. Its READs are for the responder of this
/// side, and the other way round.
template <class Message>
ConnectionParameters offer_of(const Message& message) {
  ConnectionParameters parameters;
  parameters.qpn = message.qpn;
  parameters.srq = message.srq;
  parameters.responder_resources = message.initiator_depth;
  parameters.initiator_depth = message.responder_resources;
  parameters.flow_control = message.flow_control;
  parameters.rnr_retry_count = message.rnr_retry_count;
  return parameters;
}

template <std::size_t kSize>
UserData user_data(const wire::PrivateData<kSize>& data) {
  return UserData::of(ipoib::ConstBytes(data));
}

std::uint16_t port_of_service(wire::ServiceId service) {
  return static_cast<std::uint16_t>(service.value());
}

IbEndpoint ib_endpoint(const Gid& gid, PKey pkey, wire::ServiceId service) {
  return {
      .pkey = pkey, .gid = gid, .service_id = service.value(), .service_mask = ~std::uint64_t{0}};
}

}  // namespace

// --- Events for the user -------------------------------------------------------------------------

void Manager::tell(const Id& id, EventType type, int status) {
  tell(id, Event{.type = type, .status = status});
}

/// Reports an event, unless the ID is a request that no user has accepted.
void Manager::tell(const Id& id, Event event) {
  if (id.uid == 0) return;
  event.id = id.handle;
  event.uid = id.uid;
  changed(id.channel).push_back({event, id.handle});
}

// --- Stimuli -------------------------------------------------------------------------------------

bool Manager::is_recipient(std::size_t hca, const MadPacket& packet) const {
  const auto header = wire::MadHeader::parse(packet.mad);
  if (!header) return false;
  if (header->management_class == wire::mgmt_class::kSubnAdm) {
    return hcas_.at(hca)->sa.is_recipient(*header);
  }
  if (header->management_class != wire::mgmt_class::kCommMgt) return false;
  const auto mad = wire::CmMad::parse(packet.mad);
  if (!mad) return false;
  const auto from = cm::Peer::sender_of(packet, node_.port({hca, packet.port}).lmc);
  return hcas_.at(hca)->cm.is_recipient(mad->message, from, packet.port);
}

void Manager::receive(std::size_t hca, const MadPacket& packet, TimePoint now) {
  const auto header = wire::MadHeader::parse(packet.mad);
  if (!header) return;
  if (header->management_class == wire::mgmt_class::kSubnAdm) {
    hcas_.at(hca)->sa.receive(packet, node_.port({hca, packet.port}));
  } else {
    hcas_.at(hca)->cm.receive(packet, node_.port({hca, packet.port}), now);
  }
  settle(now);
}

void Manager::on_time(TimePoint now) {
  while (!address_deadlines_.empty() && address_deadlines_.begin()->first <= now) {
    try_to_resolve(changed(address_deadlines_.begin()->second), now);
  }
  for (const auto& hca : hcas_) {
    hca->sa.on_time(now);
    hca->cm.on_time(now);
  }
  settle(now);
}

TimePoint Manager::next_deadline() const {
  TimePoint first = address_deadlines_.empty() ? ipoib::kNever : address_deadlines_.begin()->first;
  for (const auto& hca : hcas_) {
    first = std::min({first, hca->sa.next_deadline(), hca->cm.next_deadline()});
  }
  return first;
}

void Manager::process_gone(std::size_t hca, const cm::Peer& at, std::uint32_t slot,
                           std::uint32_t epoch, TimePoint now) {
  hcas_.at(hca)->cm.process_gone(at, node_.ports(hca).preferred().lmc, slot, epoch, now);
  settle(now);
}

void Manager::hca_lost(std::size_t hca, TimePoint now) {
  hcas_.at(hca)->is_lost = true;
  for (auto& [handle, id] : ids_) {
    if (!id.local || id.local->hca != hca) continue;
    changed_ids_.insert(handle);
    if (id.connection) {
      hcas_.at(hca)->cm.destroy(*id.connection, now);
      drop_connection(id);
    }
    tell(id, EventType::device_removal);
  }
  settle(now);
}

std::vector<MadPacket> Manager::take_outgoing(std::size_t hca) {
  auto packets = hcas_.at(hca)->cm.take_outgoing();
  const auto queries = hcas_.at(hca)->sa.take_outgoing();
  packets.insert(packets.end(), queries.begin(), queries.end());
  return packets;
}

/// Handles the output of the parts.
void Manager::settle(TimePoint now) {
  for (const auto& hca : hcas_) {
    for (const auto& result : hca->sa.take_results()) on_answer(result);
    for (auto events = hca->cm.take_events(); !events.empty(); events = hca->cm.take_events()) {
      for (const auto& event : events) on_event(*hca, event, now);
    }
  }
}

void Manager::on_answer(const SaRequests::Result& result) {
  std::visit(Overloaded{
                 [](std::monostate) {},
                 [&](IdHandle id) { on_path(changed(id), result); },
                 [&](JoinHandle join) { on_join(joins_.at(join), result); },
             },
             result.owner);
}

void Manager::on_path(Id& id, const SaRequests::Result& result) {
  const auto fail = [&](int status) {
    id.state = IdState::address_resolved;
    tell(id, EventType::route_error, status);
  };
  std::visit(Overloaded{
                 [&](const wire::PathRecord& path) {
                   id.path = path;
                   id.state = IdState::route_resolved;
                   tell(id, EventType::route_resolved);
                 },
                 [](const wire::McMemberRecord&) {},
                 [&](wire::SaStatus) { fail(-EINVAL); },  // whatever it is, as by Linux
                 [&](std::errc error) { fail(-static_cast<int>(error)); },
             },
             result.answer);
}

void Manager::on_event(HcaState& hca, const cm::Event& event, TimePoint now) {
  if (const auto* const asked = std::get_if<cm::ConnectionRequested>(&event.what)) {
    return on_connection_request(hca, event.handle, *asked, now);
  }
  if (const auto* const asked = std::get_if<cm::ServiceRequested>(&event.what)) {
    return on_service_request(hca, event.handle, *asked, now);
  }
  const auto found = hca.by_connection.find(event.handle);
  if (found != hca.by_connection.end()) on_connection_event(changed(found->second), event);
}

// --- Requests of peers ---------------------------------------------------------------------------

/// The listener at the address, or else the one at the wildcard.
Id* Manager::find_listener(const LocalPort& port, wire::ServiceId service,
                           const Address& destination) {
  const auto found = listeners_.find({port, service});
  if (found == listeners_.end()) return nullptr;
  Id* wildcard = nullptr;
  for (const IdHandle handle : found->second.ids) {
    Id& id = ids_.at(handle);
    if (std::holds_alternative<IbEndpoint>(id.source) || is_same_host(id.source, destination)) {
      return &id;
    }
    const bool is_of_family =
        !is_family_only(id, id.source) || is_same_kind(id.source, destination);
    if (is_wildcard(id.source) && is_of_family) wildcard = &id;
  }
  return wildcard;
}

Manager::Reception Manager::on_request(const Request& request) {
  const auto header = wire::CmIpHeader::parse(request.private_data);
  Address local = ib_endpoint(request.path.sgid, request.path.pkey, request.service);
  Address remote = ib_endpoint(request.path.dgid, request.path.pkey, wire::ServiceId());
  if (header) {
    local = IpEndpoint{header->destination, port_of_service(request.service)};
    remote = IpEndpoint{header->source, header->source_port};
  }
  Id* const listener = find_listener(request.port, request.service, local);
  if (listener == nullptr) return Reception::no_listener;
  if (listener->undelivered >= listener->backlog || ids_.size() >= kMaxIds) {
    return Reception::no_room;
  }
  const bool has_header = header && std::holds_alternative<IpEndpoint>(listener->source);
  if (!has_header) {
    local = ib_endpoint(request.path.sgid, request.path.pkey, request.service);
    remote = ib_endpoint(request.path.dgid, request.path.pkey, wire::ServiceId());
  }
  Id& id = add_id(listener->channel, listener->space, listener->service);
  id.bound_space = listener->bound_space;
  id.tos = listener->tos;
  id.state = IdState::connect;
  id.source = local;
  id.destination = remote;
  id.local = request.port;
  id.dgid = request.path.dgid;
  id.pkey = request.path.pkey;
  id.path = request.path;
  keep_connection(id, request.handle);
  Event event = request.event;
  const auto data =
      UserData::of(request.private_data.subspan(has_header ? wire::CmIpHeader::kSize : 0));
  std::visit([&](auto& parameters) { parameters.data = data; }, event.parameters);
  event.type = EventType::connect_request;
  event.id = id.handle;
  event.uid = listener->uid;
  ++listener->undelivered;
  changed(listener->channel).push_back({event, listener->handle});
  return Reception::reported;
}

/// Without room, the peer repeats its request. The kernel's manager does so, too.
void Manager::on_connection_request(HcaState& hca, cm::Handle handle,
                                    const cm::ConnectionRequested& asked, TimePoint now) {
  const wire::CmReq& req = asked.req;
  ConnectionParameters parameters = offer_of(req);
  parameters.retry_count = req.retry_count;
  const auto* const connection = hca.cm.connection(handle);
  if (connection == nullptr) return;  // has ended since
  const Request request{
      handle,           {hca.number, asked.port},      req.service_id,
      req.private_data, connection->parameters().path, Event{.parameters = parameters}};
  const Reception reception = on_request(request);
  if (reception == Reception::no_listener) hca.cm.destroy(handle, now);
  if (reception == Reception::no_room) (void)hca.cm.forget(handle);
}

void Manager::on_service_request(HcaState& hca, cm::Handle handle,
                                 const cm::ServiceRequested& asked, TimePoint now) {
  DatagramParameters parameters;
  parameters.path = asked.path;
  const Request request{
      handle,     {hca.number, asked.port},       asked.req.service_id, asked.req.private_data,
      asked.path, Event{.parameters = parameters}};
  if (on_request(request) != Reception::reported) hca.cm.destroy(handle, now);
}

// --- Events of connections -----------------------------------------------------------------------

/// Handles an event of a connection. The kernel reports those of connections in state CONNECT only,
/// except for the end of time wait.
void Manager::on_connection_event(Id& id, const cm::Event& event) {
  const auto in_connect = [&](const Event& what) {
    if (id.state == IdState::connect) tell(id, what);
  };
  std::visit(Overloaded{
                 [](const OneOf<cm::ConnectionRequested, cm::ServiceRequested> auto&) {},
                 [&](const cm::Accepted& accepted) {
                   ConnectionParameters parameters = offer_of(accepted.rep);
                   parameters.data = user_data(accepted.rep.private_data);
                   in_connect({.type = EventType::connect_response, .parameters = parameters});
                 },
                 [&](const cm::Established&) { in_connect({.type = EventType::established}); },
                 [&](const cm::Rejected& rejected) {
                   drop_connection(id);
                   ConnectionParameters parameters;
                   parameters.data = user_data(rejected.rej.private_data);
                   in_connect({.type = EventType::rejected,
                               .status = static_cast<int>(rejected.rej.reason),
                               .parameters = parameters});
                 },
                 [&](const cm::Unanswered&) {
                   drop_connection(id);
                   in_connect({.type = EventType::unreachable, .status = -ETIMEDOUT});
                 },
                 [&](const cm::Disconnected& disconnected) {
                   in_connect({.type = EventType::disconnected,
                               .status = disconnected.is_unanswered ? -ETIMEDOUT : 0});
                   if (id.state == IdState::connect) id.state = IdState::disconnected;
                 },
                 [&](const cm::TimeWaitOver&) {
                   drop_connection(id);
                   if (id.state == IdState::disconnected) tell(id, EventType::time_wait_exit);
                 },
                 [&](const cm::ServiceResolved& resolved) {
                   drop_connection(id);
                   DatagramParameters parameters;
                   parameters.qpn = resolved.rep.qpn;
                   parameters.qkey = resolved.rep.qkey;
                   parameters.path = *id.path;
                   parameters.data = user_data(resolved.rep.private_data);
                   if (resolved.rep.status != wire::CmSidrStatus::valid) {
                     return in_connect({.type = EventType::unreachable,
                                        .status = static_cast<int>(resolved.rep.status),
                                        .parameters = parameters});
                   }
                   id.qkey = resolved.rep.qkey;
                   in_connect({.type = EventType::established, .parameters = parameters});
                 },
             },
             event.what);
}

}  // namespace softib::rdma_cm
