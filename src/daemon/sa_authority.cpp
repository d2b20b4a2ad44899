#include "daemon/sa_authority.hpp"

#include <algorithm>
#include <utility>

#include "daemon/port_watcher.hpp"
#include "daemon/question.hpp"
#include "ipoib/log.hpp"

namespace ipoib::daemon {

namespace {

sa::QueryId subscription(std::uint32_t id) {
  return Question{{}, Question::Kind::subscription, link::QuestionId(id)}.name();
}

}  // namespace

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

void SaAuthority::ask(sa::QueryId id, const sa::Query& query, TimePoint now) {
  client_.ask(id, query, now);
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

/// Nobody waits for the answers: an administrator that has not heard gives up by itself.
void SaAuthority::end(TimePoint now) {
  ended_ = true;
  const auto ends = subscriptions_.ends();
  subscriptions_.suspend();
  for (const auto& query : ends) ask(subscription(0), query, now);
}

TimePoint SaAuthority::next_deadline() const {
  return std::min(client_.next_deadline(), subscriptions_.next_deadline());
}

/// After each stimulus of the client: puts the port's own questions, and keeps their answers.
void SaAuthority::settle(TimePoint now) {
  for (const auto& [id, query] : std::exchange(subscriptions_.questions(), {})) {
    client_.ask(subscription(id), query, now);
  }
  for (auto& answer : std::exchange(client_.answers(), {})) {
    const auto question = Question::of(answer.id);
    if (question.kind == Question::Kind::subscription) {
      subscriptions_.on_answer(question.id.value(), answer, now);
    } else {
      answers_.push_back(std::move(answer));
    }
  }
}

}  // namespace ipoib::daemon
