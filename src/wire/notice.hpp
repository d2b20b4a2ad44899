// Notices of the subnet (IBA 13.4.8.2) and subscriptions to them (IBA 13.4.8.3), as values.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"

namespace ipoib::wire {

/// Generic traps of subnet management that name a GID (IBA 14.2.5.1, table 131).
namespace trap {
inline constexpr std::uint16_t kInService = 64;
inline constexpr std::uint16_t kOutOfService = 65;
inline constexpr std::uint16_t kGroupCreated = 66;
inline constexpr std::uint16_t kGroupDeleted = 67;
}  // namespace trap

/// A generic notice about a GID, 80 bytes.
struct Notice {
  static constexpr std::size_t kSize = 80;
  static constexpr std::uint8_t kSubnetManagement = 3;
  static constexpr std::uint32_t kClassManager = 4;

  std::uint8_t type = kSubnetManagement;
  std::uint32_t producer_type = kClassManager;  ///< 24 bits
  std::uint16_t trap_number = 0;
  Lid issuer_lid;
  Gid gid;  ///< of traps 64 to 67
  Gid issuer_gid;

  /// Returns nullopt for a notice that is not generic.
  [[nodiscard]] static std::optional<Notice> parse(ConstBytes bytes);
  void emit(MutableBytes to) const;
  friend bool operator==(const Notice&, const Notice&) = default;
};

/// Subscribes to notices, or unsubscribes; 36 bytes.
struct InformInfo {
  static constexpr std::size_t kSize = 36;
  static constexpr std::uint16_t kAnyTrap = 0xffff;
  static constexpr std::uint16_t kAnyType = 0xffff;
  static constexpr std::uint32_t kAnyProducer = 0xffffff;
  static constexpr Lid kAnyLid{0xffff};

  Gid gid;  ///< source of the traps; zero: the LID range applies
  Lid lid_begin = kAnyLid;
  Lid lid_end;
  bool is_generic = true;
  bool subscribe = true;
  std::uint16_t type = kAnyType;
  std::uint16_t trap_number = kAnyTrap;
  Qpn qpn;                         ///< of the subscriber; only to unsubscribe
  std::uint8_t response_time = 0;  ///< 5 bits
  std::uint32_t producer_type = kAnyProducer;

  /// Whether the subscription is to notices like this one; ignores GID and LID range.
  [[nodiscard]] bool covers(const Notice& notice) const;
  [[nodiscard]] static std::optional<InformInfo> parse(ConstBytes bytes);
  void emit(MutableBytes to) const;
  friend bool operator==(const InformInfo&, const InformInfo&) = default;
};

}  // namespace ipoib::wire
