// The stimuli, in the order of connection.hpp. Each names every state, so a new state does not
// compile until each of them handles it.
#include "softib/cm/connection.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <string>
#include <utility>

#include "ipoib/overloaded.hpp"
#include "softib/cm/limits.hpp"

namespace softib::cm {

using ipoib::Error;
using ipoib::OneOf;
using ipoib::Overloaded;
using ipoib::Result;
using ipoib::TimePoint;
using wire::CmRejReason;
using wire::CmSubject;

namespace {

std::unique_ptr<MadPacket> kept(const MadPacket& packet) {
  return std::make_unique<MadPacket>(packet);
}

std::array<std::uint8_t, sizeof(std::uint64_t)> bytes_of(Guid guid) {
  std::array<std::uint8_t, sizeof(std::uint64_t)> bytes{};
  ipoib::store_be(bytes.data(), guid.value());
  return bytes;
}

}  // namespace

Connection::Connection(const Route& route, const wire::CmReq& req, const wire::PathRecord& path,
                       const Dependencies& deps, TimePoint now)
    : handle_(req.local_id),
      local_qpn_(req.qpn),
      route_(route),
      transaction_id_(transaction_of(handle_, wire::CmReq::kAttribute)),
      interval_(std::max(time_of(req.remote_response_timeout) + 2 * time_of(path.lifetime),
                         kMinInterval)),
      retries_(req.max_cm_retries) {
  parameters_.transport = req.transport;
  parameters_.path = path;
  parameters_.path.service_id = req.service_id.value();
  parameters_.rq_psn = req.starting_psn;
  parameters_.responder_resources = req.responder_resources;
  parameters_.initiator_depth = req.initiator_depth;
  parameters_.retry_count = req.retry_count;
  parameters_.rnr_retry_count = req.rnr_retry_count;
  parameters_.ack_timeout = req.primary.ack_timeout;
  state_ = ReqSent{repeated(deps.out.send(route_, transaction_id_, req), now)};
}

Connection::Connection(Handle handle, const Route& route, std::uint64_t transaction_id,
                       const wire::CmReq& req)
    : handle_(handle),
      remote_id_(req.local_id),
      remote_guid_(req.ca_guid),
      route_(route),
      transaction_id_(transaction_id),
      interval_(std::max(time_of(req.local_response_timeout) + time_of(req.primary.ack_timeout),
                         kMinInterval)),
      retries_(req.max_cm_retries),
      has_alternate_(req.has_alternate()),
      state_(ReqReceived{}) {
  parameters_.transport = req.transport;
  parameters_.path = path_back(req);
  parameters_.remote_qpn = req.qpn;
  parameters_.sq_psn = req.starting_psn;
  parameters_.responder_resources = req.initiator_depth;
  parameters_.initiator_depth = req.responder_resources;
  parameters_.retry_count = req.retry_count;
  parameters_.rnr_retry_count = req.rnr_retry_count;
  parameters_.ack_timeout = req.primary.ack_timeout;
}

// --- Calls of the user ---------------------------------------------------------------------------

Result<void> Connection::accept(wire::CmRep rep, const Dependencies& deps, TimePoint now) {
  if (!std::holds_alternative<ReqReceived>(state_)) return refusal("accepted");
  rep.local_id = handle_;
  rep.remote_id = remote_id_;
  rep.ca_guid = deps.self.ca_guid;
  rep.target_ack_delay = deps.self.ack_delay;
  rep.failover = has_alternate_ ? wire::CmRep::kFailoverUnsupported : std::uint8_t{0};
  local_qpn_ = rep.qpn;
  parameters_.rq_psn = rep.starting_psn;
  parameters_.responder_resources = rep.responder_resources;
  parameters_.initiator_depth = rep.initiator_depth;
  state_ = RepSent{repeated(deps.out.send(route_, transaction_id_, rep), now)};
  return {};
}

Result<void> Connection::confirm(wire::CmRtu rtu, const Dependencies& deps) {
  if (!std::holds_alternative<RepReceived>(state_)) return refusal("confirmed");
  rtu.local_id = handle_;
  rtu.remote_id = remote_id_;
  was_established_ = true;
  Packet sent = kept(deps.out.send(route_, transaction_id_, rtu));
  state_ = Established{std::move(sent)};
  return {};
}

Result<void> Connection::reject(wire::CmRej rej, const Dependencies& deps, TimePoint now) {
  const auto with_subject = [&](CmSubject subject) {
    rej.subject = subject;
    released_ = true;
    return Result<void>();
  };
  return std::visit(
      Overloaded{
          [&](ReqReceived&) {
            auto done = with_subject(CmSubject::req);
            wait(now, kept(send_rej(rej, deps)));
            return done;
          },
          [&](RepReceived&) {
            auto done = with_subject(CmSubject::rep);
            wait(now, kept(send_rej(rej, deps)));
            return done;
          },
          [&](RepSent&) {
            auto done = with_subject(CmSubject::other);
            withdraw_rep(rej, deps, now);
            return done;
          },
          [&](OneOf<ReqSent, Established, DreqSent, DreqReceived, TimeWait, Ended> auto&) {
            return Result<void>(refusal("rejected"));
          },
      },
      state_);
}

Result<void> Connection::prepare_mra(const wire::CmMra& mra) {
  const auto prepare = [&](CmSubject subject) {
    auto out = std::make_unique<wire::CmMra>(mra);
    out->local_id = handle_;
    out->remote_id = remote_id_;
    out->subject = subject;
    return out;
  };
  if (auto* const req = std::get_if<ReqReceived>(&state_)) {
    req->mra = prepare(CmSubject::req);
  } else if (auto* const rep = std::get_if<RepReceived>(&state_)) {
    rep->mra = prepare(CmSubject::rep);
  } else {
    return refusal("delayed");
  }
  return {};
}

Result<void> Connection::communication_established(const Dependencies& deps) {
  if (std::holds_alternative<Established>(state_)) return Error{EISCONN, "is established"};
  if (!std::holds_alternative<RepSent>(state_)) return refusal("established");
  on_rtu({}, deps);
  return {};
}

Result<void> Connection::disconnect(const wire::PrivateData<220>& private_data,
                                    const Dependencies& deps, TimePoint now) {
  if (std::holds_alternative<Established>(state_)) {
    send_dreq(private_data, deps, now);
    return {};
  }
  if (const auto* const received = std::get_if<DreqReceived>(&state_)) {
    wire::PrivateData<224> answer{};
    std::ranges::copy(private_data, answer.begin());
    wait(now, {}, send_drep(received->transaction_id, deps, answer));
    return {};
  }
  return refusal("disconnected");
}

Result<void> Connection::forget() {
  if (!std::holds_alternative<ReqReceived>(state_)) return refusal("forgotten");
  released_ = true;
  state_ = Ended{};
  return {};
}

void Connection::destroy(const Dependencies& deps, TimePoint now) {
  released_ = true;
  std::visit(Overloaded{
                 [&](ReqSent&) {
                   wire::CmRej rej = rejection(CmRejReason::timeout);
                   rej.info = wire::CmAdditionalInfo::of(bytes_of(deps.self.ca_guid));
                   send_rej(rej, deps);
                   state_ = Ended{};
                 },
                 [&](OneOf<ReqReceived, RepSent, RepReceived> auto&) {
                   (void)reject(rejection(CmRejReason::consumer), deps, now);
                 },
                 [&](OneOf<Established, DreqReceived> auto&) { (void)disconnect({}, deps, now); },
                 [](OneOf<DreqSent, TimeWait, Ended> auto&) {},
             },
             state_);
}

// --- Messages of the peer ------------------------------------------------------------------------

void Connection::on_duplicate_req(const Dependencies& deps) {
  std::visit(Overloaded{
                 [&](ReqReceived& s) {
                   if (s.mra != nullptr) deps.out.send(route_, transaction_id_, *s.mra);
                 },
                 [&](RepSent& s) { deps.out.send_again<wire::CmRep>(s.rep.packet); },
                 [&](DreqSent& s) {
                   if (s.rejects) send_rej(rejection(CmRejReason::consumer), deps);
                 },
                 [&](TimeWait& s) {
                   if (s.rejection != nullptr) deps.out.send_again<wire::CmRej>(*s.rejection);
                 },
                 [](OneOf<Established, DreqReceived> auto&) {},
                 [](OneOf<ReqSent, RepReceived, Ended> auto&) {
                   assert(false && "is not of the passive side");
                 },
             },
             state_);
}

void Connection::on_mra(const wire::CmMra& mra, const Dependencies& deps, TimePoint now) {
  const TimePoint deadline = now + time_of(mra.service_timeout) + interval_;
  std::visit(Overloaded{
                 [&](ReqSent& s) {
                   if (mra.subject != CmSubject::req) return deps.out.drop(Drop::unexpected);
                   remote_id_ = mra.local_id;
                   s.req.deadline = deadline;
                 },
                 [&](RepSent& s) {
                   if (mra.subject != CmSubject::rep) return deps.out.drop(Drop::unexpected);
                   s.rep.deadline = deadline;
                 },
                 [&](OneOf<ReqReceived, RepReceived, Established, DreqSent, DreqReceived, TimeWait,
                           Ended> auto&) { deps.out.drop(Drop::unexpected); },
             },
             state_);
}

void Connection::on_rej(const wire::CmRej& rej, const Dependencies& deps, TimePoint now) {
  std::visit(
      Overloaded{
          [&](ReqSent&) {
            tell_last(Rejected{rej}, deps);
            state_ = Ended{};
          },
          // The connection enters time wait, since a REQ or REP may be late.
          [&](OneOf<ReqReceived, RepSent, RepReceived> auto&) {
            tell_last(Rejected{rej}, deps);
            wait(now);
          },
          [&](OneOf<Established, DreqSent> auto&) { become_disconnected(deps, now); },
          [&](OneOf<DreqReceived, TimeWait, Ended> auto&) { deps.out.drop(Drop::unexpected); },
      },
      state_);
}

void Connection::on_rep(const wire::CmRep& rep, const Dependencies& deps) {
  std::visit(Overloaded{
                 [&](ReqSent&) {
                   remote_id_ = rep.local_id;
                   remote_guid_ = rep.ca_guid;
                   parameters_.remote_qpn = rep.qpn;
                   parameters_.sq_psn = rep.starting_psn;
                   parameters_.responder_resources = rep.initiator_depth;
                   parameters_.initiator_depth = rep.responder_resources;
                   parameters_.rnr_retry_count = rep.rnr_retry_count;
                   parameters_.ack_timeout =
                       ack_timeout_of(parameters_.path.lifetime, rep.target_ack_delay);
                   state_ = RepReceived{};
                   tell(Accepted{rep}, deps);
                 },
                 [&](RepReceived& s) {
                   if (s.mra != nullptr) deps.out.send(route_, transaction_id_, *s.mra);
                 },
                 [&](Established& s) {
                   if (s.rtu == nullptr) return deps.out.drop(Drop::unexpected);
                   deps.out.send_again<wire::CmRtu>(*s.rtu);
                 },
                 [&](TimeWait& s) {
                   if (s.rejection != nullptr) deps.out.send_again<wire::CmRej>(*s.rejection);
                 },
                 [](OneOf<DreqSent, DreqReceived> auto&) {},
                 [&](OneOf<ReqReceived, RepSent, Ended> auto&) { deps.out.drop(Drop::unexpected); },
             },
             state_);
}

void Connection::on_rtu(const wire::CmRtu& rtu, const Dependencies& deps) {
  std::visit(Overloaded{
                 [&](RepSent&) {
                   was_established_ = true;
                   state_ = Established{};
                   tell(cm::Established{rtu.private_data}, deps);
                 },
                 [&](DreqSent& s) {
                   if (s.rejects) send_rej(rejection(CmRejReason::consumer), deps);
                 },
                 [&](TimeWait& s) {
                   if (s.rejection != nullptr) deps.out.send_again<wire::CmRej>(*s.rejection);
                 },
                 [](OneOf<Established, DreqReceived> auto&) {},
                 [&](OneOf<ReqSent, ReqReceived, RepReceived, Ended> auto&) {
                   deps.out.drop(Drop::unexpected);
                 },
             },
             state_);
}

void Connection::on_dreq(const wire::CmDreq& dreq, std::uint64_t transaction_id,
                         const Dependencies& deps, TimePoint now) {
  if (dreq.remote_qpn != local_qpn_) return deps.out.drop(Drop::unexpected);
  std::visit(
      Overloaded{
          [&](OneOf<RepSent, Established> auto&) {
            Disconnected event{.awaits_answer = true};
            std::ranges::copy(dreq.private_data, event.private_data.begin());
            was_established_ = true;
            state_ = DreqReceived{transaction_id};
            tell(event, deps);
          },
          [&](RepReceived&) {
            tell_rejected(CmRejReason::consumer, deps);
            wait(now, {}, send_drep(transaction_id, deps));
          },
          [&](DreqSent&) { become_disconnected(deps, now, send_drep(transaction_id, deps)); },
          [&](TimeWait& s) {
            if (s.drep == nullptr) {
              s.drep = send_drep(transaction_id, deps);
            } else {
              deps.out.send_again<wire::CmDrep>(*s.drep);
            }
          },
          [](DreqReceived&) {},
          [&](OneOf<ReqSent, ReqReceived, Ended> auto&) { deps.out.drop(Drop::unexpected); },
      },
      state_);
}

void Connection::on_drep(const wire::CmDrep& drep, const Dependencies& deps, TimePoint now) {
  if (!std::holds_alternative<DreqSent>(state_)) return deps.out.drop(Drop::unexpected);
  become_disconnected(deps, now, {}, drep.private_data);
}

// --- Other stimuli -------------------------------------------------------------------------------

void Connection::on_deadline(const Dependencies& deps, TimePoint now) {
  std::visit(Overloaded{
                 [&](ReqSent& s) {
                   if (deps.out.repeat<wire::CmReq>(s.req, now)) return;
                   tell_last(Unanswered{}, deps);
                   destroy(deps, now);
                 },
                 [&](RepSent& s) {
                   if (deps.out.repeat<wire::CmRep>(s.rep, now)) return;
                   tell_last(Unanswered{}, deps);
                   withdraw_rep(rejection(CmRejReason::timeout), deps, now);
                 },
                 [&](DreqSent& s) {
                   if (deps.out.repeat<wire::CmDreq>(s.dreq, now)) return;
                   wait(now, {}, {});
                   tell(Disconnected{.is_unanswered = true}, deps);
                 },
                 [&](TimeWait&) {
                   tell_last(TimeWaitOver{}, deps);
                   state_ = Ended{};
                 },
                 [](OneOf<ReqReceived, RepReceived, Established, DreqReceived, Ended> auto&) {
                   assert(false && "has no deadline");
                 },
             },
             state_);
}

/// Acts as if the peer had destroyed its connections before it ended.
void Connection::on_peer_gone(const Dependencies& deps, TimePoint now) {
  std::visit(Overloaded{
                 // Another process may listen now, or the subnet answers that none does.
                 [&](ReqSent& s) {
                   remote_id_ = CommId();
                   s.req.deadline = now + s.req.interval;
                   deps.out.send_again<wire::CmReq>(s.req.packet);
                 },
                 [&](ReqReceived&) {
                   tell_rejected(CmRejReason::timeout, deps);
                   wait(now);
                 },
                 [&](OneOf<RepSent, RepReceived> auto&) {
                   tell_rejected(CmRejReason::consumer, deps);
                   wait(now);
                 },
                 [&](OneOf<Established, DreqSent> auto&) { become_disconnected(deps, now); },
                 [&](DreqReceived&) { wait(now); },
                 [](OneOf<TimeWait, Ended> auto&) {},
             },
             state_);
}

void Connection::on_stale(const Dependencies& deps, TimePoint now) {
  std::visit(Overloaded{
                 [&](OneOf<ReqReceived, RepSent, RepReceived> auto&) {
                   tell_rejected(CmRejReason::stale_connection, deps);
                   wait(now, kept(send_rej(rejection(CmRejReason::stale_connection), deps)));
                 },
                 [&](Established&) { send_dreq({}, deps, now); },
                 [](OneOf<ReqSent, DreqSent, DreqReceived, TimeWait, Ended> auto&) {
                   assert(false && "does not hold the queue pair of the peer");
                 },
             },
             state_);
}

void Connection::refuse_stale_rep(const wire::CmRep& rep, const Dependencies& deps) {
  assert(awaits_rep());
  remote_id_ = rep.local_id;
  wire::CmRej rej = rejection(CmRejReason::stale_connection);
  rej.subject = CmSubject::rep;
  send_rej(rej, deps);
  tell_rejected(CmRejReason::stale_connection, deps);
  state_ = Ended{};
}

// --- Parts of the stimuli ------------------------------------------------------------------------

Repeated Connection::repeated(const MadPacket& packet, TimePoint now) const {
  return {packet, retries_, interval_, now + interval_};
}

void Connection::tell(const What& what, const Dependencies& deps) {
  if (!released_) deps.out.events.push_back({handle_, what});
}

void Connection::tell_last(const What& what, const Dependencies& deps) {
  tell(what, deps);
  released_ = true;
}

/// Reports a REJ as if the peer had sent it.
void Connection::tell_rejected(CmRejReason reason, const Dependencies& deps) {
  wire::CmRej rej = rejection(reason);
  std::swap(rej.local_id, rej.remote_id);
  tell_last(Rejected{rej}, deps);
}

wire::CmRej Connection::rejection(CmRejReason reason) const {
  wire::CmRej rej;
  rej.local_id = handle_;
  rej.remote_id = remote_id_;
  rej.reason = reason;
  return rej;
}

const MadPacket& Connection::send_rej(wire::CmRej rej, const Dependencies& deps) {
  rej.local_id = handle_;
  rej.remote_id = remote_id_;
  return deps.out.send(route_, transaction_id_, rej);
}

ConnectionStates::Packet Connection::send_drep(std::uint64_t transaction_id,
                                               const Dependencies& deps,
                                               const wire::PrivateData<224>& private_data) {
  return kept(
      deps.out.send(route_, transaction_id, wire::CmDrep{handle_, remote_id_, private_data}));
}

wire::CmMad Connection::dreq(const wire::PrivateData<220>& private_data) const {
  return {transaction_of(handle_, wire::CmDreq::kAttribute),
          wire::CmDreq{handle_, remote_id_, parameters_.remote_qpn, private_data}};
}

void Connection::send_dreq(const wire::PrivateData<220>& private_data, const Dependencies& deps,
                           TimePoint now) {
  const wire::CmMad mad = dreq(private_data);
  state_ = DreqSent{repeated(deps.out.send(route_, mad.transaction_id, mad.message), now)};
}

/// Nothing acknowledges a REJ, and its receiver may believe that the connection is established,
/// since its RTU may have been lost. So DREQs follow, which are answered.
void Connection::withdraw_rep(const wire::CmRej& rej, const Dependencies& deps, TimePoint now) {
  send_rej(rej, deps);
  Repeated message = repeated(route_.packet(dreq({})), now);
  ++message.left;  // has not been sent yet
  state_ = DreqSent{message, true};
}

void Connection::wait(TimePoint now, Packet rejection, Packet drep) {
  state_ = TimeWait{now + time_of(parameters_.ack_timeout), std::move(rejection), std::move(drep)};
}

void Connection::become_disconnected(const Dependencies& deps, TimePoint now, Packet drep,
                                     const wire::PrivateData<224>& private_data) {
  wait(now, {}, std::move(drep));
  tell(Disconnected{.private_data = private_data}, deps);
}

Error Connection::refusal(std::string_view call) const {
  return {EINVAL, "a connection in state " + std::string(kConnectionStates[state()]) +
                      " cannot be " + std::string(call)};
}

bool Connection::holds_remote_qp() const {
  return std::visit(
      Overloaded{
          [](const OneOf<ReqReceived, RepSent, RepReceived, Established> auto&) { return true; },
          [](const OneOf<ReqSent, DreqSent, DreqReceived, TimeWait, Ended> auto&) { return false; },
      },
      state_);
}

TimePoint Connection::deadline() const {
  return std::visit(
      Overloaded{
          [](const ReqSent& s) { return s.req.deadline; },
          [](const RepSent& s) { return s.rep.deadline; },
          [](const DreqSent& s) { return s.dreq.deadline; },
          [](const TimeWait& s) { return s.until; },
          [](const OneOf<ReqReceived, RepReceived, Established, DreqReceived, Ended> auto&) {
            return ipoib::kNever;
          },
      },
      state_);
}

}  // namespace softib::cm
