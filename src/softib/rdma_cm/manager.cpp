// The commands of the manager. The other stimuli are in manager_events.cpp.
#include "softib/rdma_cm/manager.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "softib/rdma_cm/limits.hpp"
#include "wire/cm_ip_header.hpp"

namespace softib::rdma_cm {

using ipoib::Error;
using ipoib::Result;
using ipoib::TimePoint;

namespace {

constexpr std::uint32_t kPsnBits = 0xff'ffff;
/// The bits of a service ID that name a port space.
constexpr std::uint64_t kIbPortSpaceBits = 0xffff'ffff'ffff'0000;

Error two_families() {
  return {EINVAL, "source and destination are of two address families: give both of the same"};
}
Error wrong_state() { return {EINVAL, "the state of the ID does not permit it"}; }

/// Copies the user's data behind `offset`. Returns false if they do not fit.
template <std::size_t kSize>
[[nodiscard]] bool write_data(const UserData& data, std::size_t offset,
                              wire::PrivateData<kSize>& to) {
  if (offset + data.size > kSize) return false;
  std::ranges::copy(data.data(), to.begin() + static_cast<std::ptrdiff_t>(offset));
  return true;
}

/// Writes the header of a request between IP addresses. Returns its size.
std::size_t write_ip_header(const Id& id, ipoib::MutableBytes private_data) {
  const auto* const source = std::get_if<IpEndpoint>(&id.source);
  const auto* const destination = std::get_if<IpEndpoint>(&id.destination);
  if (source == nullptr || destination == nullptr) return 0;
  const wire::CmIpHeader header{source->port, source->address, destination->address};
  header.emit(private_data.first(wire::CmIpHeader::kSize));
  return wire::CmIpHeader::kSize;
}

Error too_long() { return {EINVAL, "private data too long"}; }

/// Completes an address of AF_IB as the kernel does, and returns its port space; nullopt if it is
/// in none.
std::optional<PortSpace> choose_space(PortSpace of_id, IbEndpoint& address) {
  const std::uint64_t mask = address.service_mask & kIbPortSpaceBits;
  const std::uint64_t service = address.service_id & mask;
  for (const auto space : {PortSpace::ib, PortSpace::tcp, PortSpace::udp}) {
    const std::uint64_t first = std::uint64_t{static_cast<std::uint16_t>(space)} << 16;
    if (of_id != PortSpace::ib && of_id != space) continue;
    if (service != (first & mask)) continue;
    address.service_id = first | port_of(address);
    address.service_mask |= kIbPortSpaceBits;
    return space;
  }
  return std::nullopt;
}

PKey usable_pkey(const PortAttributes& port) {
  const auto has = [&](PKey key) { return std::ranges::find(port.pkeys, key) != port.pkeys.end(); };
  if (has(ipoib::kDefaultPKey)) return ipoib::kDefaultPKey;
  const auto first = std::ranges::find_if(port.pkeys, [](PKey key) { return key.is_valid(); });
  return first == port.pkeys.end() ? ipoib::kDefaultPKey : *first;
}

wire::CmTransport transport_of(Service service) {
  switch (service) {
    case Service::unreliable:
      return wire::CmTransport::unreliable;
    case Service::extended_initiator:
    case Service::extended_target:
      return wire::CmTransport::extended;
    case Service::reliable:
    case Service::datagram:
      return wire::CmTransport::reliable;
  }
  return wire::CmTransport::reliable;
}

}  // namespace

Manager::HcaState::HcaState(const Hca& hca, std::size_t index)
    : number(index), cm(hca.self), sa({hca.node, hca.self.slot, hca.self.epoch, 0}) {}

Manager::Manager(const std::vector<Hca>& hcas, Node& node, std::uint64_t seed)
    : node_(node), random_(seed) {
  for (const auto& hca : hcas) hcas_.push_back(std::make_unique<HcaState>(hca, hcas_.size()));
}

// --- Event channels ------------------------------------------------------------------------------

Result<ChannelId> Manager::open_channel() {
  if (channels_.size() >= kMaxChannels) {
    return Error{EMFILE, "a process can have " + std::to_string(kMaxChannels) +
                             " event channels: destroy some"};
  }
  do {
    ++last_channel_;
  } while (channels_.contains(ChannelId(last_channel_)));
  channels_[ChannelId(last_channel_)];
  return ChannelId(last_channel_);
}

void Manager::close_channel(ChannelId channel, TimePoint now) {
  std::vector<IdHandle> own;
  for (const auto& [handle, id] : ids_) {
    if (id.channel == channel) own.push_back(handle);
  }
  for (const auto handle : own) {
    // With a listener go the requests that nobody has seen.
    if (const auto id = ids_.find(handle); id != ids_.end()) remove(id->second, now);
  }
  channels_.erase(channel);
  settle(now);
}

/// The events of a channel, to be changed.
Manager::Channel& Manager::changed(ChannelId channel) {
  changed_channels_.push_back(channel);
  return channels_.at(channel);
}

/// An ID, to be changed.
Id& Manager::changed(IdHandle handle) {
  changed_ids_.insert(handle);
  return ids_.at(handle);
}

bool Manager::has_event(ChannelId channel) const {
  const auto found = channels_.find(channel);
  return found != channels_.end() && !found->second.empty();
}

Result<Event> Manager::take_event(ChannelId channel) {
  if (!has_event(channel)) return Error{EAGAIN, "no event"};
  Channel& events = changed(channel);
  const QueuedEvent first = events.front();
  events.pop_front();
  Id& id = ids_.at(first.counted_for);
  ++id.events_reported;
  if (first.event.type == EventType::connect_request) --id.undelivered;
  if (const auto join = joins_.find(first.event.join); join != joins_.end()) {
    ++join->second.events_reported;
  }
  return first.event;
}

// --- IDs -----------------------------------------------------------------------------------------

Result<Id*> Manager::owned(ChannelId channel, IdHandle handle) {
  if (const auto id = find(channel, handle); !id) return id.error();
  return &changed(handle);
}

Result<Id*> Manager::owned(ChannelId channel, IdHandle handle, IdState state) {
  auto id = owned(channel, handle);
  if (id && (*id)->state != state) return wrong_state();
  return id;
}

/// The ID, if it has a connection or is about to have one.
Result<Id*> Manager::connected(ChannelId channel, IdHandle handle) {
  auto id = owned(channel, handle, IdState::connect);
  if (id && !(*id)->connection) return wrong_state();
  return id;
}

Result<const Id*> Manager::find(ChannelId channel, IdHandle handle) const {
  const auto found = ids_.find(handle);
  if (found == ids_.end())
    return Error{ENOENT, "the process has no such ID: it is destroyed, or was never created"};
  if (found->second.channel != channel)
    return Error{EINVAL, "the ID belongs to another event channel: rdma_migrate_id() moves it"};
  return &found->second;
}

std::optional<IdStatus> Manager::status(IdHandle handle) const {
  const auto found = ids_.find(handle);
  if (found == ids_.end()) return std::nullopt;
  const Id& id = found->second;
  IdStatus status{.hca = id.local ? id.local->hca : 0,
                  .handle = handle,
                  .space = id.space,
                  .state = id.state,
                  .source = id.source,
                  .destination = id.destination,
                  .qpn = id.qpn};
  // Only the active side has a port number and a destination.
  const bool is_active = id.has_port && !std::holds_alternative<std::monostate>(id.destination);
  const Address& service = is_active ? id.destination : id.source;
  if (!std::holds_alternative<std::monostate>(service)) {
    status.service = service_id_of(id.bound_space, service);
  }
  if (!id.connection) return status;
  status.local_id = *id.connection;
  if (const auto* const one = hcas_.at(status.hca)->cm.connection(*id.connection)) {
    status.connection = one->state();
    status.remote_id = one->remote_id();
    status.qpn = one->local_qpn();
    status.remote_qpn = one->remote_qpn();
  }
  return status;
}

Id& Manager::add_id(ChannelId channel, PortSpace space, Service service) {
  do {
    last_id_ = last_id_ % kMaxIds + 1;
  } while (ids_.contains(IdHandle(last_id_)));
  const IdHandle handle(last_id_);
  ids_[handle].handle = handle;
  Id& id = changed(handle);
  id.channel = channel;
  id.space = id.bound_space = space;
  id.service = service;
  id.starting_psn = wire::Psn(static_cast<std::uint32_t>(random_.next()) & kPsnBits);
  id.qkey = kDefaultQKey;
  return id;
}

Result<IdHandle> Manager::create(ChannelId channel, std::uint64_t uid, PortSpace space,
                                 Service service) {
  assert(channels_.contains(channel));
  if (ids_.size() >= kMaxIds) {
    return Error{ENOMEM, "a process can have " + std::to_string(kMaxIds) + " IDs: destroy some"};
  }
  if (space == PortSpace::tcp) service = Service::reliable;
  if (space == PortSpace::udp || space == PortSpace::ipoib) service = Service::datagram;
  Id& id = add_id(channel, space, service);
  id.uid = uid;
  return id.handle;
}

Result<std::uint32_t> Manager::destroy(ChannelId channel, IdHandle handle, TimePoint now) {
  const auto id = owned(channel, handle);
  if (!id) return id.error();
  const std::uint32_t reported = (*id)->events_reported;
  remove(**id, now);
  settle(now);
  return reported;
}

/// Removes an ID, with the events that nobody has taken, and the IDs of requests that are among
/// them.
void Manager::remove(Id& id, TimePoint now) {
  const IdHandle handle = id.handle;
  std::vector<IdHandle> children;
  std::erase_if(changed(id.channel), [&](const QueuedEvent& one) {
    const bool is_request = one.event.type == EventType::connect_request;
    if (is_request && one.counted_for == handle) children.push_back(one.event.id);
    const bool is_own = is_request && one.event.id == handle;
    if (is_own) --ids_.at(one.counted_for).undelivered;
    return is_own || one.counted_for == handle;
  });
  if (id.state == IdState::listen) stop_listening(id);
  for (const IdHandle child : children) remove(ids_.at(child), now);
  for (auto join = joins_.begin(); join != joins_.end();) {
    const bool is_own = join->second.id == handle;
    if (is_own) leave(join->second, now);
    join = is_own ? joins_.erase(join) : std::next(join);
  }
  if (id.local) hca_of(id).sa.cancel(handle);
  if (id.connection) {
    hca_of(id).cm.destroy(*id.connection, now);
    drop_connection(id);
  }
  if (id.has_port) ports_.release(handle, id.bound_space, port_of(id.source), node_);
  address_deadlines_.erase({id.deadline, handle});
  changed_ids_.insert(handle);
  ids_.erase(handle);
}

Result<std::uint32_t> Manager::migrate(ChannelId to, ChannelId from, IdHandle handle) {
  const auto id = owned(from, handle);
  if (!id) return id.error();
  assert(channels_.contains(to));
  const std::uint32_t reported = (*id)->events_reported;
  if (to == from) return reported;
  Channel& old = changed(from);
  Channel& events = changed(to);
  Channel kept;
  for (const auto& event : old) {
    if (event.counted_for != handle) {
      kept.push_back(event);
      continue;
    }
    // Requests that nobody has seen belong to the channel of their listener.
    if (event.event.type == EventType::connect_request) ids_.at(event.event.id).channel = to;
    events.push_back(event);
  }
  old = std::move(kept);
  (*id)->channel = to;
  return reported;
}

// --- Addresses -----------------------------------------------------------------------------------

Result<void> Manager::bind(ChannelId channel, IdHandle handle, const Address& address) {
  const auto id = owned(channel, handle, IdState::idle);
  if (!id) return id.error();
  return bind(**id, address);
}

/// The ports of the process that have a cable.
std::vector<LocalPort> Manager::local_ports() const {
  std::vector<LocalPort> ports;
  for (const auto& hca : hcas_) {
    const HcaPorts of_hca = node_.ports(hca->number);
    for (const auto& port : of_hca.cabled()) ports.push_back({hca->number, port.number});
  }
  return ports;
}

/// Binds the ID to the port that has the address. A wildcard belongs to none.
Result<void> Manager::bind_port(Id& id, const Address& address) {
  if (is_wildcard(address)) return {};
  std::optional<Node::Local> local;
  if (const auto* const ip = std::get_if<IpEndpoint>(&address)) {
    local = node_.find_local(ip->address);
    if (!local) {
      return Error{EADDRNOTAVAIL,
                   "no port of the process has this IP address: bind to one that softib show "
                   "prints, or to that of an interface of ipoibd"};
    }
  } else {
    const auto& ib = std::get<IbEndpoint>(address);
    const auto ports = local_ports();
    const auto found = std::ranges::find_if(
        ports, [&](const LocalPort& port) { return node_.port(port).gid() == ib.gid; });
    if (found == ports.end()) {
      return Error{ENODEV,
                   "no port of the process has this GID: ibv_devinfo -v prints those that are"};
    }
    local = {*found, ib.pkey, {}};
  }
  use_port(id, local->port, local->pkey);
  return {};
}

/// Makes the ID use a port, in any of its partitions unless one is named.
void Manager::use_port(Id& id, const LocalPort& port, PKey pkey) const {
  id.local = port;
  id.pkey = pkey.is_valid() ? pkey : usable_pkey(node_.port(port));
}

Result<void> Manager::bind(Id& id, const Address& address) {
  Address local = address;
  if (auto done = bind_port(id, local); !done) return done;
  PortSpace space = id.space;
  if (auto* const ib = std::get_if<IbEndpoint>(&local)) {
    const auto chosen = choose_space(id.space, *ib);
    if (!chosen) {
      id.local.reset();
      return Error{EPROTONOSUPPORT,
                   "the service ID is in no port space: its prefix must be that of RDMA_PS_TCP, "
                   "RDMA_PS_UDP or RDMA_PS_IB"};
    }
    space = *chosen;
  }
  const auto port = ports_.bind(
      {id.handle, space, local, id.reuses_address, is_family_only(id, local)}, node_, random_);
  if (!port) {
    id.local.reset();
    return port.error();
  }
  id.bound_space = space;
  id.has_port = true;
  id.source = with_port(local, *port);
  id.state = IdState::address_bound;
  return {};
}

Result<void> Manager::resolve_address(ChannelId channel, IdHandle handle, const Address& source,
                                      const Address& destination, ipoib::Duration timeout,
                                      TimePoint now) {
  const auto owned_id = owned(channel, handle);
  if (!owned_id) return owned_id.error();
  Id& id = **owned_id;
  if (std::holds_alternative<std::monostate>(destination)) return Error{EINVAL, "no destination"};
  if (id.state == IdState::idle) {
    const bool has_source = !std::holds_alternative<std::monostate>(source);
    if (has_source && !is_same_kind(source, destination)) return two_families();
    if (auto bound = bind(id, has_source ? source : any_like(destination)); !bound) return bound;
  }
  if (id.state != IdState::address_bound) return wrong_state();
  if (!is_same_kind(id.source, destination)) return two_families();
  id.destination = destination;
  id.state = IdState::address_query;
  id.deadline = now + timeout;
  address_deadlines_.emplace(id.deadline, handle);
  try_to_resolve(id, now);
  return {};
}

std::optional<Node::Remote> Manager::find_destination(const Id& id) const {
  if (is_any(id.destination) || is_loopback(id.destination)) {
    return Node::Remote{id.local ? node_.port(*id.local).gid() : node_.ports(0).preferred().gid()};
  }
  if (const auto* const ib = std::get_if<IbEndpoint>(&id.destination)) {
    return Node::Remote{ib->gid};
  }
  if (is_multicast(id.destination)) {
    const auto group = group_of(id, id.destination);
    return group ? std::optional(Node::Remote{*group}) : std::nullopt;
  }
  return node_.find(std::get<IpEndpoint>(id.destination).address, id.deadline);
}

void Manager::retry_addresses(TimePoint now) {
  const auto waiting = address_deadlines_;
  for (const auto& [deadline, handle] : waiting) try_to_resolve(changed(handle), now);
}

/// The port from which an ID that is bound to none connects: the one that has the GID itself, or
/// else the first one that is up.
LocalPort Manager::choose_port(const Gid& destination) const {
  const auto ports = local_ports();
  if (ports.empty()) return {0, node_.ports(0).preferred().number};
  return *std::ranges::max_element(ports, {}, [&](const LocalPort& at) {
    const PortAttributes port = node_.port(at);
    const int is_up = port.state == PortState::active && !hcas_.at(at.hca)->is_lost ? 1 : 0;
    return is_up + (port.gid() == destination ? 1 : 0);
  });
}

/// Looks for the destination. A node may appear within the time that the user gives, so it is
/// looked for once more at the end.
void Manager::try_to_resolve(Id& id, TimePoint now) {
  const auto found = find_destination(id);
  if (!found && now < id.deadline) return;
  address_deadlines_.erase({id.deadline, id.handle});
  id.deadline = ipoib::kNever;
  if (!found) {
    id.state = IdState::address_bound;
    return tell(id, EventType::address_error, -ETIMEDOUT);
  }
  const auto& from = found->from;
  if (!id.local && from) use_port(id, from->port, from->pkey);
  if (!id.local) use_port(id, choose_port(found->gid), PKey());
  id.dgid = found->gid;
  const auto local_port = port_of(id.source);
  if (auto* const ip = std::get_if<IpEndpoint>(&id.source)) {
    const IpAddress& to = std::get<IpEndpoint>(id.destination).address;
    if (is_any(id.source)) ip->address = from ? from->address : node_.source(*id.local, to);
  } else if (auto* const ib = std::get_if<IbEndpoint>(&id.source)) {
    ib->gid = node_.port(*id.local).gid();
    const PKey wanted = std::get<IbEndpoint>(id.destination).pkey;
    if (wanted.is_valid()) id.pkey = wanted;
    ib->pkey = id.pkey;
  }
  id.source = with_port(id.source, local_port);
  id.state = IdState::address_resolved;
  tell(id, EventType::address_resolved);
}

namespace {

/// The path from an Ethernet port, which no SA tells: as the kernel's cma_resolve_iboe_route().
wire::PathRecord ethernet_path(const Id& id, const PortAttributes& port) {
  constexpr std::uint8_t kLifetime = 16;  // 4.096 us x 2^16: 268 ms
  wire::PathRecord path;
  path.dgid = id.dgid;
  path.sgid = source_gid(id, port);
  path.pkey = id.pkey;
  path.hop_limit = kEthernetHopLimit;
  path.traffic_class = id.tos;
  path.reversible = true;
  path.numb_path = 1;
  path.mtu = port.mtu;
  path.rate = kEthernetRate;
  path.lifetime = kLifetime;
  return path;
}

}  // namespace

Result<void> Manager::resolve_route(ChannelId channel, IdHandle handle, ipoib::Duration timeout,
                                    TimePoint now) {
  const auto owned_id = owned(channel, handle, IdState::address_resolved);
  if (!owned_id) return owned_id.error();
  Id& id = **owned_id;
  const PortAttributes port = node_.port(*id.local);
  if (port.is_ethernet()) {
    id.path = ethernet_path(id, port);
    id.state = IdState::route_resolved;
    tell(id, EventType::route_resolved);
    return {};
  }
  wire::PathQuery query = wire::path_query(port.gid(), id.dgid, id.pkey);
  query.record.service_id = service_id_of(id.bound_space, id.destination).value();
  query.components |= wire::PathRecord::kServiceId;
  const auto* const ip = std::get_if<IpEndpoint>(&id.destination);
  if (ip != nullptr && family(ip->address) == IpFamily::v4) {
    query.record.qos_class = id.tos;
    query.components |= wire::PathRecord::kQosClass;
  } else {
    query.record.traffic_class = id.tos;
    query.components |= wire::PathRecord::kTrafficClass;
  }
  hca_of(id).sa.begin(handle, query, port, timeout, now);
  id.state = IdState::route_query;
  return {};
}

Result<void> Manager::set_path(ChannelId channel, IdHandle handle, const wire::PathRecord& path) {
  const auto id = owned(channel, handle, IdState::address_resolved);
  if (!id) return id.error();
  (*id)->path = path;
  (*id)->state = IdState::route_resolved;
  tell(**id, EventType::route_resolved);
  return {};
}

// --- Listeners -----------------------------------------------------------------------------------

Result<void> Manager::listen(ChannelId channel, IdHandle handle, unsigned backlog) {
  const auto owned_id = owned(channel, handle);
  if (!owned_id) return owned_id.error();
  Id& id = **owned_id;
  if (id.state == IdState::idle) {
    if (auto bound = bind(id, IpEndpoint()); !bound) return bound;
  }
  if (id.state != IdState::address_bound) return wrong_state();
  auto reserved = ports_.listen(
      {handle, id.bound_space, id.source, id.reuses_address, is_family_only(id, id.source)}, node_);
  if (!reserved) return reserved;
  id.reuses_address = false;
  for (const auto& port : local_ports()) {
    if (id.local && *id.local != port) continue;
    if (auto started = start_listening(id, port); !started) {
      stop_listening(id);
      return started;
    }
  }
  id.backlog = backlog == 0 || backlog > kMaxBacklog ? kMaxBacklog : backlog;
  id.state = IdState::listen;
  return {};
}

Result<void> Manager::start_listening(const Id& id, const LocalPort& port) {
  const auto service = service_id_of(id.bound_space, id.source);
  const auto found = listeners_.find({port, service});
  if (found != listeners_.end()) {
    found->second.ids.push_back(id.handle);
    return {};
  }
  auto& cm = hcas_.at(port.hca)->cm;
  const auto listener = cm.listen(service, cm::Listeners::kExact, port.number);
  if (!listener) return listener.error();
  if (!node_.announce(port, service)) {
    cm.stop_listening(*listener);
    return not_locked(EBUSY, "the service");
  }
  listeners_[{port, service}] = {*listener, {id.handle}};
  return {};
}

void Manager::stop_listening(const Id& id) {
  for (auto at = listeners_.begin(); at != listeners_.end();) {
    auto& [key, shared] = *at;
    std::erase(shared.ids, id.handle);
    if (!shared.ids.empty()) {
      ++at;
      continue;
    }
    hcas_.at(key.first.hca)->cm.stop_listening(shared.listener);
    node_.withdraw(key.first, key.second);
    at = listeners_.erase(at);
  }
}

// --- Connections ---------------------------------------------------------------------------------

void Manager::keep_connection(Id& id, cm::Handle handle) {
  id.connection = handle;
  hca_of(id).by_connection[handle] = id.handle;
}

void Manager::drop_connection(Id& id) {
  hca_of(id).by_connection.erase(*id.connection);
  id.connection.reset();
}

Result<void> Manager::connect(ChannelId channel, IdHandle handle,
                              const ConnectionParameters& parameters, TimePoint now) {
  const auto id = owned(channel, handle, IdState::route_resolved);
  if (!id) return id.error();
  auto sent = (*id)->service == Service::datagram ? send_sidr_req(**id, parameters, now)
                                                  : send_req(**id, parameters, now);
  if (!sent) return sent;
  (*id)->qpn = parameters.qpn;
  (*id)->state = IdState::connect;
  settle(now);
  return {};
}

Result<void> Manager::send_req(Id& id, const ConnectionParameters& parameters, TimePoint now) {
  wire::CmReq req;
  req.service_id = service_id_of(id.space, id.destination);
  req.qpn = parameters.qpn;
  req.responder_resources = parameters.responder_resources;
  req.initiator_depth = parameters.initiator_depth;
  req.remote_response_timeout = req.local_response_timeout = kResponseTimeout;
  req.transport = transport_of(id.service);
  if (req.transport == wire::CmTransport::extended) req.extended_transport = wire::kXrcTransport;
  req.flow_control = parameters.flow_control;
  req.starting_psn = id.starting_psn;
  req.retry_count = std::min(parameters.retry_count, kMaxQpRetries);
  req.rnr_retry_count = std::min(parameters.rnr_retry_count, kMaxQpRetries);
  req.max_cm_retries = kMaxCmRetries;
  req.srq = parameters.srq;
  const std::size_t offset = write_ip_header(id, req.private_data);
  if (!write_data(parameters.data, offset, req.private_data)) return too_long();
  const auto handle = hca_of(id).cm.connect(req, *id.path, node_.port(*id.local), now);
  if (!handle) return handle.error();
  keep_connection(id, *handle);
  return {};
}

Result<void> Manager::send_sidr_req(Id& id, const ConnectionParameters& parameters, TimePoint now) {
  wire::CmSidrReq req;
  req.service_id = service_id_of(id.space, id.destination);
  const std::size_t offset = write_ip_header(id, req.private_data);
  if (!write_data(parameters.data, offset, req.private_data)) return too_long();
  const auto handle = hca_of(id).cm.resolve(
      req, *id.path, {cm::time_of(kResponseTimeout), kMaxCmRetries}, node_.port(*id.local), now);
  if (!handle) return handle.error();
  keep_connection(id, *handle);
  return {};
}

/// The answer to a request for a UD queue pair, which ends the service resolution.
Result<void> Manager::send_sidr_rep(Id& id, wire::CmSidrRep rep, const UserData& data,
                                    TimePoint now) {
  if (!write_data(data, 0, rep.private_data)) return too_long();
  auto sent = hca_of(id).cm.answer(*id.connection, rep, now);
  if (sent) drop_connection(id);
  return sent;
}

Result<void> Manager::accept(ChannelId channel, IdHandle handle, std::uint64_t uid,
                             const ConnectionParameters& parameters, TimePoint now) {
  const auto owned_id = connected(channel, handle);
  if (!owned_id) return owned_id.error();
  Id& id = **owned_id;
  auto sent =
      id.service == Service::datagram
          ? send_sidr_rep(id, {.qpn = parameters.qpn, .qkey = id.qkey}, parameters.data, now)
          : send_rep(id, parameters, now);
  if (sent) {
    id.qpn = parameters.qpn;
    id.uid = uid;
  } else {
    (void)send_rejection(id, {}, wire::CmRejReason::consumer, now);
  }
  settle(now);
  return sent;
}

Result<void> Manager::send_rep(Id& id, const ConnectionParameters& parameters, TimePoint now) {
  wire::CmRep rep;
  rep.qpn = parameters.qpn;
  rep.starting_psn = id.starting_psn;
  rep.responder_resources = parameters.responder_resources;
  rep.initiator_depth = parameters.initiator_depth;
  rep.flow_control = parameters.flow_control;
  rep.rnr_retry_count = std::min(parameters.rnr_retry_count, kMaxQpRetries);
  rep.srq = parameters.srq;
  if (!write_data(parameters.data, 0, rep.private_data)) return too_long();
  return hca_of(id).cm.accept(*id.connection, rep, now);
}

Result<void> Manager::confirm(ChannelId channel, IdHandle handle, TimePoint now) {
  const auto id = connected(channel, handle);
  if (!id) return id.error();
  auto sent = hca_of(**id).cm.confirm(*(*id)->connection, {});
  settle(now);
  return sent;
}

Result<void> Manager::reject(ChannelId channel, IdHandle handle, const UserData& data,
                             wire::CmRejReason reason, TimePoint now) {
  constexpr auto kVendorOption = static_cast<wire::CmRejReason>(35);
  if (reason != wire::CmRejReason::consumer && reason != kVendorOption) {
    return Error{EINVAL, "a program may reject for the reasons 28 (consumer) and 35 (vendor) only"};
  }
  const auto owned_id = connected(channel, handle);
  if (!owned_id) return owned_id.error();
  auto sent = send_rejection(**owned_id, data, reason, now);
  settle(now);
  return sent;
}

Result<void> Manager::send_rejection(Id& id, const UserData& data, wire::CmRejReason reason,
                                     TimePoint now) {
  if (id.service == Service::datagram) {
    return send_sidr_rep(id, {.status = wire::CmSidrStatus::rejected}, data, now);
  }
  wire::CmRej rej;
  rej.reason = reason;
  if (!write_data(data, 0, rej.private_data)) return too_long();
  auto sent = hca_of(id).cm.reject(*id.connection, rej, now);
  if (sent) drop_connection(id);
  return sent;
}

/// Disconnects; succeeds also in states in which there is nothing to disconnect.
Result<void> Manager::disconnect(ChannelId channel, IdHandle handle, TimePoint now) {
  const auto id = owned(channel, handle);
  if (!id) return id.error();
  const IdState state = (*id)->state;
  if (state != IdState::connect && state != IdState::disconnected) return wrong_state();
  if ((*id)->connection) {
    (void)hca_of(**id).cm.disconnect(*(*id)->connection, {}, now);
  }
  settle(now);
  return {};
}

Result<void> Manager::communication_established(ChannelId channel, IdHandle handle, TimePoint now) {
  const auto id = connected(channel, handle);
  if (!id) return id.error();
  auto done = hca_of(**id).cm.communication_established(*(*id)->connection);
  settle(now);
  return done;
}

// --- Options -------------------------------------------------------------------------------------

Result<void> Manager::set_tos(ChannelId channel, IdHandle handle, std::uint8_t tos) {
  const auto id = owned(channel, handle);
  if (!id) return id.error();
  (*id)->tos = tos;
  return {};
}

Result<void> Manager::set_reuses_address(ChannelId channel, IdHandle handle, bool on) {
  const auto id = owned(channel, handle);
  if (!id) return id.error();
  // A listener cannot share its address, and one that shares its address goes on to do so.
  const IdState state = (*id)->state;
  const bool is_possible = on ? state != IdState::listen : state == IdState::idle;
  if (!is_possible) return wrong_state();
  (*id)->reuses_address = on;
  if ((*id)->has_port) ports_.share(handle, (*id)->bound_space, port_of((*id)->source), node_);
  return {};
}

Result<void> Manager::set_family_only(ChannelId channel, IdHandle handle, bool on) {
  const auto id = owned(channel, handle);
  if (!id) return id.error();
  if ((*id)->state != IdState::idle && (*id)->state != IdState::address_bound) return wrong_state();
  (*id)->is_family_only = on;
  return {};
}

Result<void> Manager::set_ack_timeout(ChannelId channel, IdHandle handle, std::uint8_t code) {
  const auto id = owned(channel, handle);
  if (!id) return id.error();
  if ((*id)->service != Service::reliable && (*id)->service != Service::extended_initiator) {
    return Error{EINVAL, "only IDs of reliable connections have an ACK time-out"};
  }
  (*id)->ack_timeout = code;
  return {};
}

Result<QpAttributes> Manager::init_qp(ChannelId channel, IdHandle handle,
                                      std::uint32_t state) const {
  const auto found = find(channel, handle);
  if (!found) return found.error();
  const Id& id = **found;
  if (!id.local) {
    return Error{EINVAL,
                 "the ID is not bound to a port: bind it to an address of one, or resolve an "
                 "address before"};
  }
  const cm::Connection* connection = nullptr;
  if (id.connection) connection = hca_of(id).cm.connection(*id.connection);
  return qp_attributes(id, state, node_.port(*id.local),
                       connection == nullptr ? nullptr : &connection->parameters());
}

}  // namespace softib::rdma_cm
