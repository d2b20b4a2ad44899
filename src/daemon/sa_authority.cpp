#include "daemon/sa_authority.hpp"

#include <algorithm>
#include <utility>

#include "daemon/port_watcher.hpp"
#include "daemon/sa_requests.hpp"
#include "ipoib/log.hpp"

namespace ipoib::daemon {

SaAuthority::SaAuthority(std::unique_ptr<verbs::UmadPort> mads, Logger& log, std::uint64_t seed)
    : log_(log),
      mads_(std::move(mads)),
      client_({}, *mads_, log, seed),
      subscriptions_(log, ~seed) {}

/// Whatever has changed of the port may be how the administrator knows it.
void SaAuthority::on_port(const verbs::PortSnapshot& port, TimePoint now) {
  const auto administrator = subnet_administrator(port);
  client_.set_sm(administrator, now);
  if (administrator && mads_->takes_reports() && !ended_) {
    subscriptions_.renew();
  } else {
    subscriptions_.suspend();
  }
  if (administrator && !mads_->takes_reports() && !std::exchange(told_of_reports_, true)) {
    log_.info(
        "another program has the subnet administrator's reports: changes of groups and paths are "
        "found out by asking from time to time");
  }
  settle(now);
}

void SaAuthority::request(const wire::SaRequest& request, TimePoint now) {
  client_.request(request, now);
  settle(now);
}

void SaAuthority::on_readable(TimePoint now) {
  client_.on_readable(now);
  settle(now);
}

void SaAuthority::on_time(TimePoint now) {
  client_.on_time(now);
  subscriptions_.on_time(now);
  settle(now);
}

/// The responses are ignored: an SA that does not receive the requests gives up by itself.
void SaAuthority::end(TimePoint now) {
  ended_ = true;
  const auto unsubscriptions = subscriptions_.unsubscriptions();
  subscriptions_.suspend();
  for (const auto& query : unsubscriptions) request({{}, query}, now);
}

TimePoint SaAuthority::next_deadline() const {
  return std::min(client_.next_deadline(), subscriptions_.next_deadline());
}

/// After each stimulus: sends the requests of the subscriptions, and takes their responses.
void SaAuthority::settle(TimePoint now) {
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
