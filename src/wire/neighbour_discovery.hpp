// Neighbour Discovery over InfiniBand: RFC 4861 with the link-layer options of RFC 4391, 9.3.
//
// The kernel of a host with a TUN speaks Neighbour Discovery, but knows no link-layer addresses:
// they are put into what it sends, and read and taken out of what it gets.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"
#include "wire/transport.hpp"

namespace ipoib::wire {

enum class NdType : std::uint8_t {
  router_solicitation = 133,
  router_advertisement = 134,
  neighbour_solicitation = 135,
  neighbour_advertisement = 136,
  redirect = 137,
};

/// Type, length, two zero octets, address (RFC 4391, 9.3).
inline constexpr std::size_t kLinkLayerOptionSize = 24;
enum class LinkLayerOption : std::uint8_t { source = 1, target = 2 };

/// One message, with the addresses of its IPv6 packet.
struct NdMessage {
  NdType type = NdType::neighbour_solicitation;
  Ipv6Address source;
  Ipv6Address destination;
  Ipv6Address target;      ///< solicitation, advertisement: whose; redirect: the better first hop
  Ipv6Address redirected;  ///< redirect: the destination that it is better for
  bool is_router = false;  ///< of a neighbour advertisement, as are the next two
  bool is_solicited = false;
  bool overrides = false;
  std::optional<HwAddress> source_link_layer;
  std::optional<HwAddress> target_link_layer;

  /// Reads an IPv6 packet. Nothing unless it is a message that RFC 4861 calls valid: 4.1 to 4.5,
  /// with 6.1, 7.1 and 8.1. Link-layer options of another length are those of another link.
  [[nodiscard]] static std::optional<NdMessage> parse(ConstBytes packet);

  /// Size of a neighbour solicitation or advertisement with one option, as an IPv6 packet.
  static constexpr std::size_t kMaxEmitted = 40 + 24 + kLinkLayerOptionSize;
  /// Writes a neighbour solicitation or advertisement as an IPv6 packet, with the options that are
  /// set; returns its size. `to` has room for kMaxEmitted octets.
  std::size_t emit(MutableBytes to) const;
  friend bool operator==(const NdMessage&, const NdMessage&) = default;
};

/// Whether an IPv6 packet is to be read as a message of Neighbour Discovery: types 133 to 137 with
/// no extension header before them.
[[nodiscard]] bool is_neighbour_discovery(ConstBytes packet, UpperLayer upper);

/// Takes the link-layer options out of a valid message, in place, and mends payload length and
/// checksum. Returns the size that is left.
[[nodiscard]] std::size_t strip_link_layer_options(MutableBytes packet);

/// Appends an option to a valid message of `size` octets and mends payload length and checksum.
/// `buffer` has room for kLinkLayerOptionSize octets behind the message. Returns the new size.
std::size_t append_link_layer_option(MutableBytes buffer, std::size_t size, LinkLayerOption option,
                                     const HwAddress& address);

}  // namespace ipoib::wire
