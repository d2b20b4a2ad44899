// The reading side. It trusts nothing in the file but its size: every index is checked, and every
// loop is bounded.
#include "softib/fabric/fabric.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ranges>
#include <utility>

#include "softib/fabric/fabric_layout.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::fabric {

using ipoib::Error;
using ipoib::Result;

namespace {

/// The size of a mapping in whole pages.
constexpr std::size_t whole_pages(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

Error unusable(const std::string& path, const std::string& why) {
  return Error{EINVAL, path + " is not usable: " + why +
                           "; stop the subnet's processes and remove " +
                           path.substr(0, path.rfind('/'))};
}

PortState state_of(std::uint64_t port_word) {
  const auto state = static_cast<std::uint8_t>(port_word & ((1U << kStateBits) - 1));
  return state <= static_cast<std::uint8_t>(PortState::active) && state != 0
             ? static_cast<PortState>(state)
             : PortState::down;
}

}  // namespace

Result<Fabric> Fabric::open(const std::string& path, const Fabric* known) {
  const auto file = open_shared(path, IfMissing::fail);
  if (!file) return Error{file.error().code, "cannot open " + path + ": " + file.error().message};
  struct stat status {};
  FabricHeader header{};
  const bool is_read = ::fstat(file->get(), &status) == 0 &&
                       ::pread(file->get(), &header, sizeof header, 0) == ssize_t{sizeof header};
  if (!is_read) return unusable(path, "it is too short for a fabric file");
  const bool is_known = known != nullptr && known->is_file(file->get()) && !known->is_lost();
  if (is_known) return *known;
  if (header.magic != kFabricMagic) return unusable(path, "it is not a fabric file");
  const SwitchCount count{header.switches, header.ports};
  const auto size = static_cast<std::size_t>(status.st_size);
  const bool is_this_version = header.version == kFabricVersion && count.switches >= 1 &&
                               count.switches <= kMaxSwitches && count.ports <= kMaxSwitchPort &&
                               header.size == file_bytes(count);
  if (!is_this_version) return unusable(path, "it has another version");
  if (size != header.size) return unusable(path, "its size is not what it says");
  auto mapped = map_file(file->get(), whole_pages(size));
  if (!mapped) {
    return Error{mapped.error().code, "cannot use " + path + ": " + mapped.error().message};
  }
  return Fabric(std::static_pointer_cast<FabricLayout>(*mapped), count, status.st_dev,
                status.st_ino);
}

Fabric::Fabric(std::shared_ptr<FabricLayout> layout, const SwitchCount& count, dev_t device,
               ino_t inode)
    : layout_(std::move(layout)), count_(count), device_(device), inode_(inode) {}

bool Fabric::is_file(int fd) const {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

NodeIndex Fabric::nodes() const {
  const auto all = std::atomic_ref(layout_->header.nodes).load(std::memory_order_acquire);
  return static_cast<NodeIndex>(std::min<std::uint64_t>(all, kMaxNodes));
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
  for (NodeIndex i = 0; i < nodes(); ++i) {
    if (node_version(i) == 0) continue;
    if (const auto found = node(i); found && found->name == name) return subnet::hca_of(i, *found);
  }
  return std::nullopt;
}

std::optional<NodeIndex> Fabric::find(const IpAddress& address) const {
  if (const auto by_default = node_of(address)) {
    return node(*by_default) ? by_default : std::nullopt;
  }
  if (!check_address(address)) return std::nullopt;
  for (NodeIndex i = 0; i < nodes(); ++i) {
    PublishedNode::Value words;
    if (node_version(i) == 0 || !layout_->nodes[i].read(words)) continue;
    if (has_address(words, address) && decode(words)) return i;
  }
  return std::nullopt;
}

subnet::HcaPort Fabric::hca_port(NodeIndex node) const {
  if (node >= kMaxNodes) return {};
  const auto& record = layout_->nodes[node];
  return hca_port_of(node, record.peek(kNodePortWord + 1), record.peek(kAttachmentWord));
}

std::optional<HcaPorts> Fabric::hca_ports(NodeIndex index) const {
  const auto first = node(index);
  if (!first) return std::nullopt;
  HcaPorts ports(first->port);
  const auto second =
      first->other_port != subnet::kNoOtherPort ? node(first->other_port) : std::nullopt;
  if (second && second->name == first->name && ports.has(second->port.number)) {
    ports.set(second->port);
  }
  return ports;
}

std::optional<subnet::Node> Fabric::switch_node(SwitchIndex at) const {
  PublishedNode::Value words;
  if (at >= count_.switches || !switch_at(at).node.read(words)) return std::nullopt;
  return decode(words);
}

Attachment Fabric::attachment_of(NodeIndex node) const {
  const auto found = this->node(node);
  const bool is_valid = found && found->attachment.switch_index < count_.switches &&
                        found->attachment.port <= count_.ports;
  return is_valid ? found->attachment : Attachment{};
}

PublishedSwitch& Fabric::switch_at(SwitchIndex at) const {
  auto* const first = reinterpret_cast<std::byte*>(layout_.get() + 1);
  return *reinterpret_cast<PublishedSwitch*>(first + at * switch_bytes(count_));
}

PublishedPort& Fabric::port_at(SwitchIndex at, SwitchPort port) const {
  return reinterpret_cast<PublishedPort*>(&switch_at(at) + 1)[port];
}

std::span<std::atomic<std::uint64_t>> Fabric::row_at(SwitchIndex at, std::size_t group) const {
  auto* const rows = reinterpret_cast<std::atomic<std::uint64_t>*>(&port_at(at, count_.ports) + 1);
  return {rows + group * row_words(count_), row_words(count_)};
}

std::optional<SwitchPort> Fabric::exit(SwitchIndex at, Lid lid) const {
  const auto entry = switch_at(at).routes[lid.value()].load(std::memory_order_acquire);
  if (entry == 0 || entry > count_.ports + 1) return std::nullopt;
  return static_cast<SwitchPort>(entry - 1);
}

subnet::Peer Fabric::peer(SwitchIndex at, SwitchPort port) const {
  return decode_peer(port_at(at, port).peer.load(std::memory_order_acquire), count_);
}

subnet::Route Fabric::route(SwitchIndex from, Lid dlid, bool subnet_management) const {
  if (!ipoib::is_unicast(dlid)) return {subnet::RouteEnd::no_entry, from};
  return subnet::follow(*this, from, dlid, subnet_management);
}

std::optional<NodeIndex> Fabric::node_at(SwitchIndex from, Lid dlid) const {
  const auto way = route(from, dlid, false);
  if (way.end == subnet::RouteEnd::node) return way.index;
  return way.end == subnet::RouteEnd::switch_ ? std::optional(kSubnetNode) : std::nullopt;
}

void Fabric::count_route(SwitchIndex from, Lid dlid, std::size_t packets, std::size_t bytes) {
  (void)subnet::follow(*this, from, dlid, false, [&](SwitchIndex at, SwitchPort exit) {
    count_cable(at, exit, packets, bytes);
  });
}

void Fabric::count_cable(SwitchIndex at, SwitchPort exit, std::size_t packets, std::size_t bytes) {
  count({at, exit}, CableCounter::packets, packets);
  count({at, exit}, CableCounter::bytes, bytes);
}

void Fabric::count(const Attachment& at, CableCounter counter, std::size_t by) {
  port_at(at.switch_index, at.port)
      .counters[static_cast<std::size_t>(counter)]
      .fetch_add(by, std::memory_order_relaxed);
}

std::uint64_t Fabric::changes() const {
  return std::atomic_ref(layout_->header.changes).load(std::memory_order_acquire);
}

subnet::CheckSet Fabric::checks() const {
  return static_cast<subnet::CheckSet>(
      std::atomic_ref(layout_->header.checks).load(std::memory_order_acquire));
}

bool Fabric::lets_pass(const Attachment& at, subnet::Direction direction, PKey key) const {
  const auto& port = port_at(at.switch_index, at.port);
  const auto filter = decode_attributes(port.attributes.load(std::memory_order_acquire)).filter;
  const bool is_checked =
      direction == subnet::Direction::inbound ? filter.inbound : filter.outbound;
  if (!is_checked) return true;
  for (const auto& word : port.pkeys) {
    const auto keys = word.load(std::memory_order_relaxed);
    for (unsigned shift = 0; shift < 64; shift += 16) {
      const PKey entry(static_cast<std::uint16_t>(keys >> shift));
      if (subnet::lets_pass(entry, key, direction)) return true;
    }
  }
  return false;
}

subnet::CableFaults Fabric::cable_faults(const Attachment& at) const {
  const auto& port = port_at(at.switch_index, at.port);
  return decode_attributes(port.attributes.load(std::memory_order_acquire)).faults;
}

void Fabric::note_violation(const Attachment& at, const subnet::PacketHeaders& headers) {
  auto& port = port_at(at.switch_index, at.port);
  const auto tag = port.violation[0].load(std::memory_order_relaxed) * 0x9e3779b97f4a7c15 >> 52;
  const auto words = encode(headers, tag);
  port.violation[0].store(words[0], std::memory_order_relaxed);
  port.violation[1].store(words[1], std::memory_order_relaxed);
}

std::uint64_t Fabric::violations(const Attachment& at) const {
  const auto counters = cable_counters(at.switch_index, at.port);
  return counters.transmit_constraints + counters.receive_constraints;
}

subnet::PacketHeaders Fabric::last_violation(const Attachment& at) const {
  const auto& port = port_at(at.switch_index, at.port);
  return decode_headers({port.violation[0].load(std::memory_order_relaxed),
                         port.violation[1].load(std::memory_order_relaxed)});
}

void Fabric::note_violations(NodeIndex node, CheckedKey key, const KeyViolations& more) {
  auto& of = layout_->violations[node][static_cast<std::size_t>(key)];
  const auto words = encode(more.last);
  for (std::size_t i = 0; i < words.size(); ++i) {
    of.last[i].store(words[i], std::memory_order_relaxed);
  }
  of.packets.fetch_add(more.packets, std::memory_order_release);
}

std::optional<KeyViolation> Fabric::last_violation(NodeIndex node, CheckedKey key) const {
  const auto& of = layout_->violations[node][static_cast<std::size_t>(key)];
  ViolationWords words{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = of.last[i].load(std::memory_order_relaxed);
  }
  return decode_violation(words);
}

std::uint64_t Fabric::violations(NodeIndex node, CheckedKey key) const {
  return layout_->violations[node][static_cast<std::size_t>(key)].packets.load(
      std::memory_order_acquire);
}

NodeSet Fabric::receivers(SwitchIndex from, Lid mlid, std::size_t packets, std::size_t bytes,
                          bool& has_looped) {
  has_looped = false;
  if (!subnet::is_group(mlid)) return {};
  return subnet::spread(
      *this, from, subnet::group_index(mlid), has_looped,
      [&](SwitchIndex at, SwitchPort exit) { count_cable(at, exit, packets, bytes); });
}

PortSet Fabric::exits(SwitchIndex at, Lid mlid) const {
  PortSet ports;
  if (!subnet::is_group(mlid) || at >= count_.switches) return ports;
  for_each_exit(at, subnet::group_index(mlid),
                [&](SwitchPort port) { ports.set(port - std::size_t{1}); });
  return ports;
}

NodeSet Fabric::all_receivers(Lid mlid) const {
  return subnet::is_group(mlid) ? subnet::all_receivers(*this, subnet::group_index(mlid))
                                : NodeSet();
}

subnet::PerformanceCounters Fabric::cable_counters(SwitchIndex at, SwitchPort port) const {
  subnet::PerformanceCounters counters;
  if (at >= count_.switches || port > count_.ports) return counters;
  const auto& counted = port_at(at, port);
  const auto of = [&](CableCounter counter) {
    return counted.counters[static_cast<std::size_t>(counter)].load(std::memory_order_relaxed);
  };
  counters.transmit_packets = of(CableCounter::packets);
  counters.transmit_data = of(CableCounter::bytes) / 4;
  counters.transmit_discards = of(CableCounter::discards);
  counters.symbol_errors = counters.receive_errors = of(CableCounter::receive_errors);
  counters.transmit_constraints = of(CableCounter::transmit_constraints);
  counters.receive_constraints = of(CableCounter::receive_constraints);
  return counters;
}

Fabric::Sender Fabric::sender(NodeIndex node) const {
  if (node >= kMaxNodes) return {};
  const auto word = layout_->nodes[node].peek(kNodePortWord);
  const auto checks = static_cast<std::uint8_t>(word) >> kStateBits;
  return {state_of(word), static_cast<subnet::CheckSet>(checks)};
}

std::optional<subnet::GroupForwarding> Fabric::group(Lid mlid) const {
  if (!subnet::is_group(mlid)) return subnet::GroupForwarding{};
  PublishedGroup::Value words;
  if (!layout_->groups[subnet::group_index(mlid)].read(words)) return std::nullopt;
  return decode(words);
}

subnet::SubnetSnapshot Fabric::snapshot() const {
  subnet::SubnetSnapshot all;
  for (NodeIndex i = 0; i < nodes(); ++i) {
    if (auto found = node(i)) all.nodes.push_back({i, std::move(*found)});
  }
  for (SwitchIndex at = 0; at < count_.switches; ++at) {
    auto& entry = all.switches.emplace_back();
    entry.node = switch_node(at).value_or(subnet::Node{});
    entry.ports.resize(count_.ports + std::size_t{1});
    for (SwitchPort number = 1; number <= count_.ports; ++number) {
      const auto& published = port_at(at, number);
      auto& port = entry.ports[number];
      port = decode_attributes(published.attributes.load(std::memory_order_acquire));
      port.peer = peer(at, number);
      port.links_lost =
          static_cast<std::uint32_t>(published.links_lost.load(std::memory_order_relaxed));
      for (std::size_t i = 0; i < port.filter.pkeys.size(); ++i) {
        const auto word = published.pkeys[i / 4].load(std::memory_order_relaxed);
        port.filter.pkeys[i] = PKey(static_cast<std::uint16_t>(word >> (i % 4 * 16)));
      }
    }
    for (std::size_t i = 0; i < subnet::kUnicastLids; ++i) {
      const Lid lid(static_cast<std::uint16_t>(i));
      if (const auto port = exit(at, lid)) entry.routes.set(lid, port);
    }
    for (std::size_t i = 0; i < kMaxGroups; ++i) {
      entry.groups.set(i, exits(at, subnet::group_lid(i)));
    }
  }
  for (std::size_t i = 0; i < kMaxGroups; ++i) {
    const auto found = group(subnet::group_lid(i));
    if (found && *found != subnet::GroupForwarding{})
      all.groups.push_back({subnet::group_lid(i), *found});
  }
  return all;
}

SlotSet Fabric::occupied(NodeIndex node) const {
  SlotSet all;
  if (node >= kMaxNodes) return all;
  for (const auto& word : std::views::reverse(layout_->slots[node].occupied)) {
    all = all << 64 | SlotSet(word.load(std::memory_order_acquire));
  }
  return all;
}

bool Fabric::is_occupied(NodeIndex node, std::uint32_t slot) const {
  if (node >= kMaxNodes || slot >= QpnLayout::kSlots) return false;
  const auto& word = layout_->slots[node].occupied[slot / 64];
  return (word.load(std::memory_order_acquire) >> slot % 64 & 1) != 0;
}

std::uint32_t Fabric::epoch(NodeIndex node, std::uint32_t slot) const {
  if (node >= kMaxNodes || slot >= QpnLayout::kSlots) return 0;
  return layout_->slots[node].epochs[slot].load(std::memory_order_acquire);
}

std::uint32_t Fabric::advance_epoch(NodeIndex node, std::uint32_t slot) {
  auto& epoch = layout_->slots[node].epochs[slot];
  const std::uint32_t before = epoch.load(std::memory_order_relaxed);
  const std::uint32_t now = before >= QpnLayout::kMaxEpoch ? 1 : before + 1;
  epoch.store(static_cast<std::uint8_t>(now), std::memory_order_release);
  return now;
}

void Fabric::set_occupied(NodeIndex node, std::uint32_t slot, bool occupied) {
  auto& all = layout_->slots[node].occupied[slot / 64];
  const std::uint64_t bit = std::uint64_t{1} << slot % 64;
  if (occupied) {
    all.fetch_or(bit, std::memory_order_acq_rel);
  } else {
    all.fetch_and(~bit, std::memory_order_acq_rel);
  }
}

std::uint64_t Fabric::captures(NodeIndex node) const {
  return node < kMaxNodes ? layout_->captures[node].load(std::memory_order_acquire) : 0;
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
