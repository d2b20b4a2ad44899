#include "daemon/path_monitor.hpp"

#include <utility>

namespace ipoib::daemon {

bool PathMonitor::begin(Lid highest, TimePoint now) {
  if (now < due_) return false;
  due_ = now + interval(highest);
  const bool is_waiting =
      round_ != 0 && !(answered_[PortRole::primary] && answered_[PortRole::backup]);
  if (is_waiting) return false;
  ++round_;
  answered_ = {};
  return true;
}

bool PathMonitor::on_result(PortRole role, std::uint64_t round, bool answered) {
  if (round != round_) return false;
  answered_[role] = answered;
  const auto& of_other = answered_[other_than(role)];
  const auto before = silent_.values;
  if (answered) silent_[role] = false;
  if (of_other && *of_other != answered) silent_[answered ? other_than(role) : role] = true;
  return silent_.values != before;
}

bool PathMonitor::stop() {
  answered_ = {{true, true}};  // a later result of this round is of a port that was different
  ++round_;
  return std::exchange(silent_, {}).values != PerPort<bool>{}.values;
}

}  // namespace ipoib::daemon
