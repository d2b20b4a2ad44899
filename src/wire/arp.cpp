// The packet of RFC 826 with the field sizes of RFC 4391, 9.2:
//
//   0      2      4   5   6     8            28         32           52         56
//   | hrd  | pro  |hln|pln| op  | sender hw  | sender IP | target hw | target IP |
//   | 32   |0x0800| 20| 4 | 1,2 | 20 bytes   | 4 bytes   | 20 bytes  | 4 bytes   |
#include "wire/arp.hpp"

#include <cassert>

#include "wire/encapsulation.hpp"

namespace ipoib::wire {

namespace {

std::optional<ArpOperation> operation_from(std::uint16_t value) {
  switch (static_cast<ArpOperation>(value)) {
    case ArpOperation::request:
    case ArpOperation::reply:
      return static_cast<ArpOperation>(value);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Arp> Arp::parse(ConstBytes packet) {
  ByteReader reader(packet);
  const bool is_ours = reader.u16() == kHardwareType &&
                       reader.u16() == static_cast<std::uint16_t>(EtherType::ipv4) &&
                       reader.u8() == HwAddress::kSize && reader.u8() == Ipv4Address::kSize;
  if (!is_ours) return std::nullopt;
  const auto operation = operation_from(reader.u16());
  if (!operation) return std::nullopt;

  Arp arp;
  arp.operation = *operation;
  arp.sender_hardware = HwAddress::from_bytes(reader.array<HwAddress::kSize>());
  arp.sender_protocol = Ipv4Address(reader.array<Ipv4Address::kSize>());
  arp.target_hardware = HwAddress::from_bytes(reader.array<HwAddress::kSize>());
  arp.target_protocol = Ipv4Address(reader.array<Ipv4Address::kSize>());
  if (!reader.ok()) return std::nullopt;
  return arp;
}

void Arp::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u16(kHardwareType);
  writer.u16(static_cast<std::uint16_t>(EtherType::ipv4));
  writer.u8(HwAddress::kSize);
  writer.u8(Ipv4Address::kSize);
  writer.u16(static_cast<std::uint16_t>(operation));
  writer.bytes(sender_hardware.bytes());
  writer.bytes(sender_protocol.bytes());
  writer.bytes(target_hardware.bytes());
  writer.bytes(target_protocol.bytes());
  assert(writer.ok());
}

}  // namespace ipoib::wire
