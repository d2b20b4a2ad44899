// Encodes values as words of a record, and decodes them. The words are in host byte order, since
// the file never leaves the machine. Decoding is safe for any content.
//
//   word 10: gid_prefix, of an Ethernet port in its place the index of its network interface
//   word 11: | lmc 4 | sm_sl 4 | generation 15 | failed 1 | sm_lid 16 | lid 16 | checks 2 |
//   state 6 |
//   word 12: | number 2 | ports of the HCA 2 | mtu 4 | grh_required 1 | ethernet 1 | max_mtu 6 |
//   width 8 | speed 8 | losses 16 | reregister_count 16 |
#include "softib/fabric/fabric_layout.hpp"

#include <algorithm>
#include <bit>
#include <span>

#include "softib/core/ip_gid.hpp"
#include "softib/core/name.hpp"

namespace softib::fabric {

namespace {

constexpr std::size_t kNameWords = 8;
constexpr std::size_t kPKeysPerWord = 4;
constexpr std::size_t kPKeyWord = kAttachmentWord + 1;
constexpr unsigned kNumberShift = 62;
constexpr unsigned kHcaPortsShift = 60;
constexpr unsigned kNumberMask = 3;
static_assert(kMaxHcaPorts <= kNumberMask);
constexpr unsigned kMaxGeneration = 0x7fff;
static_assert(kNameWords * 8 == kMaxNodeName + 1);
constexpr std::size_t kFaultsWord = kPKeyWord + kPKeyTableSize / kPKeysPerWord;
constexpr std::size_t kQpErrorsWord = kFaultsWord + std::tuple_size_v<LinkFaults::Words>;
constexpr std::size_t kAddressesWord = kQpErrorsWord + std::tuple_size_v<QpErrors::Words>;
static_assert(kAddressesWord + 2 * kMaxNodeAddresses == kNodeWords);
static_assert(kMaxGids == kMaxNodeAddresses, "an Ethernet port has its GIDs in their place");

/// Flags of a switch's port.
constexpr unsigned kInboundFlag = 1;
constexpr unsigned kOutboundFlag = 2;
constexpr unsigned kPluggedFlag = 4;
constexpr unsigned kTagShift = 52;
constexpr std::uint32_t kMaxQpn = 0xff'ffff;

template <class T>
T field(std::uint64_t word, unsigned shift) {
  return static_cast<T>(word >> shift);
}

/// MTU codes are 256 to 4096 bytes (IBA 14.2.5.6); programs divide by the MTU of their port.
std::uint8_t clamp_mtu(int code) { return static_cast<std::uint8_t>(std::clamp(code, 1, 5)); }

std::uint8_t number_in(std::uint64_t word12) {
  return std::clamp<std::uint8_t>(field<std::uint8_t>(word12, kNumberShift), 1, kMaxHcaPorts);
}
NodeIndex other_port_in(std::uint64_t attachment) {
  const auto index = field<NodeIndex>(attachment, 48);
  return index < kMaxNodes ? index : subnet::kNoOtherPort;
}

/// An address in two words, those of its GID; 0: none. ::ffff:a.b.c.d, as which IPv4 has one, is no
/// address of a node itself.
using AddressWords = std::array<std::uint64_t, 2>;

AddressWords words_of(const Gid& gid) { return {gid.prefix(), gid.guid().value()}; }
Gid gid_of(const AddressWords& words) { return {words[0], Guid(words[1])}; }

AddressWords address_words(const PublishedNode::Value& words, std::size_t index) {
  return {words[kAddressesWord + 2 * index], words[kAddressesWord + 2 * index + 1]};
}

}  // namespace

PublishedNode::Value encode(const subnet::Node& node) {
  PublishedNode::Value words{};
  for (std::size_t i = 0; i < node.name.size() && i < kMaxNodeName; ++i) {
    const auto character = static_cast<unsigned char>(node.name[i]);
    words[i / 8] |= std::uint64_t{character} << (i % 8 * 8);
  }
  const auto& port = node.port;
  words[8] = port.node_guid.value();
  words[9] = port.port_guid.value();
  words[10] = port.is_ethernet() ? port.network_interface : port.gid_prefix;
  words[kNodePortWord] =
      std::uint64_t{static_cast<std::uint8_t>(port.state)} |
      std::uint64_t{node.checks} << kStateBits | std::uint64_t{port.lid.value()} << 8 |
      std::uint64_t{port.sm_lid.value()} << 24 | std::uint64_t{port.failed} << 40 |
      std::uint64_t{port.generation & kMaxGeneration} << 41 |
      std::uint64_t{port.sm_sl.value()} << 56 | std::uint64_t{port.lmc} << 60;
  words[12] = std::uint64_t{port.reregister_count} | std::uint64_t{port.losses} << 16 |
              std::uint64_t{port.speed} << 32 | std::uint64_t{port.width} << 40 |
              std::uint64_t{port.max_mtu} << 48 | std::uint64_t{port.is_ethernet()} << 54 |
              std::uint64_t{port.grh_required} << 55 | std::uint64_t{port.mtu} << 56 |
              std::uint64_t{port.hca_ports} << kHcaPortsShift |
              std::uint64_t{port.number} << kNumberShift;
  for (std::size_t i = 0; i < port.pkeys.size(); ++i) {
    words[kPKeyWord + i / kPKeysPerWord] |= std::uint64_t{port.pkeys[i].value()}
                                            << (i % kPKeysPerWord * 16);
  }
  std::ranges::copy(port.faults.words(), words.begin() + kFaultsWord);
  std::ranges::copy(port.qp_errors.words(), words.begin() + kQpErrorsWord);
  words[kAttachmentWord] =
      std::uint64_t{node.attachment.switch_index} | std::uint64_t{node.attachment.port} << 16 |
      std::uint64_t{port.vl_capability} << 32 | std::uint64_t{port.operational_vls} << 40 |
      std::uint64_t{node.other_port} << 48;
  if (port.is_ethernet()) {
    for (std::size_t i = 0; i < kMaxGids; ++i) {
      std::ranges::copy(words_of(port.gids[i]), words.begin() + kAddressesWord + 2 * i);
    }
    return words;
  }
  for (std::size_t i = 0; i < std::min(node.addresses.size(), kMaxNodeAddresses); ++i) {
    std::ranges::copy(words_of(ip_gid(node.addresses[i])), words.begin() + kAddressesWord + 2 * i);
  }
  return words;
}

std::optional<subnet::Node> decode(const PublishedNode::Value& words) {
  subnet::Node node;
  for (std::size_t i = 0; i < kMaxNodeName; ++i) {
    const auto character = field<char>(words[i / 8], static_cast<unsigned>(i % 8 * 8));
    if (character == 0) break;
    node.name.push_back(character);
  }
  const auto state_and_checks = field<std::uint8_t>(words[kNodePortWord], 0);
  const auto state = static_cast<std::uint8_t>(state_and_checks & ((1U << kStateBits) - 1));
  node.checks = static_cast<subnet::CheckSet>(state_and_checks >> kStateBits);
  if (state < static_cast<std::uint8_t>(PortState::down) ||
      state > static_cast<std::uint8_t>(PortState::active) || !is_valid_name(node.name)) {
    return std::nullopt;
  }
  auto& port = node.port;
  port.node_guid = Guid(words[8]);
  port.port_guid = Guid(words[9]);
  port.state = static_cast<PortState>(state);
  port.lid = Lid(field<std::uint16_t>(words[kNodePortWord], 8));
  port.sm_lid = Lid(field<std::uint16_t>(words[kNodePortWord], 24));
  const auto generation = field<std::uint16_t>(words[kNodePortWord], 40);
  port.failed = (generation & 1) != 0;
  port.generation = generation >> 1;
  port.sm_sl = ServiceLevel(field<std::uint8_t>(words[kNodePortWord], 56) & 0xf);
  port.lmc = std::min(field<std::uint8_t>(words[kNodePortWord], 60), ipoib::kMaxLmc);
  port.reregister_count = field<std::uint16_t>(words[12], 0);
  port.losses = field<std::uint16_t>(words[12], 16);
  port.speed = field<std::uint8_t>(words[12], 32);
  port.width = field<std::uint8_t>(words[12], 40);
  port.max_mtu = clamp_mtu(field<std::uint8_t>(words[12], 48) & 0x3f);
  const bool is_ethernet = (words[12] >> 54 & 1) != 0;
  port.link_layer = is_ethernet ? LinkLayer::ethernet : LinkLayer::infiniband;
  if (is_ethernet) {
    port.network_interface = field<std::uint32_t>(words[10], 0);
  } else {
    port.gid_prefix = words[10];
  }
  port.grh_required = (words[12] >> 55 & 1) != 0;
  port.mtu = clamp_mtu(field<std::uint8_t>(words[12], 56) & 0xf);
  port.number = number_in(words[12]);
  const auto hca_ports = field<std::uint8_t>(words[12], kHcaPortsShift) & kNumberMask;
  port.hca_ports =
      static_cast<std::uint8_t>(std::clamp<unsigned>(hca_ports, port.number, kMaxHcaPorts));
  for (std::size_t i = 0; i < port.pkeys.size(); ++i) {
    port.pkeys[i] = PKey(field<std::uint16_t>(words[kPKeyWord + i / kPKeysPerWord],
                                              static_cast<unsigned>(i % kPKeysPerWord * 16)));
  }
  port.faults = LinkFaults::of_words({words[kFaultsWord], words[kFaultsWord + 1]});
  port.qp_errors = QpErrors::of_words({words[kQpErrorsWord], words[kQpErrorsWord + 1]});
  node.attachment = {field<SwitchIndex>(words[kAttachmentWord], 0),
                     field<SwitchPort>(words[kAttachmentWord], 16)};
  node.other_port = other_port_in(words[kAttachmentWord]);
  port.vl_capability = field<std::uint8_t>(words[kAttachmentWord], 32) & 0xf;
  port.operational_vls = field<std::uint8_t>(words[kAttachmentWord], 40) & 0xf;
  for (std::size_t i = 0; i < kMaxGids && is_ethernet; ++i) {
    port.gids[i] = gid_of(address_words(words, i));
    if (!port.gids[i].is_zero()) node.addresses.push_back(ip_address_of(port.gids[i]));
  }
  for (std::size_t i = 0; i < kMaxNodeAddresses && !is_ethernet; ++i) {
    const auto gid = gid_of(address_words(words, i));
    if (gid.is_zero()) break;
    if (const auto address = ip_address_of(gid); check_address(address)) {
      node.addresses.push_back(address);
    }
  }
  return node;
}

subnet::HcaPort hca_port_of(NodeIndex index, std::uint64_t word12, std::uint64_t attachment) {
  const auto number = number_in(word12);
  const auto other = other_port_in(attachment);
  return {number > 1 && other != subnet::kNoOtherPort ? other : index, number};
}

bool has_address(const PublishedNode::Value& words, const IpAddress& address) {
  const auto wanted = words_of(ip_gid(address));
  for (std::size_t i = 0; i < kMaxNodeAddresses; ++i) {
    if (address_words(words, i) == wanted) return true;
  }
  return false;
}

std::uint64_t encode(const subnet::Peer& peer) {
  const bool is_node = peer.kind == subnet::Peer::Kind::node;
  return std::uint64_t{peer.index} | std::uint64_t{is_node ? peer.hca : peer.port} << 16 |
         std::uint64_t{static_cast<std::uint8_t>(peer.kind)} << 32 |
         std::uint64_t{static_cast<std::uint8_t>(peer.state)} << 40 |
         std::uint64_t{peer.checks} << 48 |
         std::uint64_t{is_node ? static_cast<std::uint8_t>(peer.port) : std::uint8_t{0}} << 56;
}

subnet::Peer decode_peer(std::uint64_t word, const SwitchCount& count) {
  using subnet::Peer;
  Peer peer;
  peer.kind = static_cast<Peer::Kind>(field<std::uint8_t>(word, 32));
  peer.index = field<std::uint16_t>(word, 0);
  peer.port = field<SwitchPort>(word, 16);
  peer.state = static_cast<PortState>(field<std::uint8_t>(word, 40));
  peer.checks = field<std::uint8_t>(word, 48) & (subnet::kPKeyCheck | subnet::kCableFault);
  const bool is_node =
      peer.kind == Peer::Kind::node && peer.index < kMaxNodes && peer.port < kMaxNodes;
  if (is_node) {
    peer.hca = peer.port;
    peer.port = std::clamp<SwitchPort>(field<std::uint8_t>(word, 56), 1, kMaxHcaPorts);
  }
  const bool is_switch = peer.kind == Peer::Kind::switch_port && peer.index < count.switches &&
                         peer.port <= count.ports && peer.state >= PortState::down &&
                         peer.state <= PortState::active;
  return is_node || is_switch ? peer : Peer{};
}

std::uint64_t encode_attributes(const subnet::ExternalPort& port) {
  const unsigned flags = (port.filter.inbound ? kInboundFlag : 0U) |
                         (port.filter.outbound ? kOutboundFlag : 0U) |
                         (port.is_plugged_in ? kPluggedFlag : 0U);
  return std::uint64_t{port.faults.loss} | std::uint64_t{port.faults.delay} << 16 |
         std::uint64_t{port.width} << 32 | std::uint64_t{port.speed} << 40 |
         std::uint64_t{port.mtu} << 48 | std::uint64_t{port.operational_vls} << 52 |
         std::uint64_t{flags} << 56;
}

subnet::ExternalPort decode_attributes(std::uint64_t word) {
  subnet::ExternalPort port;
  port.faults.loss = std::min(field<std::uint16_t>(word, 0), LinkFaults::kAlways);
  port.faults.delay = std::min(field<std::uint16_t>(word, 16), LinkFaults::kMaxDelay);
  port.width = field<std::uint8_t>(word, 32);
  port.speed = field<std::uint8_t>(word, 40);
  port.mtu = clamp_mtu(field<std::uint8_t>(word, 48) & 0xf);
  port.operational_vls = field<std::uint8_t>(word, 52) & 0xf;
  const unsigned flags = field<std::uint8_t>(word, 56);
  port.filter.inbound = (flags & kInboundFlag) != 0;
  port.filter.outbound = (flags & kOutboundFlag) != 0;
  port.is_plugged_in = (flags & kPluggedFlag) != 0;
  return port;
}

std::array<std::uint64_t, 2> encode(const subnet::PacketHeaders& headers, std::uint64_t tag) {
  return {std::uint64_t{headers.slid.value()} | std::uint64_t{headers.dlid.value()} << 16 |
              std::uint64_t{headers.pkey.value()} << 32 | std::uint64_t{headers.sl.value()} << 48 |
              tag << kTagShift,
          std::uint64_t{headers.destination.value()} | std::uint64_t{headers.source.value()} << 24 |
              tag << kTagShift};
}

subnet::PacketHeaders decode_headers(const std::array<std::uint64_t, 2>& words) {
  subnet::PacketHeaders headers;
  headers.slid = Lid(field<std::uint16_t>(words[0], 0));
  headers.dlid = Lid(field<std::uint16_t>(words[0], 16));
  headers.pkey = PKey(field<std::uint16_t>(words[0], 32));
  headers.sl = ServiceLevel(field<std::uint8_t>(words[0], 48) & 0xf);
  if (words[0] >> kTagShift == words[1] >> kTagShift) {
    headers.destination = Qpn(field<std::uint32_t>(words[1], 0) & kMaxQpn);
    headers.source = Qpn(field<std::uint32_t>(words[1], 24) & kMaxQpn);
  }
  return headers;
}

namespace {
std::uint64_t checksum(std::span<const std::uint64_t> words) {
  std::uint64_t sum = 0;
  for (const auto word : words) sum = (std::rotl(sum, 23) ^ word) * 0x9e37'79b9'7f4a'7c15;
  return sum;
}
}  // namespace

ViolationWords encode(const KeyViolation& violation) {
  ViolationWords words{
      std::uint64_t{violation.slid.value()} | std::uint64_t{violation.dlid.value()} << 16 |
          std::uint64_t{violation.key} << 32,
      std::uint64_t{violation.destination.value()} | std::uint64_t{violation.source.value()} << 24 |
          std::uint64_t{violation.sl.value()} << 48};
  std::ranges::copy(words_of(violation.sgid), words.begin() + 2);
  std::ranges::copy(words_of(violation.dgid), words.begin() + 4);
  words.back() = checksum(std::span(words).first<6>());
  return words;
}

std::optional<KeyViolation> decode_violation(const ViolationWords& words) {
  if (words.back() != checksum(std::span(words).first<6>())) return std::nullopt;
  KeyViolation violation;
  violation.slid = Lid(field<std::uint16_t>(words[0], 0));
  violation.dlid = Lid(field<std::uint16_t>(words[0], 16));
  violation.key = field<std::uint32_t>(words[0], 32);
  violation.destination = Qpn(field<std::uint32_t>(words[1], 0) & kMaxQpn);
  violation.source = Qpn(field<std::uint32_t>(words[1], 24) & kMaxQpn);
  violation.sl = ServiceLevel(field<std::uint8_t>(words[1], 48) & 0xf);
  violation.sgid = gid_of({words[2], words[3]});
  violation.dgid = gid_of({words[4], words[5]});
  return violation;
}

PublishedGroup::Value encode(const subnet::GroupForwarding& group) {
  PublishedGroup::Value words{};
  words[0] = group.mgid.prefix();
  words[1] = group.mgid.guid().value();
  for (std::size_t i = 0; i < kMaxNodes; ++i) {
    if (group.receivers[i]) words[2 + i / 64] |= std::uint64_t{1} << (i % 64);
  }
  return words;
}

subnet::GroupForwarding decode(const PublishedGroup::Value& words) {
  subnet::GroupForwarding group;
  group.mgid = Gid(words[0], Guid(words[1]));
  for (std::size_t word = 0; word < kMaxNodes / 64; ++word) {
    for (auto bits = words[2 + word]; bits != 0; bits &= bits - 1) {
      group.receivers.set(word * 64 + static_cast<std::size_t>(__builtin_ctzll(bits)));
    }
  }
  return group;
}

}  // namespace softib::fabric
