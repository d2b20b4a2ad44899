// ARP over InfiniBand (RFC 826; RFC 4391, 9.2): hardware type 32, 20-byte addresses, 56 bytes.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::wire {

enum class ArpOperation : std::uint16_t { request = 1, reply = 2 };

struct Arp {
  static constexpr std::size_t kSize = 56;
  static constexpr std::uint16_t kHardwareType = 32;

  ArpOperation operation = ArpOperation::request;
  HwAddress sender_hardware;
  Ipv4Address sender_protocol;
  HwAddress target_hardware;
  Ipv4Address target_protocol;

  /// Returns nullopt unless hardware type, protocol, lengths and operation are those of IPv4 over
  /// InfiniBand.
  [[nodiscard]] static std::optional<Arp> parse(ConstBytes packet);
  /// Writes kSize bytes; `to` has room for them.
  void emit(MutableBytes to) const;
  friend bool operator==(const Arp&, const Arp&) = default;
};

}  // namespace ipoib::wire
