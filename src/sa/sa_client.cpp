// In the order in which things happen to a question: asked, sent, backed off, answered.
//
//   state        stimulus               does                                       next state
//   -            ask                    queue full: fail(overloaded)               -
//                                       else                                       waiting
//   waiting      its turn, SM known     send                                       in flight
//                port refuses to send   last attempt: fail(send_failed)            -
//                                       else                                       backing off
//                deadline (no SM)       fail(no_sm)                                -
//   in flight    record                 answer                                     -
//                wrong record           fail(malformed_answer)                     -
//                other status           fail(status)                               -
//                BUSY                   last attempt: fail(status)                 -
//                                       else                                       backing off
//                REDIRECT               nowhere, last attempt: fail(status)        -
//                                       else another transaction id                waiting
//                time-out               last attempt: fail(timeout)                -
//                                       else                                       backing off
//                deadline (no report)   as time-out, under another transaction id
//                SM changes             another transaction id, attempts anew      waiting
//   backing off  deadline               -                                          waiting
#include "sa/sa_client.hpp"

#include <cassert>

#include "ipoib/log.hpp"
#include "sa/request.hpp"

namespace ipoib::sa {

namespace {

bool has(wire::SaStatus status, wire::SaStatus bit) {
  return (static_cast<std::uint16_t>(status) & static_cast<std::uint16_t>(bit)) != 0;
}

const Patience& patience_for(const Config& config, const Query& query) {
  if (std::holds_alternative<MembersQuery>(query)) return config.members;
  return std::holds_alternative<PathQuery>(query) ? config.path : config.membership;
}

bool is_leave(const Query& query) { return std::holds_alternative<LeaveQuery>(query); }

}  // namespace

SaClient::SaClient(const Config& config, MadPort& port, Logger& log, std::uint64_t seed)
    : config_(config),
      port_(port),
      log_(log),
      random_(seed),
      last_tid_(static_cast<Tid>(random_.next())) {}

void SaClient::set_sm(std::optional<MadDestination> sm, TimePoint now) {
  if (sm == sm_) return;
  sm_ = sm;
  redirected_to_.reset();
  if (sm_) {
    log_.info("the subnet manager is at LID {}, SL {}", sm_->lid.value(), sm_->sl.value());
  } else {
    log_.info("the port knows no subnet manager");
  }

  std::vector<Tid> concerned;
  for (const auto& [tid, transaction] : transactions_) {
    if (transaction.state != State::backing_off) concerned.push_back(tid);
  }
  for (const Tid tid : concerned) {
    auto at = transactions_.find(tid);
    if (at->second.state == State::in_flight) {
      at = renamed(at);
      at->second.attempts = 0;
    }
    wait(at, now);
  }
  settle(now);
}

void SaClient::ask(QueryId id, const Query& query, TimePoint now) {
  ++counters_.queries;
  if (transactions_.size() >= config_.window + config_.max_waiting) {
    ++counters_.overloaded;
    answers_.push_back({id, SaFailure{FailureKind::overloaded, {}, {}}});
    return;
  }
  const auto at = transactions_.emplace(free_tid(), Transaction{id, query}).first;
  wait(at, now);
  settle(now);
}

void SaClient::on_readable(TimePoint now) {
  while (const auto mad = port_.receive()) receive(*mad, now);
  settle(now);
}

void SaClient::on_time(TimePoint now) { settle(now); }

TimePoint SaClient::next_deadline() const {
  return deadlines_.empty() ? kNever : deadlines_.begin()->first;
}

/// What is due, and then what there is room for. Once each: a port that refuses everything must not
/// keep us here.
void SaClient::settle(TimePoint now) {
  for (auto due = deadlines_.size(); due > 0 && next_deadline() <= now; --due) {
    expire(transactions_.find(deadlines_.begin()->second), now);
  }
  for (auto turns = waiting_.size(); turns > 0 && sm_ && in_flight_ < config_.window; --turns) {
    send(transactions_.find(waiting_.front()), now);
  }
}

void SaClient::expire(Place at, TimePoint now) {
  switch (at->second.state) {
    case State::waiting:
      ++counters_.without_sm;
      fail(at, {FailureKind::no_sm, {}, {}});
      return;
    case State::in_flight:
      // The port has lost it, or reports it late: either way the name is not used again.
      ++counters_.timeouts;
      attempt_failed(renamed(at), {FailureKind::timeout, {}, {}}, now);
      return;
    case State::backing_off:
      wait(at, now);
      return;
    case State::unlisted:
      assert(false && "has no deadline");
  }
}

/// Joins the end of the queue, or keeps its place there.
void SaClient::wait(Place at, TimePoint now) {
  const Duration patience = patience_for(config_, at->second.query).without_sm;
  enter(at, State::waiting, sm_ ? kNever : now + patience);
}

void SaClient::send(Place at, TimePoint now) {
  Transaction& transaction = at->second;
  ++counters_.requests;
  if (transaction.attempts++ > 0) ++counters_.retries;
  const Patience& patience = patience_for(config_, transaction.query);
  const Duration timeout = patience.timeout.after(transaction.attempts);
  log_.debug("{}: attempt {}, tid {:08x}", describe(transaction.query), transaction.attempts,
             at->first);
  const auto sent =
      port_.send(redirected_to_.value_or(*sm_), request_mad(transaction.query, at->first), timeout);
  if (sent) {
    enter(at, State::in_flight, now + timeout + config_.port_grace);
    return;
  }
  ++counters_.send_errors;
  attempt_failed(at, {FailureKind::send_failed, {}, sent.error().message}, now);
}

void SaClient::attempt_failed(Place at, SaFailure failure, TimePoint now) {
  if (failure.kind == FailureKind::timeout) redirected_to_.reset();
  const Transaction& transaction = at->second;
  const Patience& patience = patience_for(config_, transaction.query);
  if (transaction.attempts >= patience.attempts) {
    fail(at, std::move(failure));
    return;
  }
  const Duration pause = patience.pause.after(transaction.attempts);
  enter(at, State::backing_off, now + random_.jittered(pause, 50, 150));
}

/// A report is a request to us (IBA 13.4.11). Only that of the administrator counts.
bool SaClient::take_report(const ReceivedMad& mad) {
  const auto header = mad.answered && sm_ ? report_header(mad.bytes) : std::nullopt;
  const bool is_from_sa = header && (mad.from.lid == sm_->lid ||
                                     (redirected_to_ && mad.from.lid == redirected_to_->lid));
  if (!is_from_sa) return false;
  ++counters_.reports;
  const auto sent = port_.send(mad.from, report_response(*header, mad.bytes), Duration::zero());
  if (!sent) ++counters_.send_errors;  // it will be repeated
  const auto notice = wire::Notice::parse(ConstBytes(mad.bytes).subspan(wire::kSaHeaderSize));
  if (notice) notices_.push_back(*notice);
  return true;
}

void SaClient::receive(const ReceivedMad& mad, TimePoint now) {
  if (take_report(mad)) return;
  // Of a request that timed out the layer below returns the common header alone.
  const auto header = wire::MadHeader::parse(mad.bytes);
  const bool is_whole = header && header->management_class == wire::mgmt_class::kSubnAdm &&
                        (!mad.answered || wire::SaHeader::parse(mad.bytes));
  const auto at =
      is_whole ? transactions_.find(static_cast<Tid>(header->transaction_id)) : transactions_.end();
  if (at == transactions_.end() || at->second.state != State::in_flight) {
    ++counters_.strangers;
    return;
  }
  const Exchange exchange = exchange_of(at->second.query);
  const std::uint8_t expected = mad.answered ? exchange.response : exchange.method;
  const bool is_redirect =
      mad.answered && has(static_cast<wire::SaStatus>(header->status), wire::SaStatus::redirect);
  const bool is_about = header->attribute_id == exchange.attribute ||
                        (is_redirect && header->attribute_id == wire::attribute::kClassPortInfo);
  if (header->method != expected || !is_about) {
    ++counters_.strangers;
    return;
  }
  if (mad.answered) {
    respond(at, static_cast<wire::SaStatus>(header->status), mad.bytes, now);
  } else {
    ++counters_.timeouts;
    attempt_failed(at, {FailureKind::timeout, {}, {}}, now);
  }
}

/// IBA 13.5.2. Each step is one of the question's attempts, which is their bound. False: the
/// question is where it was.
bool SaClient::follow_redirection(Place at, ConstBytes mad, TimePoint now) {
  const Transaction& transaction = at->second;
  const auto place = redirection(redirected_to_.value_or(*sm_), port_.source(), mad);
  if (!place) return false;
  if (!redirected_to_) {
    log_.info("the subnet administrator redirects to LID {}, QP {}", place->lid.value(),
              place->qpn.value());
  }
  redirected_to_ = place;
  ++counters_.redirects;
  if (transaction.attempts >= patience_for(config_, transaction.query).attempts) return false;
  wait(renamed(at), now);
  return true;
}

void SaClient::respond(Place at, wire::SaStatus status, ConstBytes mad, TimePoint now) {
  if (has(status, wire::SaStatus::redirect) && follow_redirection(at, mad, now)) return;
  if (has(status, wire::SaStatus::busy)) {
    ++counters_.busy;
    attempt_failed(at, {FailureKind::status, status, {}}, now);
    return;
  }
  if (status != wire::SaStatus::ok) {
    ++counters_.refused_by_status;
    fail(at, {FailureKind::status, status, {}});
    return;
  }
  const auto records = records_of(at->second.query, mad);
  if (!records) {
    ++counters_.malformed_answers;
    fail(at, {FailureKind::malformed_answer, {}, {}});
    return;
  }
  ++counters_.answers;
  std::visit([&](const auto& any) { answers_.push_back({at->second.id, any}); }, *records);
  forget(at);
}

/// RFC 4391, 12: a failed operation on a multicast group "SHOULD be logged". Who asked for a path
/// or a join says what the failure means; nobody waits for the answer to a leave.
void SaClient::fail(Place at, SaFailure failure) {
  const auto level = is_leave(at->second.query) ? spdlog::level::warn : spdlog::level::debug;
  if (log_.should_log(level)) {
    log_.log(level, "{} failed: {}", describe(at->second.query), failure.text());
  }
  answers_.push_back({at->second.id, std::move(failure)});
  forget(at);
}

/// The one place where a state changes.
void SaClient::enter(Place at, State state, TimePoint deadline) {
  auto& [tid, transaction] = *at;
  deadlines_.erase({transaction.deadline, tid});
  if (transaction.state != state) {
    if (transaction.state == State::waiting) std::erase(waiting_, tid);
    if (transaction.state == State::in_flight) --in_flight_;
    if (state == State::waiting) waiting_.push_back(tid);
    if (state == State::in_flight) ++in_flight_;
  }
  transaction.state = state;
  transaction.deadline = deadline;
  if (deadline != kNever) deadlines_.insert({deadline, tid});
}

void SaClient::forget(Place at) {
  enter(at, State::unlisted, kNever);
  transactions_.erase(at);
}

/// Gives a request in flight a new name, under which no answer to the old one is taken.
SaClient::Place SaClient::renamed(Place at) {
  assert(at->second.state == State::in_flight);
  deadlines_.erase({at->second.deadline, at->first});
  at->second.deadline = kNever;
  auto node = transactions_.extract(at);
  node.key() = free_tid();
  return transactions_.insert(std::move(node)).position;
}

SaClient::Tid SaClient::free_tid() {
  do {
    ++last_tid_;
  } while (transactions_.contains(last_tid_));
  return last_tid_;
}

}  // namespace ipoib::sa
