// ClassPortInfo: capabilities of a management class on a port, and the address that serves it.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "wire/mad.hpp"

namespace ipoib::wire {

/// ClassPortInfo (IBA 13.4.8.1), 72 bytes.
struct ClassPortInfo {
  static constexpr std::size_t kSize = 72;

  /// The address that serves a class, or that its traps are sent to.
  struct Address {
    Gid gid;
    std::uint8_t traffic_class = 0;
    ServiceLevel sl;
    std::uint32_t flow_label = 0;  ///< 20 bits
    Lid lid;
    PKey pkey;
    std::uint8_t hop_limit = 0;  ///< for traps only
    Qpn qpn;
    QKey qkey;
    friend bool operator==(const Address&, const Address&) = default;
  };

  std::uint8_t base_version = 1;
  std::uint8_t class_version = 2;
  std::uint16_t capability_mask = 0;
  std::uint32_t capability_mask2 = 0;  ///< 27 bits
  std::uint8_t response_time = 0;      ///< 5 bits: 4.096 us * 2^n
  Address redirect;
  Address trap;

  [[nodiscard]] static std::optional<ClassPortInfo> parse(ConstBytes bytes);
  void emit(MutableBytes to) const;
  friend bool operator==(const ClassPortInfo&, const ClassPortInfo&) = default;
};

}  // namespace ipoib::wire
