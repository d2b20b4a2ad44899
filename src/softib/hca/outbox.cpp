#include "softib/hca/outbox.hpp"

#include <cassert>

namespace softib::hca {

OutgoingPacket& Outbox::append() {
  assert(size_ < storage_.size());
  auto& packet = storage_[size_++];
  packet.clear();
  return packet;
}

void Outbox::remove_last() {
  assert(size_ != 0);
  --size_;
}

bool Outbox::add(const RegisteredMemory& from, std::size_t size) {
  assert(size_ != 0);
  auto& packet = storage_[size_ - 1];
  assert(packet.piece_count < packet.pieces.size());
  if (!from.is_on_demand()) {
    packet.add({from.begin(), size});
    return true;
  }
  constexpr std::size_t kPieces = OutgoingPacket::kMaxPieces + 1;
  if (copies_.empty()) copies_.resize(kSendBatch * kPieces);
  auto& copy = copies_[(size_ - 1) * kPieces + packet.piece_count];
  copy.resize(size);
  if (!from.load(copy)) return false;
  packet.add(copy);
  return true;
}

}  // namespace softib::hca
