#include "wire/ethernet.hpp"

#include "ipoib/bytes.hpp"

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

std::optional<VlanTag> VlanTag::parse(ConstBytes frame) {
  constexpr std::uint16_t kVlan = 0x0fff;
  constexpr std::uint16_t kDropEligible = 0x1000;
  constexpr unsigned kPriorityShift = 13;
  if (frame.size() < EthernetHeader::kSize + kSize) return std::nullopt;
  ByteReader reader(frame.subspan(kOffset));
  if (reader.u16() != kType) return std::nullopt;
  const std::uint16_t control = reader.u16();
  return VlanTag{.priority = static_cast<std::uint8_t>(control >> kPriorityShift),
                 .drop_eligible = (control & kDropEligible) != 0,
                 .vlan = VlanId(control & kVlan)};
}

void VlanTag::emit(std::uint8_t* to) const {
  ByteWriter writer({to, kSize});
  writer.u16(kType);
  writer.u16(static_cast<std::uint16_t>((priority << 13U) | (drop_eligible ? 0x1000U : 0U) |
                                        vlan.value()));
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
