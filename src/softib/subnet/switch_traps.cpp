// The details of the Notice (IBA 13.4.8.3):
//
//   128: | LID 16 | - |
//   129 to 131: | - 16 | LID 16 | port 8 | - |
//   259: | valid fields 16 | LID1 16 | LID2 16 | P_Key 16 | SL 4, - 4, QP1 24 | - 8, QP2 24 |
//        | GID1 128 | GID2 128 | LID of the switch 16 | port 8 | - |
#include "softib/subnet/switch_traps.hpp"

#include <algorithm>
#include <utility>

namespace softib::subnet {

namespace {
constexpr std::uint16_t kLinkStateChanged = 128;
constexpr std::uint16_t kFirstLinkError = 129;
constexpr std::uint16_t kBadPKeyAtSwitch = 259;
/// Valid fields of trap 259: both LIDs, P_Key, SL; and the QPs.
constexpr std::uint16_t kValidHeaders = 0x0f;
constexpr std::uint16_t kValidQps = 0x30;
}  // namespace

std::array<Trap*, 2 + kLinkErrors> SwitchTraps::all() {
  return {&links_, &errors_[0].trap, &errors_[1].trap, &errors_[2].trap, &pkeys_};
}

void SwitchTraps::links_changed() { transactions_.start(links_); }

void SwitchTraps::link_failed(LinkError error, SwitchPort port) {
  PortTrap& of = errors_[static_cast<std::size_t>(error)];
  const bool is_repeated = of.trap.due != ipoib::kNever;
  if (is_repeated && port == of.port) return;
  of.waiting.set(port - std::size_t{1});
  if (!is_repeated) start_next(of);
}

void SwitchTraps::start_next(PortTrap& of) {
  const std::size_t next = of.waiting._Find_first();
  if (next == of.waiting.size()) return;
  of.waiting.reset(next);
  of.port = static_cast<SwitchPort>(next + 1);
  transactions_.start(of.trap);
}

void SwitchTraps::pkey_violated(SwitchPort port, const PacketHeaders& headers) {
  violated_port_ = port;
  violation_ = headers;
  if (pkeys_.due == ipoib::kNever) transactions_.start(pkeys_);
}

bool SwitchTraps::repress(std::uint64_t transaction_id) {
  for (Trap* const trap : all()) {
    if (!transactions_.repress(*trap, transaction_id)) continue;
    const auto of = std::ranges::find(errors_, trap, [](PortTrap& each) { return &each.trap; });
    if (of != errors_.end()) start_next(*of);
    return true;
  }
  return false;
}

ipoib::TimePoint SwitchTraps::next_deadline() const {
  auto first = std::min(links_.due, pkeys_.due);
  for (const PortTrap& of : errors_) first = std::min(first, of.trap.due);
  return first;
}

std::vector<MadPacket> SwitchTraps::on_time(const PortAttributes& port, ipoib::TimePoint now) {
  std::vector<MadPacket> due;
  for (Trap* const trap : all()) {
    if (take_due(*trap, port, now)) due.push_back(notice(*trap, port));
  }
  if (!has_sm(port)) {
    for (PortTrap& of : errors_) of.waiting.reset();
  }
  return due;
}

MadPacket SwitchTraps::notice(const Trap& trap, const PortAttributes& port) const {
  if (&trap == &links_) return links_notice(port);
  if (&trap == &pkeys_) return pkey_notice(port);
  const auto of =
      std::ranges::find(errors_, &trap, [](const PortTrap& each) { return &each.trap; });
  return error_notice(static_cast<std::size_t>(of - errors_.begin()), port);
}

MadPacket SwitchTraps::links_notice(const PortAttributes& port) const {
  MadPacket packet;
  auto writer = begin_trap(packet, port, transactions_.id(links_), {.trap = kLinkStateChanged});
  writer.u16(port.lid.value());
  return packet;
}

MadPacket SwitchTraps::error_notice(std::size_t error, const PortAttributes& port) const {
  const PortTrap& of = errors_[error];
  MadPacket packet;
  auto writer = begin_trap(packet, port, transactions_.id(of.trap),
                           {.trap = static_cast<std::uint16_t>(kFirstLinkError + error)});
  writer.u16(0);
  writer.u16(port.lid.value());
  writer.u8(static_cast<std::uint8_t>(std::min(of.port, SwitchPort{255})));
  return packet;
}

MadPacket SwitchTraps::pkey_notice(const PortAttributes& port) const {
  MadPacket packet;
  auto writer = begin_trap(packet, port, transactions_.id(pkeys_),
                           {.type = NoticeHeader::kSecurity, .trap = kBadPKeyAtSwitch});
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
