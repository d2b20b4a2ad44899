// PortInfo and PortInfoRecord.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"

namespace ipoib::wire {

/// PortInfo (IBA 14.2.5.6), 64 bytes: the fields that a UD subnet without routing uses.
struct PortInfo {
  static constexpr std::size_t kSize = 64;
  /// What an SM writes about lanes, flow control and times.
  struct Tuning {
    std::uint16_t m_key_lease = 0;       ///< seconds
    std::uint8_t link_down_default = 2;  ///< LinkDownDefaultState: 1 sleep, 2 polling
    std::uint8_t vl_high_limit = 0;
    std::uint8_t vl_stall_count = 0;         ///< 3 bits
    std::uint8_t hoq_life = 0;               ///< 5 bits
    std::uint8_t subnet_timeout = 0;         ///< 4.096 us * 2^n, 5 bits
    std::uint8_t local_physical_errors = 0;  ///< threshold, 4 bits
    std::uint8_t overrun_errors = 0;         ///< threshold, 4 bits
    friend bool operator==(const Tuning&, const Tuning&) = default;
  };
  std::uint64_t m_key = 0;
  std::uint64_t gid_prefix = Gid::kLinkLocalPrefix;
  Lid lid;
  Lid sm_lid;
  std::uint32_t capability_mask = 0;
  std::uint8_t local_port = 1;
  std::uint8_t link_width_enabled = 0;
  std::uint8_t link_width_supported = 0;
  std::uint8_t link_width_active = 0;
  std::uint8_t link_speed_supported = 0;
  std::uint8_t port_state = 0;        ///< 1 down, 2 init, 3 armed, 4 active
  std::uint8_t physical_state = 0;    ///< 3 disabled, 5 link up
  std::uint8_t m_key_protection = 0;  ///< 2 bits (IBA 14.2.4.1)
  std::uint8_t lmc = 0;
  std::uint8_t link_speed_active = 0;
  std::uint8_t link_speed_enabled = 0;
  std::uint8_t neighbor_mtu = 0;  ///< code
  ServiceLevel sm_sl;
  std::uint8_t vl_capability = 0;
  std::uint8_t vl_arbitration_high_cap = 0;  ///< entries of the tables of VL arbitration
  std::uint8_t vl_arbitration_low_cap = 0;
  std::uint8_t mtu_capability = 0;   ///< code
  std::uint8_t operational_vls = 0;  ///< code
  /// PartitionEnforcementInbound and -Outbound, of a switch's port.
  bool enforces_inbound = false;
  bool enforces_outbound = false;
  std::uint16_t pkey_violations = 0;
  std::uint16_t qkey_violations = 0;
  std::uint8_t guid_capability = 1;
  bool client_reregister = false;
  Tuning tuning;

  [[nodiscard]] static std::optional<PortInfo> parse(ConstBytes bytes);
  void emit(MutableBytes to) const;
  friend bool operator==(const PortInfo&, const PortInfo&) = default;
};

/// Mb/s of a link with this LinkWidthActive and LinkSpeedActive. Bits 16, 32, ... of the speed are
/// those of LinkSpeedExtActive, as in verbs. Returns 0 unless each has exactly one known bit.
[[nodiscard]] std::uint32_t link_mbps(std::uint8_t width, std::uint8_t speed);

/// PortInfoRecord (IBA 15.2.5.3), 68 bytes: EndportLID, port number, options, PortInfo.
struct PortInfoRecord {
  static constexpr std::size_t kSize = 68;
  enum Mask : std::uint64_t { kLid = 1ULL << 0, kPort = 1ULL << 1 };
  Lid lid;
  std::uint8_t port = 1;
  PortInfo info;

  [[nodiscard]] static std::optional<PortInfoRecord> parse(ConstBytes record);
  void emit(MutableBytes to) const;
  friend bool operator==(const PortInfoRecord&, const PortInfoRecord&) = default;
};

using PortTable = std::vector<PortInfoRecord>;

}  // namespace ipoib::wire
