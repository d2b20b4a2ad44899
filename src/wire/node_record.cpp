// NodeInfo (IBA 14.2.5.3):
//
//   0          1           2      3       4             12       20       28
//   | base 1  | class 1   | type | ports | system GUID | node G. | port G. | partition capacity |
//   30       32         36           37          40
//   | device | revision | local port | vendor 24 |
//
// NodeRecord (IBA 15.2.5.2):  | LID 2, resv 2 | NodeInfo 40 | NodeDescription 64 |
#include "wire/node_record.hpp"

#include <cassert>

namespace ipoib::wire {

std::optional<NodeInfo> NodeInfo::parse(ConstBytes bytes) {
  ByteReader reader(bytes);
  NodeInfo node;
  reader.skip(2);
  node.type = reader.u8();
  node.ports = reader.u8();
  node.system_image_guid = Guid(reader.u64());
  node.node_guid = Guid(reader.u64());
  node.port_guid = Guid(reader.u64());
  node.partition_capacity = reader.u16();
  node.device_id = reader.u16();
  node.revision = reader.u32();
  node.local_port = reader.u8();
  node.vendor_id = reader.u24();
  if (!reader.ok()) return std::nullopt;
  return node;
}

void NodeInfo::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u8(1);
  writer.u8(1);
  writer.u8(type);
  writer.u8(ports);
  writer.u64(system_image_guid.value());
  writer.u64(node_guid.value());
  writer.u64(port_guid.value());
  writer.u16(partition_capacity);
  writer.u16(device_id);
  writer.u32(revision);
  writer.u8(local_port);
  writer.u24(vendor_id);
  assert(writer.ok());
}

std::optional<NodeRecord> NodeRecord::parse(ConstBytes record) {
  ByteReader reader(record);
  NodeRecord out;
  out.lid = Lid(reader.u16());
  reader.skip(2);
  const auto node = NodeInfo::parse(reader.take(NodeInfo::kSize));
  const auto description = reader.take(kDescriptionSize);
  if (!node || !reader.ok()) return std::nullopt;
  out.node = *node;
  std::copy(description.begin(), description.end(), out.description.begin());
  return out;
}

void NodeRecord::emit(MutableBytes to) const {
  std::array<std::uint8_t, NodeInfo::kSize> info;
  node.emit(info);
  ByteWriter writer(to);
  writer.u16(lid.value());
  writer.zeros(2);
  writer.bytes(info);
  for (const char c : description) writer.u8(static_cast<std::uint8_t>(c));
  assert(writer.ok());
}

}  // namespace ipoib::wire
