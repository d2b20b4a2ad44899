// ARP (RFC 826) for IPv4: over InfiniBand (RFC 4391, 9.2) with 20-byte hardware addresses, 56
// bytes; over Ethernet with 6-byte hardware addresses, 28 bytes.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"

namespace ipoib::wire {

enum class ArpOperation : std::uint16_t { request = 1, reply = 2 };

/// An ARP message; `Hardware` is HwAddress or MacAddress.
template <class Hardware>
struct BasicArp {
  static constexpr std::size_t kSize = 8 + 2 * (Hardware::kSize + Ipv4Address::kSize);

  ArpOperation operation = ArpOperation::request;
  Hardware sender_hardware;
  Ipv4Address sender_protocol;
  Hardware target_hardware;
  Ipv4Address target_protocol;

  /// Returns nullopt unless hardware type, protocol, lengths and operation are those of IPv4 over
  /// this hardware.
  [[nodiscard]] static std::optional<BasicArp> parse(ConstBytes packet);
  /// Writes kSize bytes; `to` has room for them.
  void emit(MutableBytes to) const;
  friend bool operator==(const BasicArp&, const BasicArp&) = default;
};

using Arp = BasicArp<HwAddress>;
using EthernetArp = BasicArp<MacAddress>;

/// The sender's hardware address of a reverse request (RFC 903) over Ethernet, which has the format
/// of ARP; nullopt if it is not one.
[[nodiscard]] std::optional<MacAddress> reverse_request_sender(ConstBytes packet);

}  // namespace ipoib::wire
