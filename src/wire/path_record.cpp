// PathRecord (IBA 15.2.5.16):
//
//   0           8      24     40     42     44                      48       49
//   | ServiceID | DGID | SGID | DLID | SLID |Raw 1,- 3,Flow 20,Hop 8| TClass | Rev 1,NumbPath 7 |
//   50      52                54           55            56                57           58     64
//   | P_Key | QoS 12, SL 4   | sel 2,MTU 6| sel 2,rate 6| sel 2,lifetime 6| Preference | resv |
#include "wire/path_record.hpp"

#include <cassert>

#include "wire/selected.hpp"

namespace ipoib::wire {

std::optional<PathRecord> PathRecord::parse(ConstBytes record) {
  ByteReader reader(record);
  PathRecord path;
  path.service_id = reader.u64();
  path.dgid = Gid(reader.array<Gid::kSize>());
  path.sgid = Gid(reader.array<Gid::kSize>());
  path.dlid = Lid(reader.u16());
  path.slid = Lid(reader.u16());
  const std::uint32_t route = reader.u32();
  path.raw_traffic = (route >> 31) != 0;
  path.flow_label = route >> 8 & 0xfffff;
  path.hop_limit = static_cast<std::uint8_t>(route);
  path.traffic_class = reader.u8();
  const std::uint8_t paths = reader.u8();
  path.reversible = (paths & 0x80) != 0;
  path.numb_path = paths & 0x7f;
  path.pkey = PKey(reader.u16());
  const std::uint16_t quality = reader.u16();
  path.qos_class = quality >> 4;
  path.sl = ServiceLevel(quality & 0x0f);
  read_selected(reader, path.mtu_selector, path.mtu);
  read_selected(reader, path.rate_selector, path.rate);
  read_selected(reader, path.lifetime_selector, path.lifetime);
  path.preference = reader.u8();
  reader.skip(6);
  if (!reader.ok()) return std::nullopt;
  return path;
}

void PathRecord::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u64(service_id);
  writer.bytes(dgid.bytes());
  writer.bytes(sgid.bytes());
  writer.u16(dlid.value());
  writer.u16(slid.value());
  writer.u32((raw_traffic ? 1U << 31 : 0U) | (flow_label & 0xfffff) << 8 | hop_limit);
  writer.u8(traffic_class);
  writer.u8(static_cast<std::uint8_t>((reversible ? 0x80 : 0) | (numb_path & 0x7f)));
  writer.u16(pkey.value());
  writer.u16(static_cast<std::uint16_t>(qos_class << 4 | (sl.value() & 0x0f)));
  write_selected(writer, mtu_selector, mtu);
  write_selected(writer, rate_selector, rate);
  write_selected(writer, lifetime_selector, lifetime);
  writer.u8(preference);
  writer.zeros(6);
  assert(writer.ok());
}

}  // namespace ipoib::wire
