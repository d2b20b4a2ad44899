#include "daemon/port/violations.hpp"

#include <fmt/format.h>

#include <utility>

namespace ipoib::daemon {

/// A counter that has become smaller was reset.
std::uint64_t Violations::Growth::update(std::uint64_t counter) {
  const auto before = std::exchange(last_, counter);
  if (!before || counter <= *before) return 0;
  unlogged_ += counter - *before;
  return times_.add() ? std::exchange(unlogged_, 0) : 0;
}

std::vector<std::string> Violations::on_counters(const verbs::PortCounters& counters) {
  std::vector<std::string> lines;
  if (const auto packets = by_pkey_.update(counters.bad_pkey); packets > 0) {
    lines.push_back(
        fmt::format("packets refused by their P_Key: {} more; a peer is in another partition, or "
                    "only a limited member as this port is (ibarp info on both hosts)",
                    packets));
  }
  if (const auto packets = by_qkey_.update(counters.bad_qkey); packets > 0) {
    lines.push_back(
        fmt::format("packets refused by their Q_Key: {} more; a peer has that of another broadcast "
                    "group (ibarp info on both hosts)",
                    packets));
  }
  return lines;
}

}  // namespace ipoib::daemon
