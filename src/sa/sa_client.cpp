// The functions are in the order in which a request is sent, backs off, and gets its response.
//
//   state        stimulus               action                                     next state
//   -            request                gate leaves it out: finish(record)         -
//                                       gate refuses it: finish(local)             -
//                                       gate postpones it: too many: give up       -
//                                         else                                     postponed
//                                       no room: finish(overloaded)                -
//                                       behind the opposite request in flight      held
//                                       else                                       waiting
//   postponed    deadline               gate still postpones it, too long: give up -
//                                         else                                     postponed
//                                       else as a new request
//                opposite request       give up                                    -
//                port is lost           -                                          -
//   held         that has finished      -                                          waiting
//   waiting      head of queue, SM known  send                                     in flight
//                port refuses to send   last attempt: fail(send_failed)            -
//                                       else                                       backing off
//                deadline (no SM)       fail(no_sm)                                -
//   in flight    record                 respond                                    -
//                of another port        -                                          in flight
//                wrong record           fail(malformed_response)                   -
//                other status           fail(status)                               -
//                BUSY                   last attempt: fail(status)                 -
//                                       else                                       backing off
//                REDIRECT               unusable, last attempt: fail(status)       -
//                                       else new transaction id                    waiting
//                time-out               last attempt: fail(timeout)                -
//                                       else                                       backing off
//                deadline (no report)   as time-out, with a new transaction id
//                SM changes             new transaction id, attempts = 0           waiting
//   backing off  deadline               -                                          waiting
//   in flight    superseded             any failed attempt is the last one         in flight
//   other        superseded             finish(local)                              -
//
// To give up is to finish a leave with its record, as if it was left out, and a join with a
// failure.
//
// A join is the opposite of a leave of the same group, port and JoinState, and supersedes it. Both
// are repeated, and the SA remembers the last one that it gets. So neither is sent before the other
// has its response or can no longer arrive.
#include "sa/sa_client.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "ipoib/log.hpp"
#include "sa/request.hpp"

