// Layout of the fabric file. In a new file everything but the header is zero.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "softib/fabric/port_counters.hpp"
#include "softib/fabric/published_record.hpp"
#include "softib/subnet/forwarding_tables.hpp"
#include "softib/subnet/subnet_types.hpp"

namespace softib::fabric {

inline constexpr std::uint64_t kFabricMagic = 0x736f'6674'6962'0a01;
inline constexpr std::uint32_t kFabricVersion = 11;

/// Words of a node's record: name 8, GUIDs and prefix 3, port 2, P_Keys 8, faults of its link 2,
/// errors of its queue pairs 2, IP addresses 2 each.
inline constexpr std::size_t kNodeWords = 25 + 2 * kMaxNodeAddresses;
/// The word with the port state in its low 8 bits, which are 0 if there is no such node.
inline constexpr std::size_t kNodePortWord = 11;
/// Words of a group's record: MGID 2, receivers 16.
inline constexpr std::size_t kGroupWords = 2 + kMaxNodes / 64;

using PublishedNode = PublishedRecord<kNodeWords>;
using PublishedGroup = PublishedRecord<kGroupWords>;

struct FabricHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t size;
};

/// The part that the processes of a node write.
struct alignas(64) NodeSlots {
  std::atomic<std::uint64_t> occupied;
  std::array<std::atomic<std::uint32_t>, QpnLayout::kSlots> epochs;
  std::array<std::atomic<std::uint64_t>, kPortCounters> counters;
};

struct FabricLayout {
  alignas(64) FabricHeader header;
  std::array<PublishedNode, kMaxNodes> nodes;
  std::array<PublishedGroup, kMaxGroups> groups;
  /// By LID: node index + 1, or 0 for none.
  std::array<std::atomic<std::uint16_t>, subnet::kUnicastLids> lids;
  std::array<NodeSlots, kMaxNodes> slots;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint16_t>) == 2 && sizeof(std::atomic<std::uint64_t>) == 8);

[[nodiscard]] PublishedNode::Value encode(const subnet::Node& node);
/// Whether a record has the IP address in addition to the default ones.
[[nodiscard]] bool has_address(const PublishedNode::Value& words, const IpAddress& address);
/// Returns nullopt for an empty or invalid record.
[[nodiscard]] std::optional<subnet::Node> decode(const PublishedNode::Value& words);
[[nodiscard]] PublishedGroup::Value encode(const subnet::GroupForwarding& group);
[[nodiscard]] subnet::GroupForwarding decode(const PublishedGroup::Value& words);

}  // namespace softib::fabric
