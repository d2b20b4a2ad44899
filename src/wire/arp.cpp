// Hardware addresses have the length H:
//
//   0      2      4   5   6     8       8+H         12+H        12+2H       16+2H
//   | hrd  | pro  |hln|pln| op  | sender hw | sender IP | target hw | target IP |
//   |      |0x0800| H | 4 | 1,2 | H bytes   | 4 bytes   | H bytes   | 4 bytes   |
#include "wire/arp.hpp"

#include <cassert>

#include "wire/encapsulation.hpp"

namespace ipoib::wire {

namespace {

/// Number of the hardware in ARP: RFC 4391, 9.2 and RFC 826.
template <class Hardware>
constexpr std::uint16_t kHardwareType = 0;
template <>
constexpr std::uint16_t kHardwareType<HwAddress> = 32;
template <>
constexpr std::uint16_t kHardwareType<MacAddress> = 1;

void read(ByteReader& reader, HwAddress& address) {
  address = HwAddress::from_bytes(reader.array<HwAddress::kSize>());
}

void read(ByteReader& reader, MacAddress& address) {
  address = MacAddress(reader.array<MacAddress::kSize>());
}

std::optional<ArpOperation> operation_from(std::uint16_t value) {
  switch (static_cast<ArpOperation>(value)) {
    case ArpOperation::request:
    case ArpOperation::reply:
      return static_cast<ArpOperation>(value);
  }
  return std::nullopt;
}

}  // namespace

template <class Hardware>
std::optional<BasicArp<Hardware>> BasicArp<Hardware>::parse(ConstBytes packet) {
  ByteReader reader(packet);
  const bool is_ours = reader.u16() == kHardwareType<Hardware> &&
                       reader.u16() == static_cast<std::uint16_t>(EtherType::ipv4) &&
                       reader.u8() == Hardware::kSize && reader.u8() == Ipv4Address::kSize;
  if (!is_ours) return std::nullopt;
  const auto operation = operation_from(reader.u16());
  if (!operation) return std::nullopt;

  BasicArp arp;
  arp.operation = *operation;
  read(reader, arp.sender_hardware);
  arp.sender_protocol = Ipv4Address(reader.array<Ipv4Address::kSize>());
  read(reader, arp.target_hardware);
  arp.target_protocol = Ipv4Address(reader.array<Ipv4Address::kSize>());
  if (!reader.ok()) return std::nullopt;
  return arp;
}

template <class Hardware>
void BasicArp<Hardware>::emit(MutableBytes to) const {
  ByteWriter writer(to);
  writer.u16(kHardwareType<Hardware>);
  writer.u16(static_cast<std::uint16_t>(EtherType::ipv4));
  writer.u8(Hardware::kSize);
  writer.u8(Ipv4Address::kSize);
  writer.u16(static_cast<std::uint16_t>(operation));
  writer.bytes(sender_hardware.bytes());
  writer.bytes(sender_protocol.bytes());
  writer.bytes(target_hardware.bytes());
  writer.bytes(target_protocol.bytes());
  assert(writer.ok());
}

std::optional<MacAddress> reverse_request_sender(ConstBytes packet) {
  constexpr std::uint16_t kReverseRequest = 3;
  ByteReader reader(packet);
  const bool is_one = reader.u16() == kHardwareType<MacAddress> &&
                      reader.u16() == static_cast<std::uint16_t>(EtherType::ipv4) &&
                      reader.u8() == MacAddress::kSize && reader.u8() == Ipv4Address::kSize &&
                      reader.u16() == kReverseRequest;
  MacAddress sender;
  read(reader, sender);
  if (!is_one || packet.size() < EthernetArp::kSize) return std::nullopt;
  return sender;
}

template struct BasicArp<HwAddress>;
template struct BasicArp<MacAddress>;

}  // namespace ipoib::wire