namespace ipoib::sa {

using wire::SaFailure;
using wire::SaStatus;
using Kind = SaFailure::Kind;

namespace {

/// A group that nobody has joined is no fault: hosts send to groups of routers, and create their
/// own.
bool is_missing_group(const wire::SaQuery& query, SaStatus status) {
  const auto* const join = std::get_if<wire::JoinQuery>(&query);
  return join != nullptr && wire::means_no_group(status, join->record.join_state);
}

bool is_leave(const wire::SaRequest& request) {
  return std::holds_alternative<wire::LeaveQuery>(request.query);
}

/// Whether the request counts against the limits of those that wait or are in flight.
bool is_admitted(Transaction::State state) {
  return state != Transaction::State::unlisted && state != Transaction::State::postponed;
}

}  // namespace

SaClient::SaClient(const Config& config, MadPort& port, Logger& log, std::uint64_t seed,
                   RandomSource random, MembershipGate* gate)
    : config_(config),
      port_(port),
      log_(log),
      jitter_(seed),
      random_(std::move(random)),
      gate_(gate),
      foreign_(log, config.foreign_log_pause) {}

void SaClient::set_sm(std::optional<MadDestination> sm, TimePoint now) {
  if (sm == sm_) return;
  sm_ = sm;
  redirected_to_.reset();
  if (sm_) {
    log_.info("the subnet manager is at LID {}, SL {}", sm_->lid.value(), sm_->sl.value());
  } else {
    log_.info("the port knows no subnet manager");
  }

  std::vector<std::pair<std::uint64_t, Tid>> affected;  // in order of age
  for (const auto& [tid, transaction] : transactions_) {
    if (transaction.state == State::waiting || transaction.state == State::in_flight)
      affected.emplace_back(transaction.order, tid);
  }
  std::ranges::sort(affected);
  for (const auto& [order, tid] : affected) {
    auto at = transactions_.find(tid);
    if (at->second.is_superseded) {
      supersede(at);
      continue;
    }
    if (at->second.state == State::in_flight) {
      at = with_new_tid(at);
      at->second.attempts = 0;
    }
    wait(at, now);
  }
  settle(now);
}

void SaClient::request(const wire::SaRequest& request, TimePoint now) {
  give_up_opposites(request);
  const auto at =
      transactions_.emplace(free_tid(), Transaction{.request = request, .order = ++last_order_})
          .first;
  memberships_.add(request, at->first);
  admit(at, now);
  settle(now);
}

/// Begins a new or postponed request, if the memberships of other programs permit it.
void SaClient::admit(Iterator at, TimePoint now) {
  using Action = MembershipGate::Action;
  const wire::SaRequest& request = at->second.request;
  switch (gate_ == nullptr ? Action::send : gate_->before(request)) {
    case Action::send:
      return begin(at, now);
    case Action::leave_out:
      return finish(at, std::get<wire::LeaveQuery>(request.query).record);
    case Action::postpone:
      return postpone(at, now);
    case Action::refuse:
      return finish(
          at, SaFailure(Kind::local, "the interfaces on this port have joined too many groups"));
  }
}

void SaClient::postpone(Iterator at, TimePoint now) {
  Transaction& transaction = at->second;
  if (transaction.state == State::unlisted) {
    const auto others = transactions_.size() - 1 - leaves_ - others_;
    if (others >= config_.max_postponed) return give_up(at);
    transaction.postponed_until = now + config_.longest_postponement;
  } else if (now >= transaction.postponed_until) {
    return give_up(at);
  }
  enter(at, State::postponed, now + config_.postpone_pause);
}

/// An interface that leaves a group no longer wants to join it, and the reverse.
void SaClient::give_up_opposites(const wire::SaRequest& request) {
  for (const Tid tid : memberships_.beside(request)) {
    const auto other = transactions_.find(tid);
    assert(other != transactions_.end());
    const bool is_opposite = is_leave(other->second.request) != is_leave(request);
    if (is_opposite && other->second.state == State::postponed) give_up(other);
  }
}

void SaClient::give_up(Iterator at) {
  const auto* const leave = std::get_if<wire::LeaveQuery>(&at->second.request.query);
  if (leave != nullptr) return finish(at, leave->record);
  finish(at, SaFailure(Kind::local, "another daemon on this port is leaving the group"));
}

void SaClient::drop_postponed() {
  for (auto at = transactions_.begin(); at != transactions_.end();) {
    const auto one = at++;
    if (one->second.state != State::postponed) continue;
    memberships_.remove(one->second.request, one->first);
    enter(one, State::unlisted, kNever);
    transactions_.erase(one);
  }
}

/// Queues a request, or holds it until the opposite one in flight has finished.
void SaClient::begin(Iterator at, TimePoint now) {
  const wire::SaRequest& request = at->second.request;
  ++counters_.requests;
  if (!has_room_for(request)) {
    ++counters_.overloaded;
    return finish(at, SaFailure(Kind::overloaded));
  }
  bool is_held = false;
  for (const Tid tid : memberships_.beside(request)) {
    const auto other = transactions_.find(tid);
    assert(other != transactions_.end());
    if (is_leave(other->second.request) == is_leave(request)) continue;
    if (other->second.state == State::in_flight) {
      other->second.is_superseded = true;
      is_held = true;
    } else {
      supersede(other);
    }
  }
  if (is_held) return enter(at, State::held, kNever);
  wait(at, now);
}

bool SaClient::has_room_for(const wire::SaRequest& request) const {
  if (is_leave(request)) return leaves_ < config_.max_leaves;
  return others_ < config_.window + config_.max_waiting;
}

void SaClient::on_readable(TimePoint now) {
  for (auto left = config_.mads_per_turn; left > 0; --left) {
    const auto mad = port_.receive();
    if (!mad) break;
    receive(*mad, now);
  }
  settle(now);
}

void SaClient::on_time(TimePoint now) { settle(now); }

TimePoint SaClient::next_deadline() const {
  return deadlines_.empty() ? kNever : deadlines_.begin()->first;
}

/// Handles expired deadlines, queues what is no longer held, then sends waiting requests. Each
/// request is handled once, so that the loops end even if the port refuses every MAD.
void SaClient::settle(TimePoint now) {
  for (auto due = deadlines_.size(); due > 0 && next_deadline() <= now; --due) {
    expire(transactions_.find(deadlines_.begin()->second), now);
  }
  for (const Tid tid : std::exchange(released_, {})) {
    const auto at = transactions_.find(tid);
    if (at != transactions_.end()) wait(at, now);
  }
  for (auto left = waiting_.size(); left > 0 && sm_ && in_flight_ < config_.window; --left) {
    send(transactions_.find(waiting_.front()), now);
  }
}

void SaClient::expire(Iterator at, TimePoint now) {
  switch (at->second.state) {
    case State::postponed:
      admit(at, now);
      return;
    case State::waiting:
      ++counters_.without_sm;
      fail(at, SaFailure(Kind::no_sm));
      return;
    case State::in_flight:
      // The port has lost the request or reports its time-out late; its tid is not used again.
      ++counters_.timeouts;
      attempt_failed(with_new_tid(at), SaFailure(Kind::timeout), now);
      return;
    case State::backing_off:
      wait(at, now);
      return;
    case State::unlisted:
    case State::held:
      assert(false && "has no deadline");
  }
}

/// Appends the transaction to the queue; if it is already waiting, it keeps its position.
void SaClient::wait(Iterator at, TimePoint now) {
  const Duration without_sm = policy_for(config_, at->second.request.query).without_sm;
  enter(at, State::waiting, sm_ ? kNever : now + without_sm);
}

void SaClient::send(Iterator at, TimePoint now) {
  Transaction& transaction = at->second;
  const wire::SaQuery& query = transaction.request.query;
  ++counters_.mads_sent;
  if (transaction.attempts++ > 0) ++counters_.retries;
  const Duration timeout =
      policy_for(config_, transaction.request.query).timeout.after(transaction.attempts);
  log_.debug("{}: attempt {}, tid {:08x}", describe(query), transaction.attempts, at->first);
  transaction.asked = redirected_to_.value_or(*sm_);
  const auto sent = port_.send(transaction.asked, request_mad(query, at->first), timeout);
  if (sent) {
    enter(at, State::in_flight, now + timeout + config_.port_grace);
    return;
  }
  ++counters_.send_errors;
  attempt_failed(at, SaFailure(Kind::send_failed, sent.error().message), now);
}

void SaClient::attempt_failed(Iterator at, SaFailure failure, TimePoint now) {
  if (failure.kind == Kind::timeout) redirected_to_.reset();
  const Transaction& transaction = at->second;
  const RetryPolicy& policy = policy_for(config_, transaction.request.query);
  if (transaction.is_superseded) {
    supersede(at);
    return;
  }
  if (transaction.attempts >= policy.attempts) {
    fail(at, std::move(failure));
    return;
  }
  const Duration pause = policy.pause.after(transaction.attempts);
  enter(at, State::backing_off, now + jitter_.jittered(pause, 50, 150));
}

/// Returns whether the MAD is a report. That is a request to this port (IBA 13.4.11); only those of
/// the SA are accepted.
bool SaClient::take_report(const ReceivedMad& mad, TimePoint now) {
  const auto header = mad.timed_out ? std::nullopt : report_header(mad.bytes);
  if (!header) return false;
  const bool is_from_sa =
      (sm_ && is_from(*sm_, mad.from)) || (redirected_to_ && is_from(*redirected_to_, mad.from));
  if (!is_from_sa) {
    foreign_.drop("report", counters_.foreign_reports, mad.from, now);
    return true;
  }
  ++counters_.reports;
  const auto sent = port_.send(mad.from, report_response(*header, mad.bytes), Duration::zero());
  if (!sent) ++counters_.send_errors;  // the SA will repeat the report
  const auto notice = wire::Notice::parse(ConstBytes(mad.bytes).subspan(wire::kSaHeaderSize));
  if (notice) notices_.push_back(*notice);
  return true;
}

void SaClient::receive(const ReceivedMad& mad, TimePoint now) {
  if (take_report(mad, now)) return;
  // On a time-out the layer below returns only the common header of the request.
  const auto header = wire::MadHeader::parse(mad.bytes);
  const bool is_complete = header && header->management_class == wire::mgmt_class::kSubnAdm &&
                           (mad.timed_out || wire::SaHeader::parse(mad.bytes));
  const auto at = is_complete ? transactions_.find(static_cast<Tid>(header->transaction_id))
                              : transactions_.end();
  if (at == transactions_.end() || at->second.state != State::in_flight) {
    ++counters_.unmatched_mads;
    return;
  }
  const Exchange exchange = exchange_of(at->second.request.query);
  const std::uint8_t expected = mad.timed_out ? exchange.method : exchange.response;
  const bool is_redirect =
      !mad.timed_out && has(static_cast<SaStatus>(header->status), SaStatus::redirect);
  const bool has_attribute =
      header->attribute_id == exchange.attribute ||
      (is_redirect && header->attribute_id == wire::attribute::kClassPortInfo);
  if (header->method != expected || !has_attribute) {
    ++counters_.unmatched_mads;
    return;
  }
  if (!mad.timed_out && !is_from(at->second.asked, mad.from)) {
    return foreign_.drop("response", counters_.foreign_responses, mad.from, now);
  }
  if (!mad.timed_out) {
    on_response(at, static_cast<SaStatus>(header->status), mad.bytes, now);
  } else {
    ++counters_.timeouts;
    attempt_failed(at, SaFailure(Kind::timeout), now);
  }
}

/// Follows a redirection (IBA 13.5.2). Each counts as an attempt, which bounds their number.
/// Returns false if the request is not sent again.
bool SaClient::follow_redirection(Iterator at, ConstBytes mad, TimePoint now) {
  const Transaction& transaction = at->second;
  if (transaction.is_superseded) return false;
  const auto to = redirection(transaction.asked, sm_->global.has_value(), port_.source(), mad);
  if (!to) return false;
  if (!redirected_to_) {
    log_.info("the subnet administrator redirects to LID {}, QP {}", to->lid.value(),
              to->qpn.value());
  }
  redirected_to_ = to;
  ++counters_.redirects;
  if (transaction.attempts >= policy_for(config_, transaction.request.query).attempts) return false;
  wait(with_new_tid(at), now);
  return true;
}

void SaClient::on_response(Iterator at, SaStatus status, ConstBytes mad, TimePoint now) {
  if (has(status, SaStatus::redirect) && follow_redirection(at, mad, now)) return;
  if (has(status, SaStatus::busy)) {
    ++counters_.busy;
    attempt_failed(at, SaFailure(status), now);
    return;
  }
  if (status != SaStatus::ok) {
    ++(is_missing_group(at->second.request.query, status) ? counters_.groups_missing
                                                          : counters_.refused_by_status);
    fail(at, SaFailure(status));
    return;
  }
  auto records = records_of(at->second.request.query, mad);
  if (!records) {
    ++counters_.malformed_responses;
    fail(at, SaFailure(Kind::malformed_response));
    return;
  }
  ++counters_.records;
  if (is_leave(at->second.request)) failed_leaves_.reset();
  finish(at, std::move(*records));
}

/// RFC 4391, 12: a failed operation on a multicast group "SHOULD be logged". The requester logs a
/// failed path or join. Nobody waits for the response to a leave; an interface may have many.
void SaClient::fail(Iterator at, SaFailure failure) {
  if (is_leave(at->second.request)) {
    log_failed_leave(at->second.request, failure);
  } else {
    log_.debug("{} failed: {}", describe(at->second.request.query), failure.text());
  }
  finish(at, std::move(failure));
}

/// An SA forgets the members of a partition that it has taken from their ports, and refuses each of
/// their leaves as invalid. Of these, the first one in a row says why.
void SaClient::log_failed_leave(const wire::SaRequest& request, const SaFailure& failure) {
  const bool is_loud = failed_leaves_.add();
  const auto what = describe(request.query);
  if (failure.status == SaStatus::request_invalid) {
    const bool is_first = is_loud && failed_leaves_.in_a_row().empty();
    log_.log(
        is_first ? spdlog::level::info : spdlog::level::debug,
        "{}: {}: the SA no longer has this port in the group, as after its partition was removed",
        what, wire::name(*failure.status));
    return;
  }
  log_.log(is_loud ? spdlog::level::warn : spdlog::level::debug, "{} failed: {}{}", what,
           failure.text(), is_loud ? failed_leaves_.in_a_row() : "");
}

/// Nobody wants its result any more.
void SaClient::supersede(Iterator at) {
  log_.debug("{}: superseded by a later request", describe(at->second.request.query));
  finish(at, SaFailure(Kind::local, "superseded by a later request"));
}

void SaClient::finish(Iterator at, wire::SaResult result) {
  memberships_.remove(at->second.request, at->first);
  release_held(at->second.request);
  responses_.push_back({at->second.request.id, std::move(result)});
  enter(at, State::unlisted, kNever);
  transactions_.erase(at);
}

/// Releases the transactions that were held because of this one.
void SaClient::release_held(const wire::SaRequest& finished) {
  const auto others = memberships_.beside(finished);
  const auto is_opposed = std::ranges::any_of(others, [this](Tid tid) {
    const auto& other = transactions_.at(tid);
    return other.state == State::in_flight && other.is_superseded;
  });
  if (is_opposed) return;
  std::ranges::copy_if(others, std::back_inserter(released_),
                       [this](Tid tid) { return transactions_.at(tid).state == State::held; });
}

/// Changes the state. No other function does.
void SaClient::enter(Iterator at, State state, TimePoint deadline) {
  auto& [tid, transaction] = *at;
  deadlines_.erase({transaction.deadline, tid});
  if (transaction.state != state) {
    if (is_admitted(transaction.state) != is_admitted(state)) {
      auto& count = is_leave(transaction.request) ? leaves_ : others_;
      is_admitted(state) ? ++count : --count;
    }
    if (transaction.state == State::waiting) stop_waiting(tid);
    if (transaction.state == State::in_flight) --in_flight_;
    if (state == State::waiting) waiting_.push_back(tid);
    if (state == State::in_flight) ++in_flight_;
  }
  transaction.state = state;
  transaction.deadline = deadline;
  if (deadline != kNever) deadlines_.insert({deadline, tid});
}

/// Removes a transaction from the queue; usually it is the oldest, which is sent now.
void SaClient::stop_waiting(Tid tid) {
  if (waiting_.front() == tid) {
    waiting_.pop_front();
  } else {
    std::erase(waiting_, tid);
  }
}

/// Gives a request in flight a new transaction id; late responses to the old one are dropped.
SaClient::Iterator SaClient::with_new_tid(Iterator at) {
  assert(at->second.state == State::in_flight);
  deadlines_.erase({at->second.deadline, at->first});
  at->second.deadline = kNever;
  const Tid before = at->first;
  auto node = transactions_.extract(at);
  node.key() = free_tid();
  memberships_.rename(node.mapped().request, before, node.key());
  return transactions_.insert(std::move(node)).position;
}

SaClient::Tid SaClient::free_tid() {
  Tid tid = random_();
  while (transactions_.contains(tid)) ++tid;
  return tid;
}

}  // namespace ipoib::sa
