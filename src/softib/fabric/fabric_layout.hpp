// Layout of the fabric file. A new file is all zeroes but for the header.
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
inline constexpr std::uint32_t kFabricVersion = 3;

/// Words of a node's record: name 8, GUIDs and prefix 3, port 2, P_Keys 8.
inline constexpr std::size_t kNodeWords = 21;
/// The word that holds the port state in its low 8 bits; 0: no such node.
inline constexpr std::size_t kNodePortWord = 11;
/// Words of a group's record: MGID 2, receivers 16.
inline constexpr std::size_t kGroupWords = 2 + kMaxNodes / 64;

using NodeRecord = PublishedRecord<kNodeWords>;
using GroupRecord = PublishedRecord<kGroupWords>;

struct FabricHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t size;
  std::atomic<std::uint64_t> generation;
};

/// What the processes of a node write themselves.
struct alignas(64) NodePlaces {
  std::atomic<std::uint64_t> occupied;
  std::array<std::atomic<std::uint32_t>, QpnLayout::kSlots> epochs;
  std::array<std::atomic<std::uint64_t>, kPortCounters> counters;
};

struct FabricLayout {
  alignas(64) FabricHeader header;
  std::array<NodeRecord, kMaxNodes> nodes;
  std::array<GroupRecord, kMaxGroups> groups;
  /// Node index + 1; 0: nobody.
  std::array<std::atomic<std::uint16_t>, subnet::kUnicastLids> lids;
  std::array<NodePlaces, kMaxNodes> places;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint16_t>) == 2 && sizeof(std::atomic<std::uint64_t>) == 8);

[[nodiscard]] NodeRecord::Value encode(const subnet::Node& node);
/// Nothing for a record that names no node, or makes no sense.
[[nodiscard]] std::optional<subnet::Node> decode(const NodeRecord::Value& words);
[[nodiscard]] GroupRecord::Value encode(const subnet::GroupForwarding& group);
[[nodiscard]] subnet::GroupForwarding decode(const GroupRecord::Value& words);

}  // namespace softib::fabric
