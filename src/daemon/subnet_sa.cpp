#include "daemon/subnet_sa.hpp"

#include <algorithm>
#include <utility>

#include "daemon/port_watcher.hpp"
#include "daemon/sa_requests.hpp"
#include "ipoib/log.hpp"

namespace ipoib::daemon {

SubnetSa::SubnetSa(std::unique_ptr<verbs::WatchedMadPort> mads, Logger& log, std::uint64_t seed)
    : log_(log),
      mads_(std::move(mads)),
      client_({}, *mads_, log, seed),
      subscriptions_(log, ~seed) {}

/// Renews the subscription, since the SA may have registered it under the port's old attributes.
void SubnetSa::on_port(const verbs::PortSnapshot& port, TimePoint now) {
  const auto sa = sa_destination(port);
  client_.set_sm(sa, now);
  if (sa && mads_->takes_reports() && !ended_) {
    subscriptions_.renew();
  } else {
    subscriptions_.suspend();
  }
  if (sa && !mads_->takes_reports() && !std::exchange(logged_missing_reports_, true)) {
    log_.info(
        "another program on the port receives the SA's reports; polling the SA for changes "
        "of groups and paths instead");
  }
  dispatch(now);
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
  dispatch(now);
}

/// The responses are ignored: an SA that does not receive the requests gives up by itself.
void SubnetSa::end(TimePoint now) {
  ended_ = true;
  const auto unsubscriptions = subscriptions_.unsubscriptions();
  subscriptions_.suspend();
  for (const auto& query : unsubscriptions) request({{}, query}, now);
}

TimePoint SubnetSa::next_deadline() const {
  return std::min(client_.next_deadline(), subscriptions_.next_deadline());
}

/// After each stimulus: sends the requests of the subscriptions, and takes their responses.
void SubnetSa::dispatch(TimePoint now) {
  for (const auto& request : std::exchange(subscriptions_.requests(), {})) {
    client_.request(request, now);
  }
  for (auto& response : std::exchange(client_.responses(), {})) {
    if (interface_of(response.id) == InterfaceNumber()) {
      subscriptions_.on_response(response, now);
    } else {
      responses_.push_back(std::move(response));
    }
  }
}

}  // namespace ipoib::daemon
