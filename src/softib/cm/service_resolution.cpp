#include "softib/cm/service_resolution.hpp"

#include <algorithm>
#include <cerrno>

namespace softib::cm {

using ipoib::Error;
using ipoib::Result;
using ipoib::TimePoint;

namespace {

Peer peer_of(const Route& route, std::uint8_t lmc) {
  return Peer::of(route.dlid, route.grh ? route.grh->dgid : Gid(), lmc);
}

}  // namespace

void ServiceResolution::resolve(const wire::CmSidrReq& req, const Route& route,
                                const Retries& retries, TimePoint now) {
  const Handle handle = req.request_id;
  const std::uint64_t transaction = transaction_of(handle, wire::CmSidrReq::kAttribute);
  const auto interval = std::max(retries.interval, kMinInterval);
  auto& sent = sent_[handle];
  sent.route = route;
  sent.message = {out_.send(route, transaction, req), retries.count, interval, now + interval};
  deadlines_.move(handle, sent.deadline, sent.message.deadline);
}

Result<void> ServiceResolution::answer(Handle handle, wire::CmSidrRep rep, TimePoint now) {
  const auto found = received_.find(handle);
  if (found == received_.end() || found->second.answer != nullptr) {
    return Error{EINVAL,
                 "the request for a service is answered already, or its sender has given up"};
  }
  auto& received = found->second;
  rep.request_id = received.key.second;
  rep.service_id = received.service_id;
  received.answer =
      std::make_unique<MadPacket>(out_.send(received.route, received.transaction_id, rep));
  deadlines_.move(handle, received.deadline, now + kServiceAnswerRetention);
  return {};
}

void ServiceResolution::destroy(Handle handle, TimePoint now) {
  erase_sent(handle);
  (void)answer(handle, {.status = wire::CmSidrStatus::rejected}, now);
}

bool ServiceResolution::on_duplicate(const Peer& peer, const wire::CmSidrReq& req) {
  const auto known = by_key_.find({peer, req.request_id});
  if (known == by_key_.end()) return false;
  const auto& received = received_.at(known->second);
  if (received.answer != nullptr) out_.send_again<wire::CmSidrRep>(*received.answer);
  return true;
}

void ServiceResolution::on_request(Handle handle, const Peer& peer, const Route& route,
                                   std::uint64_t transaction_id, const wire::CmSidrReq& req,
                                   ListenerId listener) {
  if (!share_.take(peer)) return out_.drop(Drop::full);
  const Key key{peer, req.request_id};
  by_key_.emplace(key, handle);
  received_.emplace(handle, Received{key, route, transaction_id, req.service_id});
  wire::PathRecord path;
  path.service_id = req.service_id.value();
  path.dlid = route.dlid;
  path.slid = route.slid;
  path.sl = route.sl;
  path.pkey = req.pkey;
  if (route.grh) {
    path.dgid = route.grh->dgid;
    path.sgid = route.grh->sgid;
    path.flow_label = route.grh->flow_label;
    path.traffic_class = route.grh->traffic_class;
    path.hop_limit = route.grh->hop_limit;
  }
  out_.events.push_back({handle, ServiceRequested{listener, req, path, route.port}});
}

void ServiceResolution::on_reply(const wire::CmSidrRep& rep, const Peer& from, std::uint8_t lmc) {
  const auto found = sent_.find(rep.request_id);
  if (found == sent_.end() || peer_of(found->second.route, lmc) != from) {
    return out_.drop(Drop::no_connection);
  }
  out_.events.push_back({rep.request_id, ServiceResolved{rep}});
  erase_sent(rep.request_id);
}

void ServiceResolution::on_peer_gone(const Peer& peer, std::uint8_t lmc, TimePoint now) {
  for (auto& [handle, sent] : sent_) {
    if (peer_of(sent.route, lmc) != peer) continue;
    sent.message.deadline = now + sent.message.interval;
    deadlines_.move(handle, sent.deadline, sent.message.deadline);
    out_.send_again<wire::CmSidrReq>(sent.message.packet);
  }
}

void ServiceResolution::on_time(TimePoint now) {
  while (const auto handle = deadlines_.expired(now)) {
    const auto found = sent_.find(*handle);
    if (found == sent_.end()) {
      erase_received(*handle);
      continue;
    }
    auto& [route, message, deadline] = found->second;
    if (out_.repeat<wire::CmSidrReq>(message, now)) {
      deadlines_.move(*handle, deadline, message.deadline);
    } else {
      out_.events.push_back({*handle, Unanswered{}});
      erase_sent(*handle);
    }
  }
}

void ServiceResolution::erase_sent(Handle handle) {
  const auto found = sent_.find(handle);
  if (found == sent_.end()) return;
  deadlines_.move(handle, found->second.deadline, ipoib::kNever);
  sent_.erase(found);
}

void ServiceResolution::erase_received(Handle handle) {
  const auto found = received_.find(handle);
  deadlines_.move(handle, found->second.deadline, ipoib::kNever);
  share_.give_back(found->second.key.first);
  by_key_.erase(found->second.key);
  received_.erase(found);
}

}  // namespace softib::cm
