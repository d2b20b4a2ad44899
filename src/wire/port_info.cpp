// PortInfo (IBA 14.2.5.6). Fields of 4 bits share a byte, the first in the high half:
//
//    0 M_Key                        | 8 GidPrefix              | 16 LID        | 18 SM LID
//   20 CapabilityMask               | 24 -                     | 26 M_Key lease
//   28 local port                   | 29 width enabled         | 30 supported  | 31 active
//   32 speed supported, state       | 33 physical state, LinkDownDefaultState
//   34 M_Key protection 2, -, LMC 3 | 35 speed active, enabled | 36 neighbour MTU, SM SL
//   37 VLCap, -                     | 38 VL high limit         | 39 entries of high, 40 of low
//   priority 41 -, MTU capability            | 42 stall 3, HOQ life 5   | 43 VLs in use, P_Key
//   checks | 44 - | 50 GUIDs                 | 51 reregister 1, -, SubnetTimeOut 5 52 - | 53
//   thresholds of errors | 54 -
//
// PortInfoRecord (IBA 15.2.5.3):  | EndportLID 2 | port 1 | options 1 | PortInfo 64 |
#include "wire/port_info.hpp"

#include <array>
#include <bit>
#include <cassert>
#include <span>

namespace ipoib::wire {

namespace {

constexpr std::uint8_t high(std::uint8_t byte) { return byte >> 4; }
constexpr std::uint8_t low(std::uint8_t byte) { return byte & 0x0f; }
constexpr std::uint8_t halves(std::uint8_t upper, std::uint8_t lower) {
  return static_cast<std::uint8_t>(upper << 4 | (lower & 0x0f));
}

/// Of the four enforcements, in the byte with OperationalVLs.
constexpr std::uint8_t kInboundBit = 8;
constexpr std::uint8_t kOutboundBit = 4;

/// Lanes of a width, and Mb/s of a lane, by bit number (FDR10 has the rate of QDR).
constexpr std::array<std::uint32_t, 5> kLanes{1, 4, 8, 12, 2};
constexpr std::array<std::uint32_t, 8> kLaneMbps{2'500,  5'000,  10'000, 10'000,
                                                 14'000, 25'000, 50'000, 100'000};

std::uint32_t by_bit(std::span<const std::uint32_t> table, std::uint8_t code) {
  const auto bit = static_cast<std::size_t>(std::countr_zero(code));
  return std::has_single_bit(code) && bit < table.size() ? table[bit] : 0;
}

}  // namespace

std::uint32_t link_mbps(std::uint8_t width, std::uint8_t speed) {
  return by_bit(kLanes, width) * by_bit(kLaneMbps, speed);
}

std::optional<PortInfo> PortInfo::parse(ConstBytes bytes) {
  ByteReader reader(bytes);
  PortInfo info;
  info.m_key = reader.u64();
  info.gid_prefix = reader.u64();
  info.lid = Lid(reader.u16());
  info.sm_lid = Lid(reader.u16());
  info.capability_mask = reader.u32();
  reader.skip(2);
  info.tuning.m_key_lease = reader.u16();
  info.local_port = reader.u8();
  info.link_width_enabled = reader.u8();
  info.link_width_supported = reader.u8();
  info.link_width_active = reader.u8();
  const std::uint8_t speed_and_state = reader.u8();
  info.link_speed_supported = high(speed_and_state);
  info.port_state = low(speed_and_state);
  const std::uint8_t physical = reader.u8();
  info.physical_state = high(physical);
  info.tuning.link_down_default = low(physical);
  const std::uint8_t protection_and_lmc = reader.u8();
  info.m_key_protection = protection_and_lmc >> 6;
  info.lmc = protection_and_lmc & 0x07;
  const std::uint8_t speeds = reader.u8();
  info.link_speed_active = high(speeds);
  info.link_speed_enabled = low(speeds);
  const std::uint8_t mtu_and_sl = reader.u8();
  info.neighbor_mtu = high(mtu_and_sl);
  info.sm_sl = ServiceLevel(low(mtu_and_sl));
  info.vl_capability = high(reader.u8());
  info.tuning.vl_high_limit = reader.u8();
  info.vl_arbitration_high_cap = reader.u8();
  info.vl_arbitration_low_cap = reader.u8();
  info.mtu_capability = low(reader.u8());
  const std::uint8_t stall_and_life = reader.u8();
  info.tuning.vl_stall_count = stall_and_life >> 5;
  info.tuning.hoq_life = stall_and_life & 0x1f;
  const std::uint8_t vls_and_enforcement = reader.u8();
  info.operational_vls = high(vls_and_enforcement);
  info.enforces_inbound = (vls_and_enforcement & kInboundBit) != 0;
  info.enforces_outbound = (vls_and_enforcement & kOutboundBit) != 0;
  reader.skip(2);
  info.pkey_violations = reader.u16();
  info.qkey_violations = reader.u16();
  info.guid_capability = reader.u8();
  const std::uint8_t reregister_and_timeout = reader.u8();
  info.client_reregister = (reregister_and_timeout & 0x80) != 0;
  info.tuning.subnet_timeout = reregister_and_timeout & 0x1f;
  reader.skip(1);
  const std::uint8_t thresholds = reader.u8();
  info.tuning.local_physical_errors = high(thresholds);
  info.tuning.overrun_errors = low(thresholds);
  reader.skip(10);
  if (!reader.ok()) return std::nullopt;
  return info;
}

void PortInfo::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u64(m_key);
  writer.u64(gid_prefix);
  writer.u16(lid.value());
  writer.u16(sm_lid.value());
  writer.u32(capability_mask);
  writer.zeros(2);
  writer.u16(tuning.m_key_lease);
  writer.u8(local_port);
  writer.u8(link_width_enabled);
  writer.u8(link_width_supported);
  writer.u8(link_width_active);
  writer.u8(halves(link_speed_supported, port_state));
  writer.u8(halves(physical_state, tuning.link_down_default));
  writer.u8(static_cast<std::uint8_t>(m_key_protection << 6 | (lmc & 0x07)));
  writer.u8(halves(link_speed_active, link_speed_enabled));
  writer.u8(halves(neighbor_mtu, sm_sl.value()));
  writer.u8(halves(vl_capability, 0));
  writer.u8(tuning.vl_high_limit);
  writer.u8(vl_arbitration_high_cap);
  writer.u8(vl_arbitration_low_cap);
  writer.u8(halves(0, mtu_capability));
  writer.u8(static_cast<std::uint8_t>(tuning.vl_stall_count << 5 | (tuning.hoq_life & 0x1f)));
  writer.u8(
      halves(operational_vls, static_cast<std::uint8_t>((enforces_inbound ? kInboundBit : 0) |
                                                        (enforces_outbound ? kOutboundBit : 0))));
  writer.zeros(2);
  writer.u16(pkey_violations);
  writer.u16(qkey_violations);
  writer.u8(guid_capability);
  writer.u8(
      static_cast<std::uint8_t>((client_reregister ? 0x80 : 0) | (tuning.subnet_timeout & 0x1f)));
  writer.zeros(1);
  writer.u8(halves(tuning.local_physical_errors, tuning.overrun_errors));
  writer.zeros(10);
  assert(writer.ok());
}

std::optional<PortInfoRecord> PortInfoRecord::parse(ConstBytes record) {
  ByteReader reader(record);
  PortInfoRecord out;
  out.lid = Lid(reader.u16());
  out.port = reader.u8();
  reader.skip(1);
  const auto info = PortInfo::parse(reader.take(PortInfo::kSize));
  if (!info) return std::nullopt;
  out.info = *info;
  return out;
}

void PortInfoRecord::emit(MutableBytes to) const {
  assert(to.size() >= kSize);
  ByteWriter writer(to);
  writer.u16(lid.value());
  writer.u8(port);
  writer.u8(0);
  info.emit(to.subspan(writer.written()));
}

}  // namespace ipoib::wire
