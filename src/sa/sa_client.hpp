// SA requests over a MadPort: transactions, retries, back-off, limits.
//
// An SaClient has no descriptor, no clock and no thread. Its owner calls one method per stimulus
// with the time, then drains responses() and notices(), and arms one timer for next_deadline(). A
// request is in one of these states:
//
//   postponed    because of the memberships of other programs on the port (MembershipGate)
//   held         behind the opposite request about the same membership
//   waiting      for room in the window, or for a subnet manager
//   in flight    a MAD was sent; a response or a time-out follows
//   backing off  after a time-out or BUSY, before the next attempt
//
// The client gives one response to each request and keeps nothing afterwards.
//
// Everybody on the subnet can send MADs. Only responses of the port that was asked count, and only
// reports of the SA. Transaction ids are random: the layer below accepts any response with the
// right one, so whoever guessed it could delay a request until its retry.
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
#include "ipoib/should_log.hpp"
#include "ipoib/time.hpp"
#include "sa/config.hpp"
#include "sa/counters.hpp"
#include "sa/foreign_mads.hpp"
#include "sa/membership_gate.hpp"
#include "sa/membership_order.hpp"
#include "sa/transaction.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::sa {

class SaClient {
 public:
  /// `port`, `log` and `gate` outlive the client. `seed` is for jitter, `random` for transaction
  /// ids. Without `gate`, no other program has memberships of the port.
  SaClient(const Config& config, MadPort& port, Logger& log, std::uint64_t seed,
           RandomSource random, MembershipGate* gate = nullptr);

  /// The address of the SA: SM LID and SL of the port, the index of the default partition's
  /// key, and a global route if the port requires a GRH; nullopt while there is no SM. Requests in
  /// flight to another address are sent again. A redirection holds until the SM changes or a
  /// request times out.
  void set_sm(std::optional<MadDestination> sm, TimePoint now);
  /// The response may be available on return. Several requests may share an id.
  void request(const wire::SaRequest& request, TimePoint now);
  /// Forgets the requests that are postponed, without responses: the port is down, and nobody waits
  /// for them.
  void drop_postponed();
  /// To call when the port has something to receive. What exceeds Config::mads_per_turn stays
  /// there.
  void on_readable(TimePoint now);
  /// To call when next_deadline() has come; harmless before.
  void on_time(TimePoint now);

  /// When on_time() is to be called; kNever if nothing is pending.
  [[nodiscard]] TimePoint next_deadline() const;
  /// The responses in the order of arrival. The caller takes them out.
  [[nodiscard]] std::vector<wire::SaResponse>& responses() { return responses_; }
  /// Reports of the SA, already acknowledged; one that was repeated is in here twice. The caller
  /// takes them out.
  [[nodiscard]] std::vector<wire::Notice>& notices() { return notices_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t pending() const { return transactions_.size(); }

 private:
  using Tid =
      MembershipOrder::Tid;  ///< low half of the transaction id; the high half is the kernel's
  using State = Transaction::State;
  using Transactions = std::map<Tid, Transaction>;
  using Iterator = Transactions::iterator;

  void admit(Iterator at, TimePoint now);
  void postpone(Iterator at, TimePoint now);
  void give_up_opposites(const wire::SaRequest& request);
  void give_up(Iterator at);
  [[nodiscard]] bool has_room_for(const wire::SaRequest& request) const;
  void begin(Iterator at, TimePoint now);
  void settle(TimePoint now);
  void expire(Iterator at, TimePoint now);
  void send(Iterator at, TimePoint now);
  void enter(Iterator at, State state, TimePoint deadline);
  void wait(Iterator at, TimePoint now);
  void attempt_failed(Iterator at, wire::SaFailure failure, TimePoint now);
  void receive(const ReceivedMad& mad, TimePoint now);
  [[nodiscard]] bool take_report(const ReceivedMad& mad, TimePoint now);
  [[nodiscard]] bool follow_redirection(Iterator at, ConstBytes mad, TimePoint now);
  void on_response(Iterator at, wire::SaStatus status, ConstBytes mad, TimePoint now);
  void fail(Iterator at, wire::SaFailure failure);
  void log_failed_leave(const wire::SaRequest& request, const wire::SaFailure& failure);
  void supersede(Iterator at);
  void finish(Iterator at, wire::SaResult result);
  void release_held(const wire::SaRequest& finished);
  void stop_waiting(Tid tid);
  [[nodiscard]] Iterator with_new_tid(Iterator at);
  [[nodiscard]] Tid free_tid();

  const Config config_;
  MadPort& port_;
  Logger& log_;
  Random jitter_;
  RandomSource random_;
  MembershipGate* const gate_;
  ForeignMads foreign_;
  std::uint64_t last_order_ = 0;
  std::optional<MadDestination> sm_;
  std::optional<MadDestination> redirected_to_;
  Transactions transactions_;
  MembershipOrder memberships_;
  std::vector<Tid> released_;                      ///< held transactions that may be sent now
  std::deque<Tid> waiting_;                        ///< oldest first
  std::set<std::pair<TimePoint, Tid>> deadlines_;  ///< of the transactions that have one
  std::size_t in_flight_ = 0;
  std::size_t leaves_ = 0;  ///< admitted
  std::size_t others_ = 0;  ///< admitted requests other than leaves
  FailureCount failed_leaves_;
  std::vector<wire::SaResponse> responses_;
  std::vector<wire::Notice> notices_;
  Counters counters_;
};

}  // namespace ipoib::sa
