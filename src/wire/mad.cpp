// The common MAD header (IBA 13.4.3), followed by the RMPP and SA headers:
//
//   0            1         2              3        4        6          8     16          20
//   | base vers. | class   | class vers.  | method | status | specific | TID | attr, resv |
//   modifier | 24        25     26                27       28      32 | version | type | resp.
//   time, flags | status | data1 | data2 | 36       44            46       48             56 |
//   SM_Key | attr. offset | resv | component mask | records
#include "wire/mad.hpp"

#include <cassert>

namespace ipoib::wire {

namespace {
constexpr std::uint8_t kBaseVersion = 1;
constexpr std::uint8_t kSaClassVersion = 2;
}  // namespace

std::optional<MadHeader> MadHeader::parse(ConstBytes mad) {
  ByteReader reader(mad);
  MadHeader header;
  header.base_version = reader.u8();
  header.management_class = reader.u8();
  header.class_version = reader.u8();
  header.method = reader.u8();
  header.status = reader.u16();
  header.class_specific = reader.u16();
  header.transaction_id = reader.u64();
  header.attribute_id = reader.u16();
  reader.skip(2);
  header.attribute_modifier = reader.u32();
  if (!reader.ok() || header.base_version != kBaseVersion) return std::nullopt;
  return header;
}

void MadHeader::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u8(base_version);
  writer.u8(management_class);
  writer.u8(class_version);
  writer.u8(method);
  writer.u16(status);
  writer.u16(class_specific);
  writer.u64(transaction_id);
  writer.u16(attribute_id);
  writer.zeros(2);
  writer.u32(attribute_modifier);
  assert(writer.ok());
}

std::optional<RmppHeader> RmppHeader::parse(ConstBytes rmpp) {
  ByteReader reader(rmpp);
  RmppHeader header;
  header.version = reader.u8();
  const std::uint8_t type = reader.u8();
  const std::uint8_t time_and_flags = reader.u8();
  header.type = static_cast<RmppType>(type);
  header.response_time = time_and_flags >> 3;
  header.flags = time_and_flags & 0x07;
  header.status = reader.u8();
  header.data1 = reader.u32();
  header.data2 = reader.u32();
  if (!reader.ok() || type > static_cast<std::uint8_t>(RmppType::abort)) return std::nullopt;
  return header;
}

void RmppHeader::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u8(version);
  writer.u8(static_cast<std::uint8_t>(type));
  writer.u8(static_cast<std::uint8_t>(response_time << 3 | (flags & 0x07)));
  writer.u8(status);
  writer.u32(data1);
  writer.u32(data2);
  assert(writer.ok());
}

std::optional<SaHeader> SaHeader::parse(ConstBytes mad) {
  if (mad.size() < kSaHeaderSize) return std::nullopt;
  const auto common = MadHeader::parse(mad);
  const auto rmpp = RmppHeader::parse(mad.subspan(kMadHeaderSize));
  if (!common || !rmpp) return std::nullopt;
  if (common->management_class != mgmt_class::kSubnAdm) return std::nullopt;
  if (common->class_version != kSaClassVersion) return std::nullopt;

  ByteReader reader(mad.subspan(kMadHeaderSize + kRmppHeaderSize));
  SaHeader header;
  header.mad = *common;
  header.rmpp = *rmpp;
  header.sm_key = reader.u64();
  header.attribute_offset = reader.u16();
  reader.skip(2);
  header.component_mask = reader.u64();
  return header;
}

void SaHeader::emit(MutableBytes to) const {
  assert(to.size() >= kSaHeaderSize);
  mad.emit(to);
  rmpp.emit(to.subspan(kMadHeaderSize));
  ByteWriter writer(to.subspan(kMadHeaderSize + kRmppHeaderSize));
  writer.u64(sm_key);
  writer.u16(attribute_offset);
  writer.zeros(2);
  writer.u64(component_mask);
  assert(writer.ok());
}

}  // namespace ipoib::wire
