// The details of the Notice (IBA 13.4.8.3):
//
//   257, 258: | - 16 | LID1 16 | LID2 16 | key 32 | SL 4, - 4, QP1 24 | - 8, QP2 24 |
//             | GID1 128 | GID2 128 |
#include "softib/subnet/key_traps.hpp"

#include <algorithm>

namespace softib::subnet {

namespace {
constexpr std::uint16_t kBadPKey = 257;
constexpr std::uint16_t kBadQKey = 258;
}  // namespace

void KeyTraps::violated(CheckedKey key, const KeyViolation& packet) {
  KeyTrap& of = traps_[static_cast<std::size_t>(key)];
  of.packet = packet;
  if (of.trap.due == ipoib::kNever) transactions_.start(of.trap);
}

bool KeyTraps::repress(std::uint64_t transaction_id) {
  return std::ranges::any_of(
      traps_, [&](KeyTrap& of) { return transactions_.repress(of.trap, transaction_id); });
}

ipoib::TimePoint KeyTraps::next_deadline() const {
  return std::min(traps_[0].trap.due, traps_[1].trap.due);
}

std::vector<MadPacket> KeyTraps::on_time(const PortAttributes& port, ipoib::TimePoint now) {
  std::vector<MadPacket> due;
  for (const auto key : kCheckedKeys) {
    Trap& trap = traps_[static_cast<std::size_t>(key)].trap;
    if (take_due(trap, port, now)) due.push_back(notice(key, port));
  }
  return due;
}

MadPacket KeyTraps::notice(CheckedKey key, const PortAttributes& port) const {
  const auto& [trap, violation] = traps_[static_cast<std::size_t>(key)];
  MadPacket packet;
  auto writer = begin_trap(packet, port, transactions_.id(trap),
                           {NoticeHeader::kSecurity, NoticeHeader::kFromHca,
                            key == CheckedKey::pkey ? kBadPKey : kBadQKey});
  writer.u16(0);
  writer.u16(violation.slid.value());
  writer.u16(violation.dlid.value());
  writer.u32(violation.key);
  writer.u8(static_cast<std::uint8_t>(violation.sl.value() << 4));
  writer.u24(violation.source.value());
  writer.u8(0);
  writer.u24(violation.destination.value());
  writer.bytes(violation.sgid.bytes());
  writer.bytes(violation.dgid.bytes());
  return packet;
}

}  // namespace softib::subnet
