#include "sa/subscriptions.hpp"

#include <algorithm>

#include "ipoib/log.hpp"

namespace ipoib::sa {

void Subscriptions::ask(Entry& entry) {
  entry.state = State::asking;
  entry.question = ++last_question_;
  entry.retry_at = kNever;
  questions_.push_back({entry.question, subscribe_query(entry.trap)});
}

void Subscriptions::renew() {
  for (auto& entry : entries_) ask(entry);
}

void Subscriptions::suspend() {
  for (auto& entry : entries_) {
    entry.state = State::off;
    entry.retry_at = kNever;
  }
}

void Subscriptions::on_answer(std::uint32_t id, const Answer& answer, TimePoint now) {
  const auto entry = std::ranges::find_if(entries_, [id](const Entry& one) {
    return one.state == State::asking && one.question == id;
  });
  if (entry == entries_.end()) return;
  const auto* const failure = std::get_if<SaFailure>(&answer.result);
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
  log_.warn("subscription to trap {}: {}; changes are found out by asking until it succeeds",
            entry->trap, failure->text());
}

void Subscriptions::on_time(TimePoint now) {
  for (auto& entry : entries_) {
    if (entry.state == State::pausing && entry.retry_at <= now) ask(entry);
  }
}

TimePoint Subscriptions::next_deadline() const {
  return std::ranges::min(entries_, {}, &Entry::retry_at).retry_at;
}

std::vector<SubscribeQuery> Subscriptions::ends() const {
  std::vector<SubscribeQuery> out;
  for (const auto& entry : entries_) {
    if (entry.state != State::off) out.push_back(unsubscribe_query(entry.trap));
  }
  return out;
}

}  // namespace ipoib::sa
