// Neighbour Discovery messages from random bytes, which rarely have a valid checksum.
#pragma once

#include "require.hpp"
#include "wire/checksum.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour_discovery.hpp"
#include "wire/transport.hpp"

namespace ipoib {

/// Gives an IPv6 packet the length, hop limit, type and checksum of a Neighbour Discovery message.
/// Returns false, and changes nothing, if it is no IPv6 packet or too short.
[[nodiscard]] inline bool fit_discovery(MutableBytes packet) {
  constexpr std::size_t kFixed = 8;  // of a message
  if (wire::ip_version(packet) != 6 || packet.size() < wire::Ipv6Header::kSize + kFixed) {
    return false;
  }
  const MutableBytes message = packet.subspan(wire::Ipv6Header::kSize);
  store_be(&packet[wire::ipv6::kPayloadLength], static_cast<std::uint16_t>(message.size()));
  packet[wire::ipv6::kNextHeader] = wire::kIcmpv6;
  packet[wire::ipv6::kNextHeader + 1] = 255;
  message[0] = static_cast<std::uint8_t>(133 + message[0] % 5);
  message[1] = 0;
  store_be(&message[2], std::uint16_t{0});
  const auto header = wire::Ipv6Header::parse(packet);
  require(header.has_value());
  wire::InternetChecksum sum;
  sum.add_pseudo_header(header->source, header->destination, wire::kIcmpv6, header->payload_length);
  store_be(&message[2], sum.add(message).value());
  require(wire::is_neighbour_discovery(packet, wire::upper_layer(packet)));
  return true;
}

}  // namespace ipoib
