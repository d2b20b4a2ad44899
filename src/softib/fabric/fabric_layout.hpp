// Layout of the fabric file. In a new file everything but the header is zero.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "softib/fabric/fabric.hpp"
#include "softib/fabric/port_counters.hpp"
#include "softib/fabric/published_record.hpp"
#include "softib/subnet/route.hpp"
#include "softib/subnet/subnet_types.hpp"

namespace softib::fabric {

inline constexpr std::uint64_t kFabricMagic = 0x736f'6674'6962'0a01;
inline constexpr std::uint32_t kFabricVersion = 17;

/// Words of a node's record: name 8, GUIDs and prefix 3, port 2, attachment 1, P_Keys 8, faults of
/// its link 2, errors of its queue pairs 2, IP addresses 2 each.
inline constexpr std::size_t kNodeWords = 26 + 2 * kMaxNodeAddresses;
/// The word with the port state in its low 6 bits, which are 0 if there is no such node, and in the
/// next 2 the checks of what the node sends (subnet::CheckSet).
inline constexpr std::size_t kNodePortWord = 11;
/// | other port of the HCA 16 | VLs in use 8 | VLCap 8 | port of the switch 16 | switch 16 |; it
/// has the port number in word 12 before it.
inline constexpr std::size_t kAttachmentWord = 13;
inline constexpr unsigned kStateBits = 6;
/// Words of a group's record: MGID 2, receivers 64.
inline constexpr std::size_t kGroupWords = 2 + kMaxNodes / 64;

using PublishedNode = PublishedRecord<kNodeWords>;
using PublishedGroup = PublishedRecord<kGroupWords>;

struct FabricHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint16_t switches;
  std::uint16_t ports;  ///< of each switch
  std::uint64_t size;
  std::uint64_t checks;   ///< subnet::CheckSet of all ports of switches
  std::uint64_t changes;  ///< see Fabric::changes()
  std::uint64_t nodes;    ///< see Fabric::nodes()
};

/// The part that the processes of a node write.
struct alignas(64) NodeSlots {
  std::array<std::atomic<std::uint64_t>, QpnLayout::kSlots / 64> occupied;
  std::array<std::atomic<std::uint8_t>, QpnLayout::kSlots> epochs;
  std::array<std::atomic<std::uint64_t>, kPortCounters> counters;
};

/// A port of a switch.
struct PublishedPort {
  /// | port of the HCA 8 | checks 8 | state 8 | kind 8 | port of the switch, or HCA 16 | index 16
  /// |: what it is connected to
  std::atomic<std::uint64_t> peer;
  /// | filter and plug 8 | lanes 4, MTU 4 | speed 8 | width 8 | delay 16 | loss 16 |
  std::atomic<std::uint64_t> attributes;
  /// The P_Key table, four keys in a word.
  std::array<std::atomic<std::uint64_t>, kPKeyTableSize / 4> pkeys;
  std::atomic<std::uint64_t> links_lost;
  /// What processes that send through the port have counted there.
  std::array<std::atomic<std::uint64_t>, kCableCounters> counters;
  /// The last packet that was dropped for its P_Key. Two processes may write at once; the words
  /// belong together if they have the same tag:
  ///   | tag 12 | SL 4 | P_Key 16 | DLID 16 | SLID 16 |, | tag 12 | - 4 | source QP 24 | QP 24 |
  std::array<std::atomic<std::uint64_t>, 2> violation;
};

using ViolationWords = std::array<std::uint64_t, 7>;

/// What a port of an HCA has dropped for a key. Two processes may write at once; the words of the
/// last packet belong together if the last of them is the sum of the others (checksum()):
///   | key 32 | DLID 16 | SLID 16 |, | - 12 | SL 4 | source QP 24 | QP 24 |, GIDs 2 each
struct PublishedViolations {
  std::atomic<std::uint64_t> packets;
  std::array<std::atomic<std::uint64_t>, std::tuple_size_v<ViolationWords>> last;
};

