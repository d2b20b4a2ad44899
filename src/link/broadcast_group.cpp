#include "link/broadcast_group.hpp"

#include <algorithm>
#include <utility>

#include "wire/mgid.hpp"

namespace ipoib::link {

Gid BroadcastSearch::mgid_in(std::size_t scope) const {
  return wire::broadcast_gid(config_.pkey, config_.scopes[scope]);
}

bool BroadcastSearch::may_be(const Gid& mgid) const {
  const auto scope = scope_of(mgid);
  return scope && mgid == mgid_in(*scope);
}

std::optional<std::size_t> BroadcastSearch::scope_of(const Gid& mgid) const {
  const auto at = std::ranges::find(config_.scopes, wire::scope_of(mgid));
  if (at == config_.scopes.end()) return std::nullopt;
  return static_cast<std::size_t>(at - config_.scopes.begin());
}

std::size_t BroadcastSearch::next(std::size_t scope) const {
  return (scope + 1) % config_.scopes.size();
}

std::size_t BroadcastSearch::scope_of_retry(unsigned failures) const {
  const std::size_t others = config_.scopes.size() - 1;
  const bool is_first = others == 0 || failures % 2 == 0;
  return is_first ? 0 : 1 + failures / 2 % others;
}

Duration SilenceCheck::pause(Random& random) const {
  return pause_ == Duration::max() ? pause_ : random.jittered(pause_, 75, 125);
}

bool SilenceCheck::on_heard(TimePoint now) {
  constexpr Duration kSilent = std::chrono::seconds(1);
  const TimePoint before = std::exchange(heard_, now);
  return before == TimePoint{} || now - before >= kSilent;
}

TimePoint SilenceCheck::next(TimePoint since, Duration pause) const {
  constexpr int kFraction = 4;  // of the silence so far, until the next check
  constexpr int kRarest = 6;    // times the first pause
  if (heard_ == TimePoint{} || pause == Duration::max()) return kNever;
  if (heard_ >= since) return heard_ + pause;
  return since + std::clamp((since - heard_) / kFraction, pause, kRarest * pause);
}

}  // namespace ipoib::link
