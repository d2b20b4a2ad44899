// The packets that a queue pair has built and that are to be sent. The device sends them by one
// call.
//
// A packet is read when it is written to the ring, where nothing can be refused any more; so memory
// that may be missing (ODP) is copied when the packet is built.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "softib/core/packet_sink.hpp"
#include "softib/hca/limits.hpp"
#include "softib/hca/registered_memory.hpp"

namespace softib::hca {

/// At most kSendBatch packets. Their storage is reused: appending one allocates nothing.
class Outbox {
 public:
  Outbox() : storage_(kSendBatch) {}

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// The packets; valid until the outbox changes.
  [[nodiscard]] std::span<const OutgoingPacket> packets() const {
    return std::span(storage_).first(size_);
  }
  void clear() { size_ = 0; }

  /// Appends a packet without content. Requires that there are fewer than kSendBatch.
  OutgoingPacket& append() {
    assert(size_ < storage_.size());
    auto& packet = storage_[size_++];
    packet.clear();
    return packet;
  }
  /// Takes back the packet that was appended last. Requires that the outbox is not empty.
  void remove_last() {
    assert(size_ != 0);
    --size_;
  }
  /// Adds `size` bytes of `from` to the last packet: a copy if they are on demand. Returns false if
  /// they are missing.
  [[nodiscard]] bool add(const RegisteredMemory& from, std::size_t size) {
    assert(size_ != 0);
    auto& packet = storage_[size_ - 1];
    assert(packet.piece_count < packet.pieces.size());
    if (from.is_on_demand()) return add_copy(from, size, packet);
    packet.add({from.begin(), size});
    return true;
  }

 private:
  [[nodiscard]] bool add_copy(const RegisteredMemory& from, std::size_t size,
                              OutgoingPacket& packet) {
    constexpr std::size_t kPieces = OutgoingPacket::kMaxPieces + 1;
    if (copies_.empty()) copies_.resize(kSendBatch * kPieces);
    auto& copy = copies_[(size_ - 1) * kPieces + packet.piece_count];
    copy.resize(size);
    if (!from.load(copy)) return false;
    packet.add(copy);
    return true;
  }

  std::vector<OutgoingPacket> storage_;
  std::size_t size_ = 0;
  std::vector<std::vector<std::uint8_t>> copies_;  ///< by packet and piece; empty until needed
};

}  // namespace softib::hca
