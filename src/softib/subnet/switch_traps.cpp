// The Notice (IBA 13.4.8.2), and its details for traps 128 and 259:
//
//   0              1          4      6        8                   10
//   | generic 1,   | producer | trap | issuer | toggle 1, count   | details
//   | type 7       |       24 |   16 | LID 16 | 15                |
//
//   128: | LID 16 | - |
//   259: | valid fields 16 | LID1 16 | LID2 16 | P_Key 16 | SL 4, - 4, QP1 24 | - 8, QP2 24 |
//        | GID1 128 | GID2 128 | LID of the switch 16 | port 8 | - |
#include "softib/subnet/switch_traps.hpp"

#include <algorithm>
#include <utility>

#include "softib/subnet/smp.hpp"

namespace softib::subnet {

namespace {
constexpr std::uint16_t kLinkStateChanged = 128;
constexpr std::uint16_t kBadPKeyAtSwitch = 259;
constexpr std::uint8_t kGenericUrgent = 0x81;
constexpr std::uint8_t kGenericSecurity = 0x82;
constexpr std::uint32_t kProducerSwitch = 2;
/// Valid fields of trap 259: both LIDs, P_Key, SL; and the QPs.
constexpr std::uint16_t kValidHeaders = 0x0f;
constexpr std::uint16_t kValidQps = 0x30;

/// A trap without its details, which `writer` then is for.
ipoib::ByteWriter begin(MadPacket& packet, const PortAttributes& port, std::uint64_t transaction_id,
                        std::uint8_t type, std::uint16_t trap) {
  packet.slid = port.lid;
  packet.dlid = port.sm_lid;
  packet.sl = port.sm_sl;
  ipoib::wire::MadHeader header;
  header.management_class = ipoib::wire::mgmt_class::kSubnLid;
  header.class_version = kSmpClassVersion;
  header.method = smp_method::kTrap;
  header.attribute_id = ipoib::wire::attribute::kNotice;
  header.transaction_id = transaction_id;
  header.emit(packet.mad);
  ipoib::ByteWriter writer(ipoib::MutableBytes(packet.mad).subspan(kSmpDataOffset));
  writer.u8(type);
  writer.u24(kProducerSwitch);
  writer.u16(trap);
  writer.u16(port.lid.value());
  writer.zeros(2);
  return writer;
}
}  // namespace

void SwitchTraps::start(Trap& trap) {
  number_ = (number_ + 1) % (1U << kNumberBits);
  trap = {number_, ipoib::TimePoint()};
}

void SwitchTraps::links_changed() { start(links_); }

void SwitchTraps::pkey_violated(SwitchPort port, const PacketHeaders& headers) {
  violated_port_ = port;
  violation_ = headers;
  if (pkeys_.due == ipoib::kNever) start(pkeys_);
}

bool SwitchTraps::repress(std::uint64_t transaction_id) {
  for (Trap* const trap : all()) {
    if (trap->due == ipoib::kNever || transaction_id != this->transaction_id(*trap)) continue;
    trap->due = ipoib::kNever;
    return true;
  }
  return false;
}

ipoib::TimePoint SwitchTraps::next_deadline() const { return std::min(links_.due, pkeys_.due); }

std::vector<MadPacket> SwitchTraps::on_time(const PortAttributes& port, ipoib::TimePoint now) {
  const bool has_sm = ipoib::is_unicast(port.lid) && ipoib::is_unicast(port.sm_lid);
  std::vector<MadPacket> due;
  for (Trap* const trap : all()) {
    if (now < trap->due) continue;
    trap->due = has_sm ? now + kTrapInterval : ipoib::kNever;
    if (has_sm) due.push_back(trap == &links_ ? links_notice(port) : pkey_notice(port));
  }
  return due;
}

MadPacket SwitchTraps::links_notice(const PortAttributes& port) const {
  MadPacket packet;
  auto writer = begin(packet, port, transaction_id(links_), kGenericUrgent, kLinkStateChanged);
  writer.u16(port.lid.value());
  return packet;
}

MadPacket SwitchTraps::pkey_notice(const PortAttributes& port) const {
  MadPacket packet;
  auto writer = begin(packet, port, transaction_id(pkeys_), kGenericSecurity, kBadPKeyAtSwitch);
  const bool has_qps = violation_.destination != Qpn();
  writer.u16(has_qps ? std::uint16_t{kValidHeaders | kValidQps} : kValidHeaders);
  writer.u16(violation_.slid.value());
  writer.u16(violation_.dlid.value());
  writer.u16(violation_.pkey.value());
  writer.u8(static_cast<std::uint8_t>(violation_.sl.value() << 4));
  writer.u24(violation_.source.value());
  writer.u8(0);
  writer.u24(violation_.destination.value());
  writer.zeros(32);  // the GIDs
  writer.u16(port.lid.value());
  writer.u8(static_cast<std::uint8_t>(std::min(violated_port_, SwitchPort{255})));
  return packet;
}

}  // namespace softib::subnet
