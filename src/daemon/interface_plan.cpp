#include "daemon/interface_plan.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace ipoib::daemon {

std::vector<PKey> partitions_of(std::span<const PKey> table) {
  std::vector<PKey> out;
  for (const PKey entry : table) {
    const PKey partition = entry.as_full();
    if (!entry.is_valid() || std::ranges::find(out, partition) != out.end()) continue;
    out.insert(partition == kDefaultPKey ? out.begin() : out.end(), partition);
  }
  return out;
}

std::string list_of(std::span<const PKey> keys) {
  std::string text;
  for (const PKey key : keys) {
    if (!key.is_valid()) continue;
    text += fmt::format("{}{:#06x}", text.empty() ? "" : ", ", key.value());
  }
  return text.empty() ? "none" : text;
}

InterfacePlan::Changes InterfacePlan::update(bool active, std::span<const PKey> table) {
  Changes changes;
  const auto wanted = chosen_.empty() ? partitions_of(table) : chosen_;
  for (auto at = interfaces_.begin(); active && at != interfaces_.end();) {
    auto& [partition, state] = *at;
    const bool is_wanted = std::ranges::find(wanted, partition) != wanted.end();
    if (!is_wanted && state == State::suppressed) {
      at = interfaces_.erase(at);
      continue;
    }
    if (!is_wanted && state == State::created) {
      state = State::removing;
      changes.remove.push_back(partition);
    }
    ++at;
  }
  for (const PKey partition : wanted) {
    if (interfaces_.contains(partition)) continue;
    if (interfaces_.size() < kMaxInterfaces) {
      interfaces_.emplace(partition, State::created);
      changes.create.push_back(partition);
    } else {
      ++changes.left_out;
    }
  }
  return changes;
}

std::string InterfacePlan::name_of(PKey partition) const {
  const bool is_base = partition == kDefaultPKey || chosen_.size() == 1;
  return is_base ? base_name_ : fmt::format("{}.{:04x}", base_name_, partition.value());
}

}  // namespace ipoib::daemon
