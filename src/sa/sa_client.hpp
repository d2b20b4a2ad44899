// Questions to the subnet administrator over a MadPort: transactions, retries, back-off, bounds.
//
// A SaClient has no descriptor, no clock and no thread. Its owner calls one method per stimulus
// with the time, afterwards drains answers(), and arms one timer for next_deadline(). A question is
// in one of three states:
//
//   waiting      for a place in the window, or for a subnet manager
//   in flight    a request was sent; a response or a time-out comes
//   backing off  after a time-out or BUSY, before the next attempt
//
// It gives one answer to one question and keeps nothing afterwards: memberships are their owner's.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ipoib/log_fwd.hpp"
#include "ipoib/mad_port.hpp"
#include "ipoib/random.hpp"
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
  /// anew. Where it redirects to is asked instead, until there is another SM, or no answer.
  void set_sm(std::optional<MadDestination> sm, TimePoint now);
  /// Puts a question; its answer may be there on return. Several questions may share an id.
  void ask(QueryId id, const Query& query, TimePoint now);
  /// The port has something to receive.
  void on_readable(TimePoint now);
  /// next_deadline() has come; harmless before.
  void on_time(TimePoint now);

  /// When on_time() is to be called; kNever when nothing is pending.
  [[nodiscard]] TimePoint next_deadline() const;
  /// Answers in the order in which they came; the caller takes them out.
  [[nodiscard]] std::vector<Answer>& answers() { return answers_; }
  /// Reports of the administrator, acknowledged already; the caller takes them out. One that was
  /// repeated comes twice.
  [[nodiscard]] std::vector<wire::Notice>& notices() { return notices_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t pending() const { return transactions_.size(); }

 private:
  using Tid = std::uint32_t;  ///< low half of the transaction id of a question's requests
  enum class State : std::uint8_t { unlisted, waiting, in_flight, backing_off };
  struct Transaction {
    QueryId id;
    Query query;
    State state = State::unlisted;
    TimePoint deadline = kNever;  ///< what for depends on the state
    unsigned attempts = 0;        ///< requests sent
  };
  using Transactions = std::map<Tid, Transaction>;
  using Place = Transactions::iterator;

  void settle(TimePoint now);
  void expire(Place at, TimePoint now);
  void send(Place at, TimePoint now);
  void enter(Place at, State state, TimePoint deadline);
  void wait(Place at, TimePoint now);
  void attempt_failed(Place at, SaFailure failure, TimePoint now);
  void receive(const ReceivedMad& mad, TimePoint now);
  [[nodiscard]] bool take_report(const ReceivedMad& mad);
  [[nodiscard]] bool follow_redirection(Place at, ConstBytes mad, TimePoint now);
  void respond(Place at, wire::SaStatus status, ConstBytes mad, TimePoint now);
  void fail(Place at, SaFailure failure);
  void forget(Place at);
  [[nodiscard]] Place renamed(Place at);
  [[nodiscard]] Tid free_tid();

  const Config config_;
  MadPort& port_;
  Logger& log_;
  Random random_;
  Tid last_tid_;
  std::optional<MadDestination> sm_;
  std::optional<MadDestination> redirected_to_;
  Transactions transactions_;
  std::deque<Tid> waiting_;                        ///< in the order of their turn
  std::set<std::pair<TimePoint, Tid>> deadlines_;  ///< of those transactions that have one
  std::size_t in_flight_ = 0;
  std::vector<Answer> answers_;
  std::vector<wire::Notice> notices_;
  Counters counters_;
};

}  // namespace ipoib::sa
