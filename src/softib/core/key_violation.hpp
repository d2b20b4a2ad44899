// Packets that a port has dropped because of their P_Key or Q_Key (IBA 10.9.4, 10.2.5).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "softib/core/fabric_types.hpp"
#include "softib/core/mad_packet.hpp"
#include "wire/packet.hpp"

namespace softib {

enum class CheckedKey : std::uint8_t { pkey, qkey };
inline constexpr std::array kCheckedKeys{CheckedKey::pkey, CheckedKey::qkey};

/// A packet with a wrong key.
struct KeyViolation {
  Lid slid;
  Lid dlid;
  std::uint32_t key = 0;
  ServiceLevel sl;
  Qpn source;  ///< 0: unknown
  Qpn destination;
  Gid sgid;  ///< zero: the packet has no GRH
  Gid dgid;
  friend bool operator==(const KeyViolation&, const KeyViolation&) = default;
};

/// The violation that a packet with these headers is; `source` is the queue pair that has sent it.
[[nodiscard]] inline KeyViolation key_violation(const ipoib::wire::Lrh& lrh,
                                                const std::optional<ipoib::wire::Grh>& grh,
                                                std::uint32_t key, Qpn source, Qpn destination) {
  KeyViolation violation{lrh.slid, lrh.dlid, key, lrh.sl, source, destination, {}, {}};
  if (grh) {
    violation.sgid = grh->sgid;
    violation.dgid = grh->dgid;
  }
  return violation;
}

/// The violation that a MAD is.
[[nodiscard]] inline KeyViolation key_violation(const MadPacket& packet, std::uint32_t key) {
  ipoib::wire::Lrh lrh;
  lrh.slid = packet.slid, lrh.dlid = packet.dlid, lrh.sl = packet.sl;
  return key_violation(lrh, packet.grh, key, packet.source, packet.destination);
}

/// Those of one kind at one port.
struct KeyViolations {
  std::uint64_t packets = 0;
  KeyViolation last{};  ///< if there are any
};

/// Those of one port, by CheckedKey.
class PortViolations {
 public:
  [[nodiscard]] KeyViolations& operator[](CheckedKey key) {
    return of_[static_cast<std::size_t>(key)];
  }
  [[nodiscard]] const KeyViolations& operator[](CheckedKey key) const {
    return of_[static_cast<std::size_t>(key)];
  }

 private:
  std::array<KeyViolations, kCheckedKeys.size()> of_{};
};

}  // namespace softib
