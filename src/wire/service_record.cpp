//   0            8     24      26         28      32    48     112
//   | ServiceID  | GID | P_Key | reserved | lease | key | name | data: 16 x 8, 8 x 16, 4 x 32,
//   |            |     |       |          |       |     |      | 2 x 64 bits
#include "wire/service_record.hpp"

#include <algorithm>
#include <cassert>

namespace ipoib::wire {

std::optional<ServiceRecord> ServiceRecord::parse(ConstBytes record) {
  ByteReader reader(record);
  ServiceRecord out;
  out.service_id = reader.u64();
  out.gid = Gid(reader.array<Gid::kSize>());
  out.pkey = PKey(reader.u16());
  reader.skip(2);
  out.lease = reader.u32();
  out.key = reader.array<kKeySize>();
  const auto name = reader.array<kNameSize>();
  std::ranges::copy(name, out.name.begin());
  out.data = reader.array<kDataSize>();
  if (!reader.ok()) return std::nullopt;
  return out;
}

void ServiceRecord::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u64(service_id);
  writer.bytes(gid.bytes());
  writer.u16(pkey.value());
  writer.zeros(2);
  writer.u32(lease);
  writer.bytes(key);
  for (const char c : name) writer.u8(static_cast<std::uint8_t>(c));
  writer.bytes(data);
  assert(writer.ok());
}

}  // namespace ipoib::wire
