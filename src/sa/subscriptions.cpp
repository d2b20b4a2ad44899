#include "sa/subscriptions.hpp"

#include <algorithm>

#include "ipoib/log.hpp"

namespace ipoib::sa {

void Subscriptions::request(Entry& entry) {
  last_request_ = wire::SaRequestId(last_request_.value() + 1);
  entry.state = State::requesting;
  entry.request = last_request_;
  entry.retry_at = kNever;
  requests_.push_back({entry.request, wire::subscribe_query(entry.trap)});
}

void Subscriptions::renew() {
  for (auto& entry : entries_) request(entry);
}

void Subscriptions::suspend() {
  for (auto& entry : entries_) {
    entry.state = State::off;
    entry.retry_at = kNever;
  }
}

void Subscriptions::on_response(const wire::SaResponse& response, TimePoint now) {
  const auto entry = std::ranges::find_if(entries_, [&](const Entry& one) {
    return one.state == State::requesting && one.request == response.id;
  });
  if (entry == entries_.end()) return;
  const auto* const failure = std::get_if<wire::SaFailure>(&response.result);
  if (failure == nullptr) {
    entry->state = State::subscribed;
    (void)entry->retry.succeeded();
    log_.debug("subscribed to trap {}", entry->trap);
    return;
  }
  const bool is_first = entry->retry.failed();
  entry->state = State::pausing;
  entry->retry_at = now + entry->retry.pause(random_);
  if (!is_first) return;
  log_.warn("subscription to trap {}: {}; polling for changes until it succeeds", entry->trap,
            failure->text());
}

void Subscriptions::on_time(TimePoint now) {
  for (auto& entry : entries_) {
    if (entry.state == State::pausing && entry.retry_at <= now) request(entry);
  }
}

TimePoint Subscriptions::next_deadline() const {
  return std::ranges::min(entries_, {}, &Entry::retry_at).retry_at;
}

std::vector<wire::SubscribeQuery> Subscriptions::unsubscriptions() const {
  std::vector<wire::SubscribeQuery> out;
  for (const auto& entry : entries_) {
    if (entry.state != State::off) out.push_back(wire::unsubscribe_query(entry.trap));
  }
  return out;
}

}  // namespace ipoib::sa
