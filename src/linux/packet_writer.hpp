// Writes a packet in pieces to a TUN, a TAP or the queue of a VLAN.
#pragma once

#include <sys/uio.h>

#include <cerrno>
#include <span>

#include "ipoib/bytes.hpp"

namespace ipoib::linux {

/// A piece as writev(2) wants it, only for writing.
[[nodiscard]] inline iovec piece(ConstBytes bytes) {
  return {const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
}

/// Returns false, with errno, if the packet is refused: the kernel accepts it completely or not at
/// all.
[[nodiscard]] inline bool write_packet(int to, std::span<const iovec> pieces) {
  for (;;) {
    if (::writev(to, pieces.data(), static_cast<int>(pieces.size())) >= 0) return true;
    if (errno != EINTR) return false;
  }
}

}  // namespace ipoib::linux
