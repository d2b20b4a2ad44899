// ClassPortInfo (IBA 13.4.8.1):
//
//   0      1       2      4                     8                     40                  72
//   | base | class | Mask | Mask2 27,           | redirect (32)       | trap (32)         |
//   |      |       |   16 | RespTimeValue 5     |                     |                   |
//
// and each of the two addresses:
//
//   0         16                                  20    22      24                    28       32
//   | GID 128 | class 8, SL 4, flow label 20      | LID | P_Key | hop limit 8, QP 24  | Q_Key |
#include "wire/class_port_info.hpp"

#include <cassert>

namespace ipoib::wire {

namespace {

constexpr std::uint32_t kFlowLabelMask = 0xfffff;
constexpr std::uint8_t kResponseTimeMask = 0x1f;

ClassPortInfo::Address parse_address(ByteReader& reader) {
  ClassPortInfo::Address address;
  address.gid = Gid(reader.array<Gid::kSize>());
  const std::uint32_t word = reader.u32();
  address.traffic_class = static_cast<std::uint8_t>(word >> 24);
  address.sl = ServiceLevel(static_cast<std::uint8_t>(word >> 20 & 0xf));
  address.flow_label = word & kFlowLabelMask;
  address.lid = Lid(reader.u16());
  address.pkey = PKey(reader.u16());
  address.hop_limit = reader.u8();
  address.qpn = Qpn(reader.u24());
  address.qkey = QKey(reader.u32());
  return address;
}

void emit_address(const ClassPortInfo::Address& address, ByteWriter& writer) {
  writer.bytes(address.gid.bytes());
  writer.u32(std::uint32_t{address.traffic_class} << 24 |
             (std::uint32_t{address.sl.value()} & 0xf) << 20 |
             (address.flow_label & kFlowLabelMask));
  writer.u16(address.lid.value());
  writer.u16(address.pkey.value());
  writer.u8(address.hop_limit);
  writer.u24(address.qpn.value());
  writer.u32(address.qkey.value());
}

}  // namespace

std::optional<ClassPortInfo> ClassPortInfo::parse(ConstBytes bytes) {
  ByteReader reader(bytes);
  ClassPortInfo info;
  info.base_version = reader.u8();
  info.class_version = reader.u8();
  info.capability_mask = reader.u16();
  const std::uint32_t word = reader.u32();
  info.capability_mask2 = word >> 5;
  info.response_time = static_cast<std::uint8_t>(word & kResponseTimeMask);
  info.redirect = parse_address(reader);
  info.trap = parse_address(reader);
  if (!reader.ok()) return std::nullopt;
  return info;
}

void ClassPortInfo::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u8(base_version);
  writer.u8(class_version);
  writer.u16(capability_mask);
  writer.u32(capability_mask2 << 5 | (response_time & kResponseTimeMask));
  emit_address(redirect, writer);
  emit_address(trap, writer);
  assert(writer.ok());
}

}  // namespace ipoib::wire
