// Several packets in one message: a system call and a socket buffer for each packet cost more than
// copying it does. A packet says its own length (IBA 7.7.8: PktLen, with the ICRC that we leave
// out), so nothing is needed between them.
#pragma once

#include <sys/uio.h>

#include <array>
#include <span>
#include <vector>

#include "softib/core/packet_sink.hpp"

namespace softib {

/// Bounds of one message. Beyond 64 KiB the kernel's buffers get no cheaper.
inline constexpr std::size_t kMaxTrainOctets = 64U << 10;
inline constexpr std::size_t kMaxTrainPackets = 64;

/// Pieces of memory for one sendmsg(2), gathered from packets without copying.
class Train {
 public:
  /// Takes packets from the front as far as they fit, at least one; returns how many.
  std::size_t load(std::span<const OutgoingPacket* const> packets);
  [[nodiscard]] std::span<iovec> pieces() { return {pieces_.data(), used_}; }

 private:
  static constexpr std::size_t kMaxPieces = 1024;  ///< UIO_MAXIOV
  bool add(const OutgoingPacket& packet);

  std::array<iovec, kMaxPieces> pieces_;
  std::size_t used_ = 0;
  std::size_t octets_ = 0;
};

/// LRH to padding, in octets.
[[nodiscard]] std::size_t size_of(const OutgoingPacket& packet);

/// Appends the packets of one message to `out`; they point into it. False: the rest of the message
/// makes no sense, and was left out. A message shorter than a packet has none: it is a nudge.
bool unload(ConstBytes message, std::vector<ConstBytes>& out);

}  // namespace softib
