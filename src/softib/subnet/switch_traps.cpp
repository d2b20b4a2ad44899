// The Notice (IBA 13.4.8.2) of a trap 128:
//
//   0              1          4      6        8                   10        12
//   | generic 1,   | producer | trap | issuer | toggle 1, count   | the     | -
//   | type 7       |       24 |   16 | LID 16 | 15                | LID 16  |
#include "softib/subnet/switch_traps.hpp"

#include <utility>

#include "softib/subnet/smp.hpp"

namespace softib::subnet {

namespace {
constexpr std::uint16_t kLinkStateChanged = 128;
constexpr std::uint8_t kGenericUrgent = 0x81;
constexpr std::uint32_t kProducerSwitch = 2;
}  // namespace

void SwitchTraps::links_changed() {
  number_ = (number_ + 1) % (1U << kNumberBits);
  due_ = ipoib::TimePoint();
}

bool SwitchTraps::repress(std::uint64_t transaction_id) {
  if (due_ == ipoib::kNever || transaction_id != this->transaction_id()) return false;
  due_ = ipoib::kNever;
  return true;
}

std::optional<MadPacket> SwitchTraps::on_time(const PortAttributes& port, ipoib::TimePoint now) {
  if (now < due_) return std::nullopt;
  const bool has_sm = ipoib::is_unicast(port.lid) && ipoib::is_unicast(port.sm_lid);
  due_ = has_sm ? now + kTrapInterval : ipoib::kNever;
  if (!has_sm) return std::nullopt;
  MadPacket packet;
  packet.slid = port.lid;
  packet.dlid = port.sm_lid;
  packet.sl = port.sm_sl;
  ipoib::wire::MadHeader header;
  header.management_class = ipoib::wire::mgmt_class::kSubnLid;
  header.class_version = kSmpClassVersion;
  header.method = smp_method::kTrap;
  header.attribute_id = ipoib::wire::attribute::kNotice;
  header.transaction_id = transaction_id();
  header.emit(packet.mad);
  ipoib::ByteWriter writer(ipoib::MutableBytes(packet.mad).subspan(kSmpDataOffset));
  writer.u8(kGenericUrgent);
  writer.u24(kProducerSwitch);
  writer.u16(kLinkStateChanged);
  writer.u16(port.lid.value());
  writer.zeros(2);
  writer.u16(port.lid.value());
  return packet;
}

}  // namespace softib::subnet
