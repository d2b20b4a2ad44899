// | LRH 8 | BTH 12 | DETH 8 | MAD 256 |    256 is a multiple of 4, so there is no padding.
#include "softib/core/mad_packet.hpp"

#include <algorithm>
#include <cassert>

#include "wire/packet.hpp"

namespace softib {

namespace {
/// The virtual lane of subnet management packets (IBA 7.6.4).
constexpr std::uint8_t kManagementLane = 15;
constexpr Qpn kSmiQpn{0};
}  // namespace

std::optional<MadPacket> MadPacket::parse(ConstBytes packet) {
  const auto ud = ipoib::wire::UdPacket::parse(packet);
  if (!ud || ud->payload.size() != ipoib::wire::kMadSize || ud->immediate) return std::nullopt;
  if (ud->bth.destination > ipoib::wire::kGsiQpn) return std::nullopt;

  MadPacket mad;
  mad.slid = ud->lrh.slid;
  mad.dlid = ud->lrh.dlid;
  mad.sl = ud->lrh.sl;
  mad.pkey = ud->bth.pkey;
  mad.source = ud->deth.source;
  mad.destination = ud->bth.destination;
  mad.qkey = ud->deth.qkey;
  std::copy(ud->payload.begin(), ud->payload.end(), mad.mad.begin());
  return mad;
}

void MadPacket::emit(std::span<std::uint8_t, kPacketSize> to) const {
  ipoib::wire::UdPacket ud;
  ud.lrh.virtual_lane = destination == kSmiQpn ? kManagementLane : 0;
  ud.lrh.sl = sl;
  ud.lrh.dlid = dlid;
  ud.lrh.slid = slid;
  ud.bth.pkey = pkey;
  ud.bth.destination = destination;
  ud.deth.qkey = qkey;
  ud.deth.source = source;
  const std::size_t header = ud.emit_headers(mad.size(), to);
  assert(header + mad.size() == kPacketSize);
  std::copy(mad.begin(), mad.end(), to.begin() + static_cast<std::ptrdiff_t>(header));
}

}  // namespace softib
