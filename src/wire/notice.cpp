// Notice (IBA 13.4.8.2), generic, with the details of traps 64 to 67 (IBA 14.2.5.1):
//
//   0              1          4      6        8                   10               64       80
//   | generic 1,   | producer | trap | issuer | toggle 1, count   | details 54:    | issuer |
//   | type 7       |       24 |   16 | LID 16 | 15                | - 6, GID 16, - | GID    |
//
// InformInfo (IBA 13.4.8.3):
//
//   0     16      18    20  22        23          24     26     28                 32  33       36
//   | GID | begin | end | - | generic | subscribe | type | trap | QPN 24, - 3,     | - | producer |
//   |     | LID   | LID |   |         |           |      |      | RespTimeValue 5  |   |       24 |
#include "wire/notice.hpp"

#include <cassert>

namespace ipoib::wire {

namespace {
constexpr std::uint8_t kGenericBit = 0x80;
constexpr std::size_t kBeforeGid = 6;
constexpr std::size_t kAfterGid = 54 - kBeforeGid - Gid::kSize;
}  // namespace

std::optional<Notice> Notice::parse(ConstBytes bytes) {
  ByteReader reader(bytes);
  Notice notice;
  const std::uint8_t type = reader.u8();
  notice.type = type & 0x7f;
  notice.producer_type = reader.u24();
  notice.trap_number = reader.u16();
  notice.issuer_lid = Lid(reader.u16());
  reader.skip(2 + kBeforeGid);
  notice.gid = Gid(reader.array<Gid::kSize>());
  reader.skip(kAfterGid);
  notice.issuer_gid = Gid(reader.array<Gid::kSize>());
  if (!reader.ok() || (type & kGenericBit) == 0) return std::nullopt;
  return notice;
}

void Notice::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u8(static_cast<std::uint8_t>(kGenericBit | type));
  writer.u24(producer_type);
  writer.u16(trap_number);
  writer.u16(issuer_lid.value());
  writer.zeros(2 + kBeforeGid);
  writer.bytes(gid.bytes());
  writer.zeros(kAfterGid);
  writer.bytes(issuer_gid.bytes());
  assert(writer.ok());
}

bool InformInfo::covers(const Notice& notice) const {
  return is_generic && (type == kAnyType || type == notice.type) &&
         (trap_number == kAnyTrap || trap_number == notice.trap_number) &&
         (producer_type == kAnyProducer || producer_type == notice.producer_type);
}

std::optional<InformInfo> InformInfo::parse(ConstBytes bytes) {
  ByteReader reader(bytes);
  InformInfo info;
  info.gid = Gid(reader.array<Gid::kSize>());
  info.lid_begin = Lid(reader.u16());
  info.lid_end = Lid(reader.u16());
  reader.skip(2);
  info.is_generic = reader.u8() != 0;
  info.subscribe = reader.u8() != 0;
  info.type = reader.u16();
  info.trap_number = reader.u16();
  info.qpn = Qpn(reader.u24());
  info.response_time = reader.u8() & 0x1f;
  reader.skip(1);
  info.producer_type = reader.u24();
  if (!reader.ok()) return std::nullopt;
  return info;
}

void InformInfo::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.bytes(gid.bytes());
  writer.u16(lid_begin.value());
  writer.u16(lid_end.value());
  writer.zeros(2);
  writer.u8(is_generic ? 1 : 0);
  writer.u8(subscribe ? 1 : 0);
  writer.u16(type);
  writer.u16(trap_number);
  writer.u24(qpn.value());
  writer.u8(response_time & 0x1f);
  writer.zeros(1);
  writer.u24(producer_type);
  assert(writer.ok());
}

}  // namespace ipoib::wire
