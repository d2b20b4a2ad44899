// Keeps a port subscribed to the subnet administrator's reports of ports that come into service and
// go out of it (traps 64 and 65), and of groups that are made and deleted (traps 66 and 67).
// IBA 13.4.8.3, 13.4.11, 14.4.9 to 14.4.12, 15.2.5.12.
//
// A value like the client: stimuli and `now` in, questions out. For each of the four:
//
//   state        stimulus               does                                     next state
//   off          renew                  asks                                     asking
//   asking       answered               -                                        subscribed
//                refused                logs the first of a row                  pausing
//                renew                  asks anew; the old answer is ignored     asking
//   subscribed   renew                  asks anew: who has been told may be      asking
//                                       another administrator, or have forgotten
//   pausing      deadline, renew        asks                                     asking
//   any          suspend                -                                        off
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ipoib/backoff.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/random.hpp"
#include "ipoib/time.hpp"
#include "sa/query.hpp"

namespace ipoib::sa {

class Subscriptions {
 public:
  /// After refusals; with jitter.
  static constexpr Backoff kBackoff{std::chrono::seconds(1), std::chrono::minutes(5)};

  /// The caller's name for a question, and the question.
  struct Asked {
    std::uint32_t id = 0;
    SubscribeQuery query;
  };

  Subscriptions(Logger& log, std::uint64_t seed) : log_(log), random_(seed) {}

  /// The administrator is another one, has forgotten its clients, or knows us by another address.
  void renew();
  /// There is nobody to ask.
  void suspend();
  void on_answer(std::uint32_t id, const Answer& answer, TimePoint now);
  void on_time(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;

  /// To be asked, in this order; the caller takes them out.
  [[nodiscard]] std::vector<Asked>& questions() { return questions_; }
  /// The questions that end what there is; nobody need wait for their answers.
  [[nodiscard]] std::vector<SubscribeQuery> ends() const;

 private:
  enum class State : std::uint8_t { off, asking, subscribed, pausing };
  struct Entry {
    std::uint16_t trap = 0;
    State state = State::off;
    std::uint32_t question = 0;
    TimePoint retry_at = kNever;
    Retry retry{kBackoff};
  };
  void ask(Entry& entry);

  Logger& log_;
  Random random_;
  std::uint32_t last_question_ = 0;
  std::array<Entry, 4> entries_{
      Entry{.trap = wire::trap::kInService}, Entry{.trap = wire::trap::kOutOfService},
      Entry{.trap = wire::trap::kGroupCreated}, Entry{.trap = wire::trap::kGroupDeleted}};
  std::vector<Asked> questions_;
};

}  // namespace ipoib::sa
