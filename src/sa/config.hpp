// Settings and limits of an SA client.
#pragma once

#include <chrono>
#include <cstddef>

#include "ipoib/backoff.hpp"
#include "ipoib/time.hpp"

namespace ipoib::sa {

/// Retries of one kind of request. Pauses are jittered between half and one and a half of their
/// value, so that the hosts of a subnet do not send in step.
struct RetryPolicy {
  unsigned attempts = 4;
  /// How long to wait for the response to each attempt.
  Backoff timeout{std::chrono::milliseconds(250), std::chrono::seconds(2)};
  /// The pause between an attempt that failed and the next one.
  Backoff pause{std::chrono::milliseconds(100), std::chrono::seconds(1)};
  /// How long a request waits for a subnet manager; with 0 it fails at once if there is none.
  Duration without_sm = std::chrono::seconds(5);
};

struct Config {
  RetryPolicy path;
  /// For joins, leaves and subscriptions: the SA may have to program switches before it responds.
  RetryPolicy membership{.timeout = {std::chrono::milliseconds(500), std::chrono::seconds(4)}};
  /// For tables: the response may be long, and an operator may wait for it.
  RetryPolicy tables{.attempts = 2,
                     .timeout = {std::chrono::seconds(1), std::chrono::seconds(1)},
                     .without_sm = {}};
  std::size_t window = 32;         ///< requests in flight; further requests wait
  std::size_t max_waiting = 1024;  ///< requests that may wait; further requests fail
  /// Leaves that may wait. They are counted separately, since nobody repeats one that fails: an
  /// interface that ends has one for each of its memberships.
  std::size_t max_leaves = 65536;
  /// Of a join or leave that the memberships of others delay (MembershipGate), which usually takes
  /// less than a millisecond: between two attempts, and in all. A leave ends earlier, with all its
  /// attempts. So only a program that hangs makes a join of another one fail.
  Duration postpone_pause = std::chrono::milliseconds(20);
  Duration longest_postponement = std::chrono::seconds(20);
  std::size_t max_postponed = 1024;
  /// MADs that are received before the owner gets its turn again.
  std::size_t mads_per_turn = 64;
  /// The pause between two log lines about MADs of other ports than the SA's.
  Duration foreign_log_pause = std::chrono::minutes(1);
  /// The port reports time-outs itself. If it does not, the request times out this much later.
  Duration port_grace = std::chrono::seconds(1);
};

}  // namespace ipoib::sa
