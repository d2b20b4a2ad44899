#include "daemon/port/subnet_sa.hpp"

#include <algorithm>
#include <utility>

#include "daemon/port/port_watcher.hpp"
#include "daemon/pump/sa_requests.hpp"
#include "ipoib/log.hpp"

namespace ipoib::daemon {

namespace {

/// Of a join or leave; null for other queries.
const wire::McMemberRecord* membership_in(const wire::SaQuery& query) {
  if (const auto* const join = std::get_if<wire::JoinQuery>(&query)) return &join->record;
  if (const auto* const leave = std::get_if<wire::LeaveQuery>(&query)) return &leave->record;
  return nullptr;
}

}  // namespace

SubnetSa::SubnetSa(std::unique_ptr<verbs::WatchedMadPort> mads, SharedMemberships memberships,
                   Logger& log, std::uint64_t seed, RandomSource random)
    : log_(log),
      mads_(std::move(mads)),
      memberships_(std::move(memberships)),
      client_({}, *mads_, log, seed, std::move(random)),
      subscriptions_(log, ~seed) {}

/// Renews the subscription, since the SA may have registered it under the port's old attributes.
void SubnetSa::on_port(const verbs::PortSnapshot& port, TimePoint now) {
  // As the links do, which then have no memberships.
  if (!port_status(port, kDefaultPKey).active) {
    memberships_.on_port_lost();
    postponed_.clear();
    send_postponed_at_ = kNever;
  }
  const auto sa = sa_destination(port);
  has_sa_ = sa.has_value();
  client_.set_sm(sa, now);
  renew_subscriptions(now);
  dispatch(now);
}

/// While another program on the port receives the reports, tries from time to time to take over.
void SubnetSa::renew_subscriptions(TimePoint now) {
  if (!has_sa_ || ended_) {
    claim_at_ = kNever;
    return subscriptions_.suspend();
  }
  const bool is_waiting = claim_at_ != kNever;
  if (mads_->claim_reports()) {
    if (is_waiting) log_.info("receiving the SA's reports from now on");
    claim_at_ = kNever;
    return subscriptions_.renew();
  }
  if (!is_waiting) {
    log_.info(
        "another program on the port receives the SA's reports; polling the SA for changes "
        "of groups and paths until it ends");
  }
  claim_at_ = now + kClaimPause;
}

void SubnetSa::request(const wire::SaRequest& request, TimePoint now) {
  cancel_opposite(request.query);
  if (!try_request(request, now)) postpone(request, now);
  dispatch(now);
}

/// Returns false if the request is to be tried again later.
bool SubnetSa::try_request(const wire::SaRequest& request, TimePoint now) {
  switch (memberships_.before(request)) {
    case SharedMemberships::Action::send:
      client_.request(request, now);
      return true;
    case SharedMemberships::Action::leave_out:
      responses_.push_back({request.id, std::get<wire::LeaveQuery>(request.query).record});
      return true;
    case SharedMemberships::Action::postpone:
      return false;
    case SharedMemberships::Action::refuse:
      responses_.push_back(
          {request.id, wire::SaFailure(wire::SaFailure::Kind::local,
                                       "the interfaces on this port have joined too many groups")});
      return true;
  }
  return true;
}

/// What delays it usually takes less than a millisecond.
void SubnetSa::postpone(const wire::SaRequest& request, TimePoint now) {
  if (postponed_.size() >= kMaxPostponed) return give_up(request);
  postponed_.push_back({request, now + kLongestPostponement});
  if (send_postponed_at_ == kNever) send_postponed_at_ = now + kPostponePause;
}

void SubnetSa::send_postponed(TimePoint now) {
  std::erase_if(postponed_, [&](const Postponed& one) {
    if (try_request(one.request, now)) return true;
    if (now < one.until) return false;
    give_up(one.request);
    return true;
  });
  send_postponed_at_ = postponed_.empty() ? kNever : now + kPostponePause;
}

/// An interface that leaves a group no longer wants to join it, and the reverse.
void SubnetSa::cancel_opposite(const wire::SaQuery& query) {
  std::erase_if(postponed_, [&](const Postponed& one) {
    const bool is_opposite = query.index() != one.request.query.index();
    const auto* const record = membership_in(query);
    const auto* const other = membership_in(one.request.query);
    if (!is_opposite || record == nullptr || record->mgid != other->mgid ||
        record->join_state != other->join_state) {
      return false;
    }
    give_up(one.request);
    return true;
  });
}

/// The answer to a request that is not sent: for a leave the one that another daemon's membership
/// gives it.
void SubnetSa::give_up(const wire::SaRequest& request) {
  if (const auto* const leave = std::get_if<wire::LeaveQuery>(&request.query)) {
    return responses_.push_back({request.id, leave->record});
  }
  responses_.push_back(
      {request.id, wire::SaFailure(wire::SaFailure::Kind::local,
                                   "another daemon on this port is leaving the group")});
}

void SubnetSa::on_readable(TimePoint now) {
  client_.on_readable(now);
  dispatch(now);
}

void SubnetSa::on_time(TimePoint now) {
  client_.on_time(now);
  subscriptions_.on_time(now);
  if (claim_at_ <= now) renew_subscriptions(now);
  if (send_postponed_at_ <= now) send_postponed(now);
  dispatch(now);
}

/// The responses are ignored: an SA that does not receive the requests gives up by itself.
void SubnetSa::end(TimePoint now) {
  ended_ = true;
  claim_at_ = kNever;
  const auto unsubscriptions = subscriptions_.unsubscriptions();
  subscriptions_.suspend();
  for (const auto& query : unsubscriptions) request({{}, query}, now);
}

TimePoint SubnetSa::next_deadline() const {
  return std::min(
      {client_.next_deadline(), subscriptions_.next_deadline(), claim_at_, send_postponed_at_});
}

/// After each stimulus: sends the requests of the subscriptions, takes their responses, and counts
/// the memberships that begin and end.
void SubnetSa::dispatch(TimePoint now) {
  for (const auto& request : std::exchange(subscriptions_.requests(), {})) {
    client_.request(request, now);
  }
  for (auto& response : std::exchange(client_.responses(), {})) {
    if (interface_of(response.id) == InterfaceNumber()) {
      subscriptions_.on_response(response, now);
    } else {
      memberships_.after(response);
      responses_.push_back(std::move(response));
    }
  }
  for (const auto& notice : std::exchange(client_.notices(), {})) {
    if (notice.trap_number == wire::trap::kGroupDeleted) memberships_.on_deleted(notice.gid);
    notices_.push_back(notice);
  }
}

}  // namespace ipoib::daemon
