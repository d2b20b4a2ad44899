// | LRH 8 | GRH 40, optional | BTH 12 | DETH 8 | MAD 256 |
//
// 256 is a multiple of 4, so there is no padding.
#include "softib/core/mad_packet.hpp"

#include <algorithm>
#include <utility>

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
  mad.grh = ud->grh;
  std::copy(ud->payload.begin(), ud->payload.end(), mad.mad.begin());
  return mad;
}

ConstBytes MadPacket::emit(std::span<std::uint8_t, kMaxPacketSize> to) const {
  ipoib::wire::UdPacket ud;
  ud.lrh.virtual_lane = destination == kSmiQpn ? kManagementLane : 0;
  ud.lrh.sl = sl;
  ud.lrh.dlid = dlid;
  ud.lrh.slid = slid;
  ud.bth.pkey = pkey;
  ud.bth.destination = destination;
  ud.deth.qkey = qkey;
  ud.deth.source = source;
  ud.grh = grh;
  std::array<std::uint8_t, ipoib::wire::UdPacket::kMaxHeaderSize> header;
  const std::size_t size = ud.emit_headers(mad.size(), header);
  std::copy_n(header.begin(), size, to.begin());
  std::copy(mad.begin(), mad.end(), to.begin() + static_cast<std::ptrdiff_t>(size));
  return to.first(size + mad.size());
}

void MadPacket::reverse() {
  std::swap(slid, dlid);
  std::swap(source, destination);
  if (grh) std::swap(grh->sgid, grh->dgid);
}

}  // namespace softib
