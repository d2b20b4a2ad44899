// Neighbour Discovery over InfiniBand: RFC 4861 with the link-layer options of RFC 4391, 9.3.
//
// The kernel runs Neighbour Discovery on the TUN, but has no link-layer addresses there. So the
// link adds their options to the messages that it sends, and reads and removes those that it
// receives.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "wire/transport.hpp"

namespace ipoib::wire {

enum class NdType : std::uint8_t {
  router_solicitation = 133,
  router_advertisement = 134,
  neighbour_solicitation = 135,
  neighbour_advertisement = 136,
  redirect = 137,
};

/// The size of the option with type, length, two zero bytes, and address (RFC 4391, 9.3).
inline constexpr std::size_t kLinkLayerOptionSize = 24;
/// The size of the option with type, length, and address (RFC 2464, 6).
inline constexpr std::size_t kEthernetOptionSize = 8;
enum class LinkLayerOption : std::uint8_t { source = 1, target = 2 };

/// One message, with the addresses of its IPv6 packet.
struct NdMessage {
  NdType type = NdType::neighbour_solicitation;
  Ipv6Address source;
  Ipv6Address destination;
  Ipv6Address target;      ///< of solicitation and advertisement; redirect: the better first hop
  Ipv6Address redirected;  ///< redirect: the destination address
  bool is_router = false;  ///< this and the next two: flags of a neighbour advertisement
  bool is_solicited = false;
  bool overrides = false;
  std::optional<HwAddress> source_link_layer;
  std::optional<HwAddress> target_link_layer;

  /// Parses an IPv6 packet. Returns nullopt unless it is a valid message (RFC 4861, 4.1
  /// to 4.5, 6.1, 7.1 and 8.1). Ignores link-layer options of another length, which belong to other
  /// links.
  [[nodiscard]] static std::optional<NdMessage> parse(ConstBytes packet);

  /// Size of an IPv6 packet with a neighbour solicitation or advertisement and one option.
  static constexpr std::size_t kMaxEmitted = 40 + 24 + kLinkLayerOptionSize;
  /// Writes a neighbour solicitation or advertisement as an IPv6 packet, with the options that are
  /// set; returns its size. `to` has room for kMaxEmitted bytes.
  std::size_t emit(MutableBytes to) const;
  friend bool operator==(const NdMessage&, const NdMessage&) = default;
};

/// Whether an IPv6 packet is a Neighbour Discovery message: ICMPv6 types 133 to 137, without
/// extension headers.
[[nodiscard]] bool is_neighbour_discovery(ConstBytes packet, UpperLayer upper);

/// Removes the link-layer options from a valid message, in place, and updates payload length and
/// checksum. Returns the new size.
[[nodiscard]] std::size_t strip_link_layer_options(MutableBytes packet);

/// Appends an option to a valid message of `size` bytes, and updates payload length and checksum.
/// `buffer` has room for kLinkLayerOptionSize more bytes. Returns the new size.
std::size_t append_link_layer_option(MutableBytes buffer, std::size_t size, LinkLayerOption option,
                                     const HwAddress& address);
/// Appends the option of Ethernet, of kEthernetOptionSize bytes, in the same way.
std::size_t append_link_layer_option(MutableBytes buffer, std::size_t size, LinkLayerOption option,
                                     const MacAddress& address);

}  // namespace ipoib::wire
