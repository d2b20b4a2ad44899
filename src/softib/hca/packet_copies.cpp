#include "softib/hca/packet_copies.hpp"

#include <cassert>

#include "softib/hca/limits.hpp"

namespace softib::hca {

bool PacketCopies::add(OutgoingPacket& packet, std::size_t index, const RegisteredMemory& from,
                       std::size_t size) {
  if (!from.is_on_demand()) {
    packet.add({from.begin(), size});
    return true;
  }
  constexpr std::size_t kPieces = OutgoingPacket::kMaxPieces + 1;
  if (copies_.empty()) copies_.resize(kSendBatch * kPieces);
  assert(index < kSendBatch);
  auto& copy = copies_[index * kPieces + packet.piece_count];
  copy.resize(size);
  if (!from.load(copy)) return false;
  packet.add(copy);
  return true;
}

}  // namespace softib::hca
