#include "softib/core/packet_sink.hpp"

#include <cstring>

#include "softib/core/streaming_copy.hpp"

namespace softib {

std::size_t count_packets(std::span<const OutgoingPacket> batch) {
  std::size_t count = 0;
  for (const auto& packet : batch) count += packet.gso.packets;
  return count;
}

std::size_t count_packets(std::span<const OutgoingPacket* const> batch) {
  std::size_t count = 0;
  for (const auto* packet : batch) count += packet->gso.packets;
  return count;
}

std::size_t count_packets(std::span<const ArrivedPacket> batch) {
  std::size_t count = 0;
  for (const auto& packet : batch) count += packet.gso.packets;
  return count;
}

void write_packet(const OutgoingPacket& packet, std::uint8_t* to) {
  std::memcpy(to, packet.header.data(), packet.header_size);
  auto* const payload = to + packet.header_size;
  to = payload;
  for (std::size_t i = 0; i < packet.piece_count; ++i) {
    const auto& piece = packet.pieces[i];
    if (piece.empty()) continue;
    if (packet.is_streamed) {
      streaming_copy(to, piece.data(), piece.size());
    } else {
      std::memcpy(to, piece.data(), piece.size());
    }
    to += piece.size();
  }
  for (std::size_t i = 0; i < packet.patch_count; ++i) {
    ipoib::store_be(payload + packet.patches[i].offset, packet.patches[i].value);
  }
}

}  // namespace softib
