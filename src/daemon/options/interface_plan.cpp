#include "daemon/options/interface_plan.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cerrno>

#include "daemon/options/option_values.hpp"

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

PKey base_partition(std::span<const PKey> chosen) {
  return chosen.size() == 1 ? chosen.front() : kDefaultPKey;
}

std::string list_of(std::span<const PKey> keys) {
  std::string text;
  for (const PKey key : keys) {
    if (!key.is_valid()) continue;
    text += fmt::format("{}{:#06x}", text.empty() ? "" : ", ", key.value());
  }
  return text.empty() ? "none" : text;
}

/// Partitions that are chosen or in the table, those of VLANs, then those that the operator has
/// added.
std::vector<PKey> InterfacePlan::wanted(std::span<const PKey> table) const {
  auto out = chosen_.empty() ? partitions_of(table) : chosen_;
  const auto add = [&out](PKey partition) {
    if (std::ranges::find(out, partition) == out.end()) out.push_back(partition);
  };
  if (!chosen_.empty()) {
    for (const auto& [partition, vlan] : vlans_) add(partition);
  }
  for (const auto& [partition, name] : operator_.added) add(partition);
  return out;
}

InterfacePlan::Changes InterfacePlan::update(bool active, std::span<const PKey> table) {
  Changes changes;
  const auto all = wanted(table);
  const auto is_unwanted = [&](PKey each) { return std::ranges::find(all, each) == all.end(); };
  for (auto& [partition, state] : interfaces_) {
    if (!active || state != State::created || !is_unwanted(partition)) continue;
    state = State::removing;
    changes.remove.push_back(partition);
  }
  if (active) std::erase_if(operator_.deleted, is_unwanted);
  for (const PKey partition : all) {
    const bool is_deleted =
        operator_.deleted.contains(partition) && !operator_.added.contains(partition);
    if (interfaces_.contains(partition) || is_deleted) continue;
    if (interfaces_.size() < kMaxInterfaces) {
      interfaces_.emplace(partition, State::created);
      changes.create.push_back(partition);
    } else {
      ++changes.left_out;
    }
  }
  return changes;
}

Result<void> InterfacePlan::add(PKey partition, const std::string& name) {
  if (!partition.is_valid()) {
    return Error{EINVAL, fmt::format("{:#06x} is not a valid P_Key", partition.value())};
  }
  if (const auto at = interfaces_.find(partition); at != interfaces_.end()) {
    const auto its_name = name_of(partition);
    if (at->second == State::removing) return Error{EBUSY, its_name + " is being removed"};
    return Error{EEXIST, fmt::format("partition {:#06x} has the interface {} already",
                                     partition.value(), its_name)};
  }
  if (interfaces_.size() >= kMaxInterfaces) {
    return Error{ENOSPC,
                 fmt::format("{} partitions have an interface, which is the maximum: delete "
                             "one (ibarp interface delete)",
                             interfaces_.size())};
  }
  const auto chosen = name.empty() ? usual_name_of(partition) : name;
  if (!is_interface_name(chosen)) {
    return Error{EINVAL, chosen + ": the name must be " + kInterfaceNameRule};
  }
  for (const auto& [other, state] : interfaces_) {
    if (name_of(other) != chosen) continue;
    return Error{
        EEXIST, fmt::format("{} is the interface of partition {:#06x}: choose another name", chosen,
                            other.value())};
  }
  operator_.added[partition] = chosen;
  interfaces_.emplace(partition, State::created);
  return {};
}

void InterfacePlan::cancel_add(PKey partition) {
  interfaces_.erase(partition);
  operator_.added.erase(partition);
}

Result<void> InterfacePlan::remove(PKey partition) {
  const auto at = interfaces_.find(partition);
  if (at == interfaces_.end() || at->second == State::removing) {
    return Error{EBUSY, name_of(partition) + " is being removed"};
  }
  const auto stays = [&](const auto& each) {
    return each.first != partition && each.second == State::created && !vlans_.contains(each.first);
  };
  if (!vlans_.contains(partition) && std::ranges::none_of(interfaces_, stays)) {
    return Error{EBUSY,
                 name_of(partition) +
                     " is the last interface: end ipoibd instead, or add another one before"};
  }
  at->second = State::removing;
  operator_.added.erase(partition);
  operator_.deleted.insert(partition);
  return {};
}

void InterfacePlan::forget(PKey partition) {
  interfaces_.erase(partition);
  operator_.added.erase(partition);
  operator_.deleted.insert(partition);
}

std::string InterfacePlan::name_of(PKey partition) const {
  const auto added = operator_.added.find(partition);
  return added != operator_.added.end() ? added->second : usual_name_of(partition);
}

std::string InterfacePlan::usual_name_of(PKey partition) const {
  if (partition == base_partition(chosen_)) return base_name_;
  if (const auto at = vlans_.find(partition); at != vlans_.end()) {
    return fmt::format("{}.{}", base_name_, at->second.value());
  }
  return fmt::format("{}.{:04x}", base_name_, partition.value());
}

}  // namespace ipoib::daemon
