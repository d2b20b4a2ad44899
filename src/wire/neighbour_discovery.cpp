// RFC 4861, 4. All messages begin like this, and end with options of type, length in units of 8
// bytes, and content:
//
//   0      1      2          4                    8
//   | type | code | checksum | flags or reserved  | target (3 to 5) | destination (5) | options
//
// A router advertisement has timers in place of the first address.
//
// The link-layer address option (RFC 4391, 9.3):
//
//   0      1      2          4                                24
//   | type | 3    | 0        | flags, QPN, GID: 20 bytes      |
#include "wire/neighbour_discovery.hpp"

#include <algorithm>
#include <cassert>

#include "wire/checksum.hpp"
#include "wire/ipv6.hpp"

namespace ipoib::wire {
namespace {

constexpr std::uint8_t kLinkHopLimit = 255;
constexpr std::size_t kOptionUnit = 8;
constexpr std::uint32_t kRouterFlag = 0x80000000;
constexpr std::uint32_t kSolicitedFlag = 0x40000000;
constexpr std::uint32_t kOverrideFlag = 0x20000000;

/// Size of a message without options.
std::size_t fixed_size(NdType type) {
  switch (type) {
    case NdType::router_solicitation:
      return 8;
    case NdType::router_advertisement:
      return 16;
    case NdType::neighbour_solicitation:
    case NdType::neighbour_advertisement:
      return 24;
    case NdType::redirect:
      return 40;
  }
  return 0;
}

std::optional<NdType> type_from(std::uint8_t value) {
  if (value < 133 || value > 137) return std::nullopt;
  return static_cast<NdType>(value);
}

bool is_link_layer(std::uint8_t option) { return option == 1 || option == 2; }

std::uint16_t checksum_of(const Ipv6Header& header, ConstBytes message) {
  return InternetChecksum()
      .add_pseudo_header(header.source, header.destination, kIcmpv6,
                         static_cast<std::uint32_t>(message.size()))
      .add(message)
      .value();
}

/// Updates payload length and checksum for a new packet size.
void update_length_and_checksum(MutableBytes packet) {
  const std::size_t payload = packet.size() - Ipv6Header::kSize;
  store_be(packet.data() + ipv6::kPayloadLength, static_cast<std::uint16_t>(payload));
  const auto header = Ipv6Header::parse(packet);
  assert(header);
  const MutableBytes message = packet.subspan(Ipv6Header::kSize);
  store_be(message.data() + kIcmpChecksumOffset, std::uint16_t{0});
  store_be(message.data() + kIcmpChecksumOffset, checksum_of(*header, message));
}

/// Calls `visit` with the type and bytes of each option. Returns false if the length of an option
/// is 0 or exceeds the message ("MUST be silently discarded").
template <class Visit>
bool for_each_option(ConstBytes options, Visit&& visit) {
  while (!options.empty()) {
    if (options.size() < 2) return false;
    const std::size_t size = options[1] * kOptionUnit;
    if (size == 0 || size > options.size()) return false;
    visit(options[0], options.first(size));
    options = options.subspan(size);
  }
  return true;
}

HwAddress hardware_in(ConstBytes option) {
  ByteReader reader(option.subspan(4));
  return HwAddress::from_bytes(reader.array<HwAddress::kSize>());
}

/// Whether a message meets the requirements of 6.1, 7.1 and 8.1 beyond the layout.
bool is_valid(const NdMessage& m) {
  switch (m.type) {
    case NdType::router_solicitation:
      return !(m.source.is_unspecified() && m.source_link_layer);
    case NdType::router_advertisement:
      return m.source.is_link_local();
    case NdType::neighbour_solicitation:
      if (m.target.is_multicast()) return false;
      return !m.source.is_unspecified() ||
             (m.destination == m.target.solicited_node() && !m.source_link_layer);
    case NdType::neighbour_advertisement:
      return !m.target.is_multicast() && !(m.destination.is_multicast() && m.is_solicited);
    case NdType::redirect:
      return m.source.is_link_local() && !m.redirected.is_multicast() &&
             (m.target.is_link_local() || m.target == m.redirected);
  }
  return false;
}

}  // namespace

bool is_neighbour_discovery(ConstBytes packet, UpperLayer upper) {
  return upper.protocol == kIcmpv6 && packet.size() > Ipv6Header::kSize &&
         type_from(packet[Ipv6Header::kSize]).has_value();
}

std::optional<NdMessage> NdMessage::parse(ConstBytes packet) {
  const auto header = Ipv6Header::parse(packet);
  if (!header || !is_neighbour_discovery(packet, upper_layer(packet))) return std::nullopt;
  const ConstBytes bytes = packet.subspan(Ipv6Header::kSize, header->payload_length);
  const NdType type = static_cast<NdType>(packet[Ipv6Header::kSize]);
  if (header->hop_limit != kLinkHopLimit || bytes.size() < fixed_size(type) ||
      checksum_of(*header, bytes) != 0) {
    return std::nullopt;
  }

  ByteReader reader(bytes.first(fixed_size(type)));
  reader.skip(1);
  if (reader.u8() != 0) return std::nullopt;  // the code
  reader.skip(2);
  const std::uint32_t flags = reader.u32();
  NdMessage message;
  message.type = type;
  message.source = header->source;
  message.destination = header->destination;
  if (type == NdType::neighbour_advertisement) {
    message.is_router = (flags & kRouterFlag) != 0;
    message.is_solicited = (flags & kSolicitedFlag) != 0;
    message.overrides = (flags & kOverrideFlag) != 0;
  }
  if (reader.left() >= Ipv6Address::kSize) {
    message.target = Ipv6Address(reader.array<Ipv6Address::kSize>());
  }
  if (reader.left() >= Ipv6Address::kSize) {
    message.redirected = Ipv6Address(reader.array<Ipv6Address::kSize>());
  }
  const bool well_formed = for_each_option(
      bytes.subspan(fixed_size(type)), [&message](std::uint8_t option, ConstBytes content) {
        if (content.size() != kLinkLayerOptionSize || !is_link_layer(option)) return;
        const bool is_source = static_cast<LinkLayerOption>(option) == LinkLayerOption::source;
        (is_source ? message.source_link_layer : message.target_link_layer) = hardware_in(content);
      });
  if (!well_formed || !is_valid(message)) return std::nullopt;
  return message;
}

std::size_t NdMessage::emit(MutableBytes to) const {
  assert(type == NdType::neighbour_solicitation || type == NdType::neighbour_advertisement);
  assert(to.size() >= kMaxEmitted);
  const Ipv6Header header{.source = source,
                          .destination = destination,
                          .traffic_class = 0,
                          .flow_label = 0,
                          .payload_length = static_cast<std::uint16_t>(fixed_size(type)),
                          .next_header = kIcmpv6,
                          .hop_limit = kLinkHopLimit};
  header.emit(to);
  ByteWriter writer(to.subspan(Ipv6Header::kSize));
  writer.u8(static_cast<std::uint8_t>(type));
  writer.zeros(3);
  writer.u32((is_router ? kRouterFlag : 0) | (is_solicited ? kSolicitedFlag : 0) |
             (overrides ? kOverrideFlag : 0));
  writer.bytes(target.bytes());
  std::size_t size = Ipv6Header::kSize + writer.written();
  update_length_and_checksum(to.first(size));
  if (source_link_layer) {
    size = append_link_layer_option(to, size, LinkLayerOption::source, *source_link_layer);
  }
  if (target_link_layer) {
    size = append_link_layer_option(to, size, LinkLayerOption::target, *target_link_layer);
  }
  return size;
}

std::size_t strip_link_layer_options(MutableBytes packet) {
  const auto type = static_cast<NdType>(packet[Ipv6Header::kSize]);
  const std::size_t first = Ipv6Header::kSize + fixed_size(type);
  const auto header = Ipv6Header::parse(packet);
  assert(header);
  std::size_t kept = first;
  const ConstBytes options =
      packet.subspan(first, header->payload_length + Ipv6Header::kSize - first);
  const std::size_t before = first + options.size();
  (void)for_each_option(options, [&](std::uint8_t option, ConstBytes content) {
    if (is_link_layer(option)) return;
    std::copy(content.begin(), content.end(), packet.begin() + static_cast<std::ptrdiff_t>(kept));
    kept += content.size();
  });
  if (kept != before) update_length_and_checksum(packet.first(kept));
  return kept;
}

std::size_t append_link_layer_option(MutableBytes buffer, std::size_t size, LinkLayerOption option,
                                     const HwAddress& address) {
  ByteWriter writer(buffer.subspan(size, kLinkLayerOptionSize));
  writer.u8(static_cast<std::uint8_t>(option));
  writer.u8(kLinkLayerOptionSize / kOptionUnit);
  // "Two octets of zero MUST be prepended" to the address.
  writer.zeros(2);
  writer.bytes(address.bytes());
  assert(writer.ok());
  const std::size_t new_size = size + kLinkLayerOptionSize;
  update_length_and_checksum(buffer.first(new_size));
  return new_size;
}

std::size_t append_link_layer_option(MutableBytes buffer, std::size_t size, LinkLayerOption option,
                                     const MacAddress& address) {
  ByteWriter writer(buffer.subspan(size, kEthernetOptionSize));
  writer.u8(static_cast<std::uint8_t>(option));
  writer.u8(kEthernetOptionSize / kOptionUnit);
  writer.bytes(address.bytes());
  assert(writer.ok());
  const std::size_t new_size = size + kEthernetOptionSize;
  update_length_and_checksum(buffer.first(new_size));
  return new_size;
}

}  // namespace ipoib::wire
