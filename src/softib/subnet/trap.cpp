// The Notice (IBA 13.4.8.2):
//
//   0              1          4      6        8                   10
//   | generic 1,   | producer | trap | issuer | toggle 1, count   | details
//   | type 7       |       24 |   16 | LID 16 | 15                |
#include "softib/subnet/trap.hpp"

#include "softib/subnet/smp.hpp"

namespace softib::subnet {

namespace {
constexpr unsigned kNumberBits = 19;
constexpr std::uint64_t kNodeBit = std::uint64_t{1} << 31;
static_assert(kMaxSwitches <= 1U << (31 - kNumberBits));
static_assert(kMaxNodes <= 1U << (31 - kNumberBits));
}  // namespace

TrapTransactions TrapTransactions::of_switch(SwitchIndex index) {
  return TrapTransactions(std::uint64_t{index} << kNumberBits);
}

TrapTransactions TrapTransactions::of_node(NodeIndex index) {
  return TrapTransactions(kNodeBit | std::uint64_t{index} << kNumberBits);
}

void TrapTransactions::start(Trap& trap) {
  number_ = (number_ + 1) % (1U << kNumberBits);
  trap = {number_, ipoib::TimePoint()};
}

bool TrapTransactions::repress(Trap& trap, std::uint64_t transaction_id) const {
  if (trap.due == ipoib::kNever || transaction_id != id(trap)) return false;
  trap.due = ipoib::kNever;
  return true;
}

bool has_sm(const PortAttributes& port) {
  return ipoib::is_unicast(port.lid) && ipoib::is_unicast(port.sm_lid);
}

bool take_due(Trap& trap, const PortAttributes& port, ipoib::TimePoint now) {
  if (now < trap.due) return false;
  const bool is_sent = has_sm(port);
  trap.due = is_sent ? now + kTrapInterval : ipoib::kNever;
  return is_sent;
}

ipoib::ByteWriter begin_trap(MadPacket& packet, const PortAttributes& port,
                             std::uint64_t transaction_id, const NoticeHeader& notice) {
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
  writer.u8(notice.type);
  writer.u24(notice.producer);
  writer.u16(notice.trap);
  writer.u16(port.lid.value());
  writer.zeros(2);
  return writer;
}

}  // namespace softib::subnet
