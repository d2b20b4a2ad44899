// MCMemberRecord (IBA 15.2.5.17):
//
//   0      16        32      36     38            39       40      42             43
//   | MGID | PortGID | Q_Key | MLID | sel 2,MTU 6 | TClass | P_Key | sel 2,rate 6 | sel 2,life 6 |
//   44                          48                    49                      52
//   | SL 4, Flow 20, HopLimit 8 | Scope 4,JoinState 4 | ProxyJoin 1, resv 23  |
#include "wire/mc_member_record.hpp"

#include <cassert>

#include "wire/selected.hpp"

namespace ipoib::wire {

std::optional<McMemberRecord> McMemberRecord::parse(ConstBytes record) {
  ByteReader reader(record);
  McMemberRecord member;
  member.mgid = Gid(reader.array<Gid::kSize>());
  member.port_gid = Gid(reader.array<Gid::kSize>());
  member.qkey = QKey(reader.u32());
  member.mlid = Lid(reader.u16());
  read_selected(reader, member.mtu_selector, member.mtu);
  member.traffic_class = reader.u8();
  member.pkey = PKey(reader.u16());
  read_selected(reader, member.rate_selector, member.rate);
  read_selected(reader, member.lifetime_selector, member.lifetime);
  const std::uint32_t route = reader.u32();
  member.sl = ServiceLevel(static_cast<std::uint8_t>(route >> 28));
  member.flow_label = route >> 8 & 0xfffff;
  member.hop_limit = static_cast<std::uint8_t>(route);
  const std::uint8_t scope_and_state = reader.u8();
  member.scope = scope_and_state >> 4;
  member.join_state = scope_and_state & 0x0f;
  member.proxy_join = (reader.u8() & 0x80) != 0;
  reader.skip(2);
  if (!reader.ok()) return std::nullopt;
  return member;
}

void McMemberRecord::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.bytes(mgid.bytes());
  writer.bytes(port_gid.bytes());
  writer.u32(qkey.value());
  writer.u16(mlid.value());
  write_selected(writer, mtu_selector, mtu);
  writer.u8(traffic_class);
  writer.u16(pkey.value());
  write_selected(writer, rate_selector, rate);
  write_selected(writer, lifetime_selector, lifetime);
  writer.u32(std::uint32_t{sl.value()} << 28 | (flow_label & 0xfffff) << 8 | hop_limit);
  writer.u8(static_cast<std::uint8_t>(scope << 4 | (join_state & 0x0f)));
  writer.u8(proxy_join ? 0x80 : 0);
  writer.zeros(2);
  assert(writer.ok());
}

}  // namespace ipoib::wire