/// What precedes the ports and the multicast table of a switch, whose size depends on the ports.
struct alignas(64) PublishedSwitch {
  PublishedNode node;
  /// By LID: exit port + 1, or 0 for none.
  std::array<std::atomic<std::uint16_t>, subnet::kUnicastLids> routes;
};

/// The file has pages for the first nodes() of each array of nodes, and for all else.
struct FabricLayout {
  alignas(64) FabricHeader header;
  std::array<PublishedNode, kMaxNodes> nodes;
  std::array<PublishedGroup, kMaxGroups> groups;
  std::array<NodeSlots, kMaxNodes> slots;
  /// Who captures the packets of a node; see capture_slots.hpp.
  std::array<std::atomic<std::uint64_t>, kMaxNodes> captures;
  /// By CheckedKey.
  std::array<std::array<PublishedViolations, kCheckedKeys.size()>, kMaxNodes> violations;
};

/// Words of a row of a multicast table.
[[nodiscard]] constexpr std::size_t row_words(const SwitchCount& count) {
  return (count.ports + std::size_t{63}) / 64;
}
/// Bytes of a switch: PublishedSwitch, a PublishedPort for each of ports 0 and up, the rows of the
/// multicast table.
[[nodiscard]] constexpr std::size_t switch_bytes(const SwitchCount& count) {
  const std::size_t size = sizeof(PublishedSwitch) +
                           (count.ports + std::size_t{1}) * sizeof(PublishedPort) +
                           kMaxGroups * row_words(count) * sizeof(std::uint64_t);
  return (size + 63) / 64 * 64;
}
/// Bytes of the file: FabricLayout, the switches.
[[nodiscard]] constexpr std::size_t file_bytes(const SwitchCount& count) {
  return sizeof(FabricLayout) + count.switches * switch_bytes(count);
}
/// Nodes for which a new file has pages, and by which it grows.
inline constexpr NodeIndex kNodesAtOnce = 256;
static_assert(kMaxNodes % kNodesAtOnce == 0);
static_assert(sizeof(FabricLayout) % 64 == 0 && sizeof(PublishedSwitch) % 64 == 0);

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint16_t>) == 2 && sizeof(std::atomic<std::uint64_t>) == 8);

[[nodiscard]] PublishedNode::Value encode(const subnet::Node& node);
/// The HCA of a node, and the number of the port that the node is; of an invalid record any.
[[nodiscard]] subnet::HcaPort hca_port_of(NodeIndex index, std::uint64_t word12,
                                          std::uint64_t attachment);
/// Whether a record has the IP address in addition to the default ones.
[[nodiscard]] bool has_address(const PublishedNode::Value& words, const IpAddress& address);
/// Returns nullopt for an empty or invalid record.
[[nodiscard]] std::optional<subnet::Node> decode(const PublishedNode::Value& words);
[[nodiscard]] std::uint64_t encode(const subnet::Peer& peer);
/// Returns a port without a peer for an invalid word, or for one with an index or port too large.
[[nodiscard]] subnet::Peer decode_peer(std::uint64_t word, const SwitchCount& count);
[[nodiscard]] std::uint64_t encode_attributes(const subnet::ExternalPort& port);
/// Reads all but the peer and the P_Key table.
[[nodiscard]] subnet::ExternalPort decode_attributes(std::uint64_t word);
[[nodiscard]] std::array<std::uint64_t, 2> encode(const subnet::PacketHeaders& headers,
                                                  std::uint64_t tag);
[[nodiscard]] subnet::PacketHeaders decode_headers(const std::array<std::uint64_t, 2>& words);
[[nodiscard]] ViolationWords encode(const KeyViolation& violation);
/// Returns nullopt if the words are of two violations.
[[nodiscard]] std::optional<KeyViolation> decode_violation(const ViolationWords& words);
[[nodiscard]] PublishedGroup::Value encode(const subnet::GroupForwarding& group);
[[nodiscard]] subnet::GroupForwarding decode(const PublishedGroup::Value& words);

}  // namespace softib::fabric
