// What only the broadcast group does, besides membership: it is searched in several scopes, and its
// silence is a reason to check that the port is still a member.
#pragma once

#include <cstddef>
#include <optional>

#include "ipoib/random.hpp"
#include "ipoib/time.hpp"
#include "link/config.hpp"

namespace ipoib::link {

/// RFC 4391, 4.1: the broadcast group may have a larger scope than the default one. A scope is an
/// index in Config::scopes.
class BroadcastSearch {
 public:
  /// `config` outlives it.
  explicit BroadcastSearch(const Config& config) : config_(config) {}

  [[nodiscard]] Gid mgid_in(std::size_t scope) const;
  /// Whether it is the MGID in one of the scopes.
  [[nodiscard]] bool may_be(const Gid& mgid) const;
  [[nodiscard]] std::optional<std::size_t> scope_of(const Gid& mgid) const;
  /// After the last one comes the first.
  [[nodiscard]] std::size_t next(std::size_t scope) const;
  /// After the response that the group does not exist, the retry is a single request. Every other
  /// one is in the first scope, the others are in the other scopes in turn.
  [[nodiscard]] std::size_t scope_of_retry(unsigned failures) const;

 private:
  const Config& config_;
};

class SilenceCheck {
 public:
  /// How long the group may be silent before it is checked, if it has been heard.
  void set_pause(Duration pause) { pause_ = pause; }
  /// With jitter; Duration::max(): no checks.
  [[nodiscard]] Duration pause(Random& random) const;
  void forget() { heard_ = {}; }
  /// Another port has sent a datagram to the group. Returns whether it was silent before.
  bool on_heard(TimePoint now);
  /// When to check a membership that was confirmed at `since`, with a value of pause(). Silence
  /// that lasts is checked more and more rarely, up to a limit, so that ports of an idle link send
  /// the SA few requests, and yet notice a loss. A link on which no other port has been heard needs
  /// no such check.
  [[nodiscard]] TimePoint next(TimePoint since, Duration pause) const;

 private:
  TimePoint heard_{};
  Duration pause_ = Duration::max();
};

}  // namespace ipoib::link
