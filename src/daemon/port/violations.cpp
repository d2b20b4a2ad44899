#include "daemon/port/violations.hpp"

#include <fmt/format.h>

#include <utility>

namespace ipoib::daemon {

/// Counters that have become smaller were reset.
std::vector<std::string> Violations::on_counters(const verbs::PortCounters& counters) {
  const auto before = std::exchange(last_, counters);
  std::vector<std::string> lines;
  if (!before) return lines;
  if (counters.bad_pkey > before->bad_pkey) {
    lines.push_back(
        fmt::format("refused {} more packets by their P_Key: a peer is in another partition, or "
                    "only a limited member as this port is (ibarp info on both hosts)",
                    counters.bad_pkey - before->bad_pkey));
  }
  if (counters.bad_qkey > before->bad_qkey) {
    lines.push_back(
        fmt::format("refused {} more packets by their Q_Key: a peer has that of another broadcast "
                    "group (ibarp info on both hosts)",
                    counters.bad_qkey - before->bad_qkey));
  }
  return lines;
}

}  // namespace ipoib::daemon
