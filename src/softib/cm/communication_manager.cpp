#include "softib/cm/communication_manager.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include "ipoib/overloaded.hpp"
#include "softib/core/cm_recipient.hpp"
#include "wire/sa_values.hpp"

namespace softib::cm {

using ipoib::Error;
using ipoib::Result;
using ipoib::TimePoint;
using wire::CmRejReason;
using wire::CmSubject;

namespace {

static_assert(kMaxConnections + kMaxResolutions + kMaxServiceRequests < CommIdLayout::kIndices);

bool is_supported(const wire::CmReq& req) {
  switch (req.transport) {
    case wire::CmTransport::reliable:
    case wire::CmTransport::unreliable:
      return true;
    case wire::CmTransport::extended:
      return req.extended_transport == wire::kXrcTransport;
    case wire::CmTransport::reliable_datagram:
      return false;
  }
  return false;
}

/// The REJ if this port cannot have a connection as the REQ wants it (IBA 12.6.7.2).
std::optional<wire::CmRej> refusal(const wire::CmReq& req, const PortAttributes& port) {
  wire::CmRej rej;
  if (!is_supported(req)) {
    rej.reason = CmRejReason::invalid_transport;
  } else if (!port.has(req.primary.remote_gid)) {
    rej.reason = CmRejReason::invalid_gid;
    rej.info = wire::CmAdditionalInfo::of(port.gid().bytes());
  } else if (req.primary.is_subnet_local && !port.is_ethernet() &&
             !port.has(req.primary.remote_lid)) {
    rej.reason = CmRejReason::invalid_lid;
  } else if (wire::mtu_bytes(req.mtu) == 0 || req.mtu > port.mtu) {
    rej.reason = CmRejReason::invalid_mtu;
    rej.info = wire::CmAdditionalInfo::of(std::array{port.mtu});
  } else {
    return std::nullopt;
  }
  return rej;
}

Error no_connection() { return {EINVAL, "no such connection"}; }

}  // namespace

// --- Calls of the user ---------------------------------------------------------------------------

Handle CommunicationManager::new_handle() {
  return handles_.next(
      [&](Handle handle) { return connections_.contains(handle) || resolution_.has(handle); });
}

CommunicationManager::Entry* CommunicationManager::owned(Handle handle) {
  const auto found = connections_.find(handle);
  const bool is_owned = found != connections_.end() && !found->second.connection.is_released();
  return is_owned ? &found->second : nullptr;
}

const Connection* CommunicationManager::connection(Handle handle) const {
  const Entry* const entry = const_cast<CommunicationManager*>(this)->owned(handle);
  return entry == nullptr ? nullptr : &entry->connection;
}

template <class Call>
Result<void> CommunicationManager::call(Handle handle, Call&& make) {
  Entry* const entry = owned(handle);
  if (entry == nullptr) return no_connection();
  auto result = make(entry->connection);
  update(*entry);
  return result;
}

Result<Handle> CommunicationManager::connect(wire::CmReq req, const wire::PathRecord& path,
                                             const PortAttributes& port, TimePoint now) {
  if (!is_supported(req)) {
    return Error{EINVAL,
                 "only reliable, unreliable and extended reliable connections are supported"};
  }
  if (connections_.size() >= kMaxConnections) {
    return Error{ENOMEM, "a process can have " + std::to_string(kMaxConnections) +
                             " connections: close some"};
  }
  const Handle handle = new_handle();
  req.local_id = handle;
  req.ca_guid = self_.ca_guid;
  req.pkey = path.pkey;
  req.mtu = path.mtu;
  req.primary = path_of_req(path, self_.ack_delay);
  req.alternate = {};
  Connection connection(Route::along(path, port), req, path, dependencies(), now);
  const auto peer = Peer::of(path.dlid, path.dgid, port.lmc);
  update(connections_.emplace(handle, Entry{std::move(connection), peer}).first->second);
  return handle;
}

Result<void> CommunicationManager::accept(Handle handle, const wire::CmRep& rep, TimePoint now) {
  return call(handle, [&](Connection& one) { return one.accept(rep, dependencies(), now); });
}

Result<void> CommunicationManager::confirm(Handle handle, const wire::CmRtu& rtu) {
  return call(handle, [&](Connection& one) { return one.confirm(rtu, dependencies()); });
}

Result<void> CommunicationManager::reject(Handle handle, const wire::CmRej& rej, TimePoint now) {
  return call(handle, [&](Connection& one) { return one.reject(rej, dependencies(), now); });
}

Result<void> CommunicationManager::prepare_mra(Handle handle, const wire::CmMra& mra) {
  return call(handle, [&](Connection& one) { return one.prepare_mra(mra); });
}

Result<void> CommunicationManager::communication_established(Handle handle) {
  return call(handle,
              [&](Connection& one) { return one.communication_established(dependencies()); });
}

Result<void> CommunicationManager::disconnect(Handle handle,
                                              const wire::PrivateData<220>& private_data,
                                              TimePoint now) {
  return call(handle,
              [&](Connection& one) { return one.disconnect(private_data, dependencies(), now); });
}

Result<void> CommunicationManager::forget(Handle handle) {
  return call(handle, [&](Connection& one) { return one.forget(); });
}

Result<Handle> CommunicationManager::resolve(wire::CmSidrReq req, const wire::PathRecord& path,
                                             const Retries& retries, const PortAttributes& port,
                                             TimePoint now) {
  if (resolution_.is_full()) {
    return Error{ENOMEM, "the process waits for " + std::to_string(kMaxResolutions) +
                             " services, the maximum: try again later"};
  }
  req.request_id = new_handle();
  req.pkey = path.pkey;
  resolution_.resolve(req, Route::along(path, port), retries, now);
  return req.request_id;
}

Result<void> CommunicationManager::answer(Handle handle, const wire::CmSidrRep& rep,
                                          TimePoint now) {
  return resolution_.answer(handle, rep, now);
}

void CommunicationManager::destroy(Handle handle, TimePoint now) {
  std::erase_if(out_.events, [&](const Event& event) { return event.handle == handle; });
  resolution_.destroy(handle, now);
  if (Entry* const entry = owned(handle)) {
    entry->connection.destroy(dependencies(), now);
    update(*entry);
  }
}

/// To call after each stimulus: brings the indices in line with the state, and erases a connection
/// that has ended.
void CommunicationManager::update(Entry& entry) {
  const Connection& connection = entry.connection;
  const Handle handle = connection.handle();
  const bool has_ended = connection.has_ended();
  if (entry.qp && !connection.holds_remote_qp()) {
    by_qp_.erase(*entry.qp);
    entry.qp.reset();
  }
  if (entry.is_pending && (has_ended || connection.was_established())) {
    requests_.give_back(entry.peer);
    entry.is_pending = false;
  }
  deadlines_.move(handle, entry.deadline, connection.deadline());
  if (!has_ended) return;
  if (entry.request) by_request_.erase(*entry.request);
  connections_.erase(handle);
}

// --- Stimuli -------------------------------------------------------------------------------------

bool CommunicationManager::is_recipient(const wire::CmMessage& message, const Peer& peer,
                                        std::uint8_t port) const {
  const CmRecipient recipient = recipient_of(message);
  if (const auto* const service = std::get_if<wire::ServiceId>(&recipient)) {
    if (listeners_.find(*service, port)) return true;
    // The request was answered, or a listener that has gone since has not answered it yet.
    const auto* const req = std::get_if<wire::CmReq>(&message);
    return req != nullptr ? by_request_.contains({peer, req->local_id})
                          : resolution_.is_known(peer, std::get<wire::CmSidrReq>(message));
  }
  const CommId id = std::get<CommId>(recipient);
  if (id != CommId()) {
    return CommIdLayout::slot(id) == self_.slot && CommIdLayout::epoch(id) == self_.epoch;
  }
  const auto* const rej = std::get_if<wire::CmRej>(&message);
  return rej != nullptr && by_request_.contains({peer, rej->local_id});
}

void CommunicationManager::receive(const MadPacket& packet, const PortAttributes& port,
                                   TimePoint now) {
  const auto mad = wire::CmMad::parse(packet.mad);
  if (!mad) return out_.drop(Drop::malformed);
  ++out_.counters.received[mad->message.index()];
  const Incoming in{packet, port, mad->transaction_id, now};
  std::visit([&](const auto& message) { on_message(message, in); }, mad->message);
}

void CommunicationManager::reply(const Incoming& in, const wire::CmMessage& message) {
  out_.send(Route::back(in.packet), in.transaction_id, message);
}

/// Drops a message that names no connection.
template <class Message>
void CommunicationManager::reject_unknown(const Message& message, CmSubject subject,
                                          const Incoming& in) {
  reply(in, wire::CmRej{.local_id = message.remote_id,
                        .remote_id = message.local_id,
                        .subject = subject,
                        .reason = CmRejReason::invalid_comm_id});
}

/// The connection that a message of its peer names: both IDs and the port have to fit. Before REP,
/// anybody at the port may answer, also with another ID than an MRA had: the request may have been
/// forgotten since, or its process may have gone. A process that rejects a REQ need not have an ID.
template <class Message>
CommunicationManager::Entry* CommunicationManager::find(const Message& message,
                                                        const Incoming& in) {
  const auto found = connections_.find(message.remote_id);
  if (found == connections_.end() || found->second.peer != in.peer()) return nullptr;
  const Connection& connection = found->second.connection;
  const bool fits = connection.awaits_rep() || connection.remote_id() == message.local_id;
  return fits ? &found->second : nullptr;
}

CommunicationManager::Entry* CommunicationManager::find_other_with_qp(const Entry& entry, Qpn qpn) {
  const auto other = by_qp_.find({entry.peer, qpn});
  return other == by_qp_.end() ? nullptr : &connections_.at(other->second);
}

void CommunicationManager::end_stale(Entry& entry, TimePoint now) {
  entry.connection.on_stale(dependencies(), now);
  update(entry);
}

void CommunicationManager::on_message(const wire::CmReq& req, const Incoming& in) {
  const RequestKey key{in.peer(), req.local_id};
  if (const auto known = by_request_.find(key); known != by_request_.end()) {
    ++out_.counters.duplicates[wire::CmMessage(req).index()];
    Entry& entry = connections_.at(known->second);
    entry.connection.on_duplicate_req(dependencies());
    return update(entry);
  }
  const auto reject_with = [&](wire::CmRej rej) {
    rej.remote_id = req.local_id;
    reply(in, rej);
  };
  if (const auto rej = refusal(req, in.port)) return reject_with(*rej);
  const auto listener = listeners_.find(req.service_id, in.port.number);
  if (!listener) return reject_with({.reason = CmRejReason::invalid_service_id});
  const QpKey qp{in.peer(), req.qpn};
  if (const auto other = by_qp_.find(qp); other != by_qp_.end()) {
    reject_with({.reason = CmRejReason::stale_connection});
    return end_stale(connections_.at(other->second), in.now);
  }
  if (connections_.size() >= kMaxConnections || !requests_.take(in.peer())) {
    return out_.drop(Drop::full);
  }
  const Handle handle = new_handle();
  Entry entry{Connection(handle, Route::back(in.packet), in.transaction_id, req), in.peer(), key,
              qp, true};
  by_request_.emplace(key, handle);
  by_qp_.emplace(qp, handle);
  connections_.emplace(handle, std::move(entry));
  out_.events.push_back({handle, ConnectionRequested{*listener, req, in.port.number}});
}

void CommunicationManager::on_message(const wire::CmMra& mra, const Incoming& in) {
  Entry* const entry = find(mra, in);
  if (entry == nullptr) return out_.drop(Drop::no_connection);
  entry->connection.on_mra(mra, dependencies(), in.now);
  update(*entry);
}

/// Handles a REJ. An active side that gives up before it has had an answer knows no ID of ours (IBA
/// 12.6.7.2, reason 4).
void CommunicationManager::on_message(const wire::CmRej& rej, const Incoming& in) {
  Entry* entry = find(rej, in);
  if (entry == nullptr && rej.remote_id == CommId() && rej.reason == CmRejReason::timeout) {
    const auto request = by_request_.find({in.peer(), rej.local_id});
    if (request != by_request_.end()) entry = &connections_.at(request->second);
  }
  if (entry == nullptr) return out_.drop(Drop::no_connection);
  entry->connection.on_rej(rej, dependencies(), in.now);
  update(*entry);
}

void CommunicationManager::on_message(const wire::CmRep& rep, const Incoming& in) {
  Entry* const entry = find(rep, in);
  if (entry == nullptr) {
    return reject_unknown(rep, CmSubject::rep, in);
  }
  if (!entry->connection.awaits_rep()) {
    ++out_.counters.duplicates[wire::CmMessage(rep).index()];
    entry->connection.on_rep(rep, dependencies());
    return update(*entry);
  }
  if (Entry* const other = find_other_with_qp(*entry, rep.qpn)) {
    entry->connection.refuse_stale_rep(rep, dependencies());
    update(*entry);
    return end_stale(*other, in.now);
  }
  entry->connection.on_rep(rep, dependencies());
  entry->qp = QpKey{entry->peer, rep.qpn};
  by_qp_.emplace(*entry->qp, entry->connection.handle());
  update(*entry);
}

void CommunicationManager::on_message(const wire::CmRtu& rtu, const Incoming& in) {
  Entry* const entry = find(rtu, in);
  if (entry == nullptr) {
    return reject_unknown(rtu, CmSubject::other, in);
  }
  entry->connection.on_rtu(rtu, dependencies());
  update(*entry);
}

/// Handles a DREQ. A connection that is not known here has ended, which the peer waits to hear.
void CommunicationManager::on_message(const wire::CmDreq& dreq, const Incoming& in) {
  Entry* const entry = find(dreq, in);
  if (entry == nullptr) {
    return reply(in, wire::CmDrep{.local_id = dreq.remote_id, .remote_id = dreq.local_id});
  }
  entry->connection.on_dreq(dreq, in.transaction_id, dependencies(), in.now);
  update(*entry);
}

void CommunicationManager::on_message(const wire::CmDrep& drep, const Incoming& in) {
  Entry* const entry = find(drep, in);
  if (entry == nullptr) return out_.drop(Drop::no_connection);
  entry->connection.on_drep(drep, dependencies(), in.now);
  update(*entry);
}

void CommunicationManager::on_message(const wire::CmSidrReq& req, const Incoming& in) {
  if (resolution_.on_duplicate(in.peer(), req)) {
    ++out_.counters.duplicates[wire::CmMessage(req).index()];
    return;
  }
  const auto listener = listeners_.find(req.service_id, in.port.number);
  if (!listener) {
    return reply(in, wire::CmSidrRep{.request_id = req.request_id,
                                     .status = wire::CmSidrStatus::unsupported_service,
                                     .service_id = req.service_id});
  }
  if (!resolution_.has_room_for(in.peer())) return out_.drop(Drop::full);
  resolution_.on_request(new_handle(), in.peer(), Route::back(in.packet), in.transaction_id, req,
                         *listener);
}

void CommunicationManager::on_message(const wire::CmSidrRep& rep, const Incoming& in) {
  resolution_.on_reply(rep, in.peer(), in.port.lmc);
}

void CommunicationManager::on_message(const wire::CmLap& lap, const Incoming& in) {
  const bool is_known = find(lap, in) != nullptr;
  reply(in,
        wire::CmApr{.local_id = lap.remote_id,
                    .remote_id = lap.local_id,
                    .status = is_known ? wire::CmApr::kUnsupported : wire::CmApr::kInvalidCommId});
}

void CommunicationManager::on_message(const wire::CmApr& /*apr*/, const Incoming& /*in*/) {
  out_.drop(Drop::unexpected);  // no LAP is ever sent
}

void CommunicationManager::on_time(TimePoint now) {
  while (const auto handle = deadlines_.expired(now)) {
    Entry& entry = connections_.at(*handle);
    entry.connection.on_deadline(dependencies(), now);
    update(entry);
  }
  resolution_.on_time(now);
}

TimePoint CommunicationManager::next_deadline() const {
  return std::min(deadlines_.next(), resolution_.next_deadline());
}

bool CommunicationManager::may_be_with(const Entry& entry, const Peer& peer, std::uint32_t slot,
                                       std::uint32_t epoch) {
  const CommId remote = entry.connection.remote_id();
  const bool is_of_process =
      CommIdLayout::slot(remote) == slot && CommIdLayout::epoch(remote) == epoch;
  return entry.peer == peer && (remote == CommId() || is_of_process);
}

bool CommunicationManager::has_peer(const Peer& at, std::uint32_t slot, std::uint32_t epoch) const {
  return std::ranges::any_of(
      connections_, [&](const auto& one) { return may_be_with(one.second, at, slot, epoch); });
}

void CommunicationManager::process_gone(const Peer& at, std::uint8_t lmc, std::uint32_t slot,
                                        std::uint32_t epoch, TimePoint now) {
  std::vector<Handle> affected;
  for (const auto& [handle, entry] : connections_) {
    if (may_be_with(entry, at, slot, epoch)) affected.push_back(handle);
  }
  std::ranges::sort(affected);  // so that equal histories give equal output
  for (const Handle handle : affected) {
    Entry& entry = connections_.at(handle);
    entry.connection.on_peer_gone(dependencies(), now);
    update(entry);
  }
  resolution_.on_peer_gone(at, lmc, now);
}

}  // namespace softib::cm
