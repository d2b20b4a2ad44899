#include "daemon/port/subnet_sa.hpp"

#include <algorithm>
#include <utility>

#include "daemon/port/port_watcher.hpp"
#include "daemon/pump/sa_requests.hpp"
#include "ipoib/log.hpp"

namespace ipoib::daemon {

SubnetSa::SubnetSa(std::unique_ptr<verbs::WatchedMadPort> mads, SharedMemberships memberships,
                   Logger& log, std::uint64_t seed, RandomSource random)
    : log_(log),
      mads_(std::move(mads)),
      memberships_(std::move(memberships)),
      client_({}, *mads_, log, seed, std::move(random), &memberships_),
      subscriptions_(log, ~seed) {}

/// Renews the subscription, since the SA may have registered it under the port's old attributes.
void SubnetSa::on_port(const verbs::PortSnapshot& port, TimePoint now) {
  // The links on a port that is down have no memberships, either.
  if (!port_status(port, kDefaultPKey).active) {
    memberships_.on_port_lost();
    client_.drop_postponed();
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
  client_.request(request, now);
  dispatch(now);
}

void SubnetSa::on_readable(TimePoint now) {
  client_.on_readable(now);
  dispatch(now);
}

void SubnetSa::on_time(TimePoint now) {
  client_.on_time(now);
  subscriptions_.on_time(now);
  if (claim_at_ <= now) renew_subscriptions(now);
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
  return std::min({client_.next_deadline(), subscriptions_.next_deadline(), claim_at_});
}

/// To be called after each stimulus. Sends the requests of the subscriptions, takes their
/// responses, and counts the memberships that begin and end.
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
