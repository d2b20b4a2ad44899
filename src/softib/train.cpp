#include "softib/train.hpp"

#include "wire/packet.hpp"

namespace softib {

namespace {
constexpr std::size_t kIcrcSize = 4;
constexpr std::size_t kSmallestPacket =
    ipoib::wire::Lrh::kSize + ipoib::wire::Bth::kSize + ipoib::wire::Deth::kSize;
constexpr std::size_t kNudgeSize = 1;

iovec piece(ConstBytes bytes) {
  // sendmsg() does not write through it.
  return iovec{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
}
}  // namespace

std::size_t size_of(const OutgoingPacket& packet) {
  std::size_t octets = packet.header_size;
  for (std::size_t i = 0; i < packet.piece_count; ++i) octets += packet.pieces[i].size();
  return octets;
}

std::size_t Train::load(std::span<const OutgoingPacket* const> packets) {
  used_ = 0;
  octets_ = 0;
  std::size_t taken = 0;
  while (taken < packets.size() && taken < kMaxTrainPackets && add(*packets[taken])) ++taken;
  return taken;
}

bool Train::add(const OutgoingPacket& packet) {
  const std::size_t octets = size_of(packet);
  const bool fits =
      octets_ + octets <= kMaxTrainOctets && used_ + 1 + packet.piece_count <= kMaxPieces;
  if (!fits && used_ != 0) return false;
  if (packet.header_size != 0) {
    pieces_[used_++] = piece({packet.header.data(), packet.header_size});
  }
  for (std::size_t i = 0; i < packet.piece_count; ++i) {
    if (!packet.pieces[i].empty()) pieces_[used_++] = piece(packet.pieces[i]);
  }
  octets_ += octets;
  return true;
}

bool unload(ConstBytes message, std::vector<ConstBytes>& out) {
  if (message.size() == kNudgeSize) return true;
  while (!message.empty()) {
    const auto lrh = ipoib::wire::Lrh::parse(message);
    if (!lrh) return false;
    const std::size_t with_icrc = std::size_t{lrh->length} * 4;
    if (with_icrc < kSmallestPacket + kIcrcSize || with_icrc - kIcrcSize > message.size()) {
      return false;
    }
    out.push_back(message.first(with_icrc - kIcrcSize));
    message = message.subspan(with_icrc - kIcrcSize);
  }
  return true;
}

}  // namespace softib
