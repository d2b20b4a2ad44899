// The reading side. It trusts nothing in the file but its size: every index is checked, and every
// loop is bounded.
#include "softib/fabric/fabric.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "softib/fabric/fabric_layout.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::fabric {

using ipoib::Error;
using ipoib::Result;

namespace {

/// The size of the mapping in whole pages.
constexpr std::size_t kMappedBytes = (sizeof(FabricLayout) + 4095) / 4096 * 4096;

Error unusable(const std::string& path, const std::string& why) {
  return Error{EINVAL, path + " is not usable: " + why +
                           "; stop the subnet's processes and remove " +
                           path.substr(0, path.rfind('/'))};
}

PortState state_of(std::uint64_t port_word) {
  const auto state = static_cast<std::uint8_t>(port_word);
  return state <= static_cast<std::uint8_t>(PortState::active) && state != 0
             ? static_cast<PortState>(state)
             : PortState::down;
}

}  // namespace

Result<Fabric> Fabric::open(const std::string& path, const Fabric* known) {
  const auto file = open_shared(path, IfMissing::fail);
  if (!file) return Error{file.error().code, "cannot open " + path + ": " + file.error().message};
  struct stat status {};
  if (::fstat(file->get(), &status) != 0 || status.st_size != off_t{sizeof(FabricLayout)}) {
    return unusable(path, "its size is not that of a fabric file of this version");
  }
  const bool is_known = known != nullptr && known->is_file(file->get()) && !known->is_lost();
  if (is_known) return *known;
  auto mapped = map_file(file->get(), kMappedBytes);
  if (!mapped) {
    return Error{mapped.error().code, "cannot map " + path + ": " + mapped.error().message};
  }
  Fabric fabric(std::static_pointer_cast<FabricLayout>(*mapped), status.st_dev, status.st_ino);
  const auto& header = fabric.layout_->header;
  if (header.magic != kFabricMagic) return unusable(path, "it is not a fabric file");
  if (header.version != kFabricVersion || header.size != sizeof(FabricLayout)) {
    return unusable(path, "it has another version");
  }
  return fabric;
}

bool Fabric::is_file(int fd) const {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

std::uint32_t Fabric::node_version(NodeIndex node) const {
  return node < kMaxNodes ? layout_->nodes[node].version() : 0;
}

std::optional<subnet::Node> Fabric::node(NodeIndex node) const {
  PublishedNode::Value words;
  if (node >= kMaxNodes || !layout_->nodes[node].read(words)) return std::nullopt;
  return decode(words);
}

std::optional<NodeIndex> Fabric::find(std::string_view name) const {
  for (NodeIndex i = 0; i < kMaxNodes; ++i) {
    if (node_version(i) == 0) continue;
    if (const auto found = node(i); found && found->name == name) return i;
  }
  return std::nullopt;
}

std::optional<NodeIndex> Fabric::find(const IpAddress& address) const {
  if (const auto by_default = node_of(address)) {
    return node(*by_default) ? by_default : std::nullopt;
  }
  if (!check_address(address)) return std::nullopt;
  for (NodeIndex i = 0; i < kMaxNodes; ++i) {
    PublishedNode::Value words;
    if (node_version(i) == 0 || !layout_->nodes[i].read(words)) continue;
    if (has_address(words, address) && decode(words)) return i;
  }
  return std::nullopt;
}

std::optional<NodeIndex> Fabric::node_at(Lid lid) const {
  if (!ipoib::is_unicast(lid)) return std::nullopt;
  const std::uint16_t entry = layout_->lids[lid.value()].load(std::memory_order_acquire);
  if (entry == 0 || entry > kMaxNodes) return std::nullopt;
  return static_cast<NodeIndex>(entry - 1);
}

PortState Fabric::port_state(NodeIndex node) const {
  if (node >= kMaxNodes) return PortState::down;
  return state_of(layout_->nodes[node].peek(kNodePortWord));
}

std::optional<subnet::GroupForwarding> Fabric::group(Lid mlid) const {
  if (!ipoib::is_multicast(mlid) || subnet::group_index(mlid) >= kMaxGroups)
    return subnet::GroupForwarding{};
  PublishedGroup::Value words;
  if (!layout_->groups[subnet::group_index(mlid)].read(words)) return std::nullopt;
  return decode(words);
}

subnet::SubnetSnapshot Fabric::snapshot() const {
  subnet::SubnetSnapshot all;
  for (NodeIndex i = 0; i < kMaxNodes; ++i) {
    if (auto found = node(i)) all.nodes.push_back({i, std::move(*found)});
  }
  for (std::size_t i = 0; i < subnet::kUnicastLids; ++i) {
    const Lid lid(static_cast<std::uint16_t>(i));
    if (const auto led_to = node_at(lid)) all.routes.push_back({lid, *led_to});
  }
  for (std::size_t i = 0; i < kMaxGroups; ++i) {
    const auto found = group(subnet::group_lid(i));
    if (found && *found != subnet::GroupForwarding{})
      all.groups.push_back({subnet::group_lid(i), *found});
  }
  return all;
}

std::uint64_t Fabric::occupied(NodeIndex node) const {
  if (node >= kMaxNodes) return 0;
  return layout_->slots[node].occupied.load(std::memory_order_acquire);
}

std::uint32_t Fabric::epoch(NodeIndex node, std::uint32_t slot) const {
  if (node >= kMaxNodes || slot >= QpnLayout::kSlots) return 0;
  return layout_->slots[node].epochs[slot].load(std::memory_order_acquire);
}

std::uint32_t Fabric::advance_epoch(NodeIndex node, std::uint32_t slot) {
  auto& epoch = layout_->slots[node].epochs[slot];
  const std::uint32_t before = epoch.load(std::memory_order_relaxed);
  const std::uint32_t now = before >= QpnLayout::kMaxEpoch ? 1 : before + 1;
  epoch.store(now, std::memory_order_release);
  return now;
}

void Fabric::set_occupied(NodeIndex node, std::uint32_t slot, bool occupied) {
  auto& all = layout_->slots[node].occupied;
  const std::uint64_t bit = std::uint64_t{1} << slot;
  if (occupied) {
    all.fetch_or(bit, std::memory_order_acq_rel);
  } else {
    all.fetch_and(~bit, std::memory_order_acq_rel);
  }
}

void Fabric::count(NodeIndex node, PortCounter counter, std::uint64_t by) {
  layout_->slots[node].counters[static_cast<std::size_t>(counter)].fetch_add(
      by, std::memory_order_relaxed);
}

PortCounterValues Fabric::counters(NodeIndex node) const {
  PortCounterValues values{};
  if (node >= kMaxNodes) return values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = layout_->slots[node].counters[i].load(std::memory_order_relaxed);
  }
  return values;
}

}  // namespace softib::fabric
