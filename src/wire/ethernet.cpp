// ARP, the packet of RFC 826:
//
//   0      2      4   5   6     8           14          18          24          28
//   | hrd  | pro  |hln|pln| op  | sender hw | sender IP | target hw | target IP |
//   | 1    |0x0800| 6 | 4 | 1,2 | 6 bytes   | 4 bytes   | 6 bytes   | 4 bytes   |
#include "wire/ethernet.hpp"

#include <cassert>

namespace ipoib::wire {

EthernetHeader EthernetHeader::parse(const std::uint8_t* from) {
  ByteReader reader({from, kSize});
  EthernetHeader header;
  header.destination = MacAddress(reader.array<MacAddress::kSize>());
  header.source = MacAddress(reader.array<MacAddress::kSize>());
  header.type = reader.u16();
  return header;
}

void EthernetHeader::emit(std::uint8_t* to) const {
  ByteWriter writer({to, kSize});
  writer.bytes(destination.bytes());
  writer.bytes(source.bytes());
  writer.u16(type);
}

std::optional<EthernetArp> EthernetArp::parse(ConstBytes packet) {
  ByteReader reader(packet);
  const bool is_ours = reader.u16() == kHardwareType &&
                       reader.u16() == static_cast<std::uint16_t>(EtherType::ipv4) &&
                       reader.u8() == MacAddress::kSize && reader.u8() == Ipv4Address::kSize;
  if (!is_ours) return std::nullopt;
  const auto operation = static_cast<ArpOperation>(reader.u16());
  if (operation != ArpOperation::request && operation != ArpOperation::reply) return std::nullopt;

  EthernetArp arp;
  arp.operation = operation;
  arp.sender_hardware = MacAddress(reader.array<MacAddress::kSize>());
  arp.sender_protocol = Ipv4Address(reader.array<Ipv4Address::kSize>());
  arp.target_hardware = MacAddress(reader.array<MacAddress::kSize>());
  arp.target_protocol = Ipv4Address(reader.array<Ipv4Address::kSize>());
  if (!reader.ok()) return std::nullopt;
  return arp;
}

void EthernetArp::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u16(kHardwareType);
  writer.u16(static_cast<std::uint16_t>(EtherType::ipv4));
  writer.u8(MacAddress::kSize);
  writer.u8(Ipv4Address::kSize);
  writer.u16(static_cast<std::uint16_t>(operation));
  writer.bytes(sender_hardware.bytes());
  writer.bytes(sender_protocol.bytes());
  writer.bytes(target_hardware.bytes());
  writer.bytes(target_protocol.bytes());
  assert(writer.ok());
}

MacAddress multicast_mac(Ipv4Address group) {
  constexpr std::uint64_t kPrefix = 0x0100'5e00'0000;
  constexpr std::uint32_t kLowBits = 0x007f'ffff;
  return MacAddress(kPrefix | (group.number() & kLowBits));
}

MacAddress multicast_mac(const Ipv6Address& group) {
  constexpr std::uint64_t kPrefix = 0x3333'0000'0000;
  constexpr std::size_t kLowBytes = 12;
  return MacAddress(kPrefix | load_be<std::uint32_t>(group.bytes().data() + kLowBytes));
}

}  // namespace ipoib::wire
