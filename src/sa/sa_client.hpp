// Questions to the subnet administrator over a MadPort: transactions, retries, back-off, bounds.
//
// A SaClient has no descriptor, no clock and no thread. Its owner calls one method per stimulus
// with the time, afterwards drains answers(), and arms one timer for next_deadline(). A question is
// in one of three states:
//
//   Waiting     for a place in the window, or for a subnet manager
//   InFlight    a request was sent; a response or a time-out comes
//   BackingOff  after a time-out or BUSY, before the next attempt
//
// It gives one answer to one question and keeps nothing afterwards: memberships are their owner's.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <set>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "ipoib/log_fwd.hpp"
#include "ipoib/mad_port.hpp"
#include "ipoib/time.hpp"
#include "sa/config.hpp"
#include "sa/counters.hpp"
#include "sa/query.hpp"

namespace ipoib::sa {

class SaClient {
 public:
  /// `port` and `log` outlive the client. `seed` is for jitter and the first transaction id.
  SaClient(const Config& config, MadPort& port, Logger& log, std::uint64_t seed);

  /// Where the subnet administrator is: SM LID and SL of the port, and the index of the default
  /// partition's key; nothing while there is no SM. Requests in flight to another address are put
  /// anew.
  void set_sm(std::optional<MadDestination> sm, TimePoint now);
  /// Puts a question; its answer may be there on return. Several questions may share an id.
  void ask(QueryId id, const Query& query, TimePoint now);
  /// Forgets the questions of this id; they get no answer.
  void cancel(QueryId id, TimePoint now);
  /// The port has something to receive.
  void on_readable(TimePoint now);
  /// next_deadline() has come; harmless before.
  void on_time(TimePoint now);

  /// When on_time() is to be called; kNever when nothing is pending.
  [[nodiscard]] TimePoint next_deadline() const;
  /// Answers in the order in which they came; the caller takes them out.
  [[nodiscard]] std::vector<Answer>& answers() { return answers_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t pending() const { return transactions_.size(); }

 private:
  /// The low half of the transaction id of its requests.
  using Tid = std::uint32_t;
  struct Waiting {};
  struct InFlight {};
  struct BackingOff {};
  struct Transaction {
    QueryId id;
    Query query;
    std::variant<Waiting, InFlight, BackingOff> state;
    TimePoint deadline = kNever;
    unsigned attempts = 0;  ///< requests sent
  };
  using Transactions = std::unordered_map<Tid, Transaction>;

  MadDestination destination() const;
  void send_waiting(TimePoint now);
  void send(Transactions::iterator at, TimePoint now);
  void attempt_failed(Transactions::iterator at, const SaFailure& failure, TimePoint now);
  void wait(Transactions::iterator at, TimePoint now);
  void rename(Transactions::iterator at);
  void arm(Transactions::iterator at, TimePoint deadline);
  void leave_state(Transactions::iterator at);
  void receive(const ReceivedMad& mad, TimePoint now);
  void respond(Transactions::iterator at, ConstBytes mad, TimePoint now);
  void finish(Transactions::iterator at, Answer&& answer);
  void fail(Transactions::iterator at, const SaFailure& failure);
  [[nodiscard]] Tid next_tid();
  [[nodiscard]] const Retry& retry_of(const Query& query) const;
  [[nodiscard]] Duration jittered(Duration pause);

  Config config_;
  MadPort& port_;
  Logger& log_;
  std::mt19937_64 random_;
  Tid last_tid_;
  std::optional<MadDestination> sm_;
  Transactions transactions_;
  std::deque<Tid> waiting_;                        ///< in the order of their turn
  std::set<std::pair<TimePoint, Tid>> deadlines_;  ///< of those transactions that have one
  std::size_t in_flight_ = 0;
  std::vector<Answer> answers_;
  Counters counters_;
};

}  // namespace ipoib::sa
