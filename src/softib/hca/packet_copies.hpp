// Copies of on-demand memory for packets to send. A packet is read when it is written to the ring,
// where nothing can be refused any more; so what may be missing is copied before.
#pragma once

#include <cstdint>
#include <vector>

#include "softib/core/packet_sink.hpp"
#include "softib/hca/registered_memory.hpp"

namespace softib::hca {

class PacketCopies {
 public:
  /// Adds `size` bytes of `from` to the packet with number `index` of a batch of kSendBatch: a copy
  /// if they are on demand, which lasts until the next batch. Returns false if they are missing.
  [[nodiscard]] bool add(OutgoingPacket& packet, std::size_t index, const RegisteredMemory& from,
                         std::size_t size);

 private:
  std::vector<std::vector<std::uint8_t>> copies_;  ///< by packet and piece; empty until needed
};

}  // namespace softib::hca
