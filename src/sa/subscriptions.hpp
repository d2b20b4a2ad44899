// Keeps a port subscribed to the SA's reports of ports going in and out of service (traps 64 and
// 65) and of groups created and deleted (traps 66 and 67). IBA 13.4.8.3, 13.4.11, 14.4.9 to
// 14.4.12, 15.2.5.12.
//
// Like SaClient it does no I/O: stimuli and `now` in, requests out. Each of the four traps has a
// state:
//
//   state        stimulus               action                                   next state
//   off          renew                  sends a request                          requesting
//   requesting   success                -                                        subscribed
//                failure                logs the first of a series               pausing
//                renew                  new request; the old response is ignored requesting
//   subscribed   renew                  new request: another SA may be in        requesting
//                                       charge, or it lost its subscriptions
//   pausing      deadline, renew        sends a request                          requesting
//   any          suspend                -                                        off
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ipoib/backoff.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/random.hpp"
#include "ipoib/time.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::sa {

class Subscriptions {
 public:
  /// Pauses after failures; jitter is added.
  static constexpr Backoff kBackoff{std::chrono::seconds(1), std::chrono::minutes(5)};

  Subscriptions(Logger& log, std::uint64_t seed) : log_(log), random_(seed) {}

  /// To call when the SA has changed or has asked its clients to register again, or the port's
  /// address has changed.
  void renew();
  /// To call when there is no SA.
  void suspend();
  /// Ignores responses to requests that are not outstanding.
  void on_response(const wire::SaResponse& response, TimePoint now);
  void on_time(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;

  /// Requests to be sent in this order; the caller takes them out. Their ids count from 1.
  [[nodiscard]] std::vector<wire::SaRequest>& requests() { return requests_; }
  /// Queries that end the current subscriptions.
  [[nodiscard]] std::vector<wire::SubscribeQuery> unsubscriptions() const;

 private:
  enum class State : std::uint8_t { off, requesting, subscribed, pausing };
  struct Entry {
    std::uint16_t trap = 0;
    State state = State::off;
    wire::SaRequestId request{};
    TimePoint retry_at = kNever;
    Retry retry{kBackoff};
  };
  void request(Entry& entry);

  Logger& log_;
  Random random_;
  wire::SaRequestId last_request_;
  std::array<Entry, 4> entries_{
      Entry{.trap = wire::trap::kInService}, Entry{.trap = wire::trap::kOutOfService},
      Entry{.trap = wire::trap::kGroupCreated}, Entry{.trap = wire::trap::kGroupDeleted}};
  std::vector<wire::SaRequest> requests_;
};

}  // namespace ipoib::sa
