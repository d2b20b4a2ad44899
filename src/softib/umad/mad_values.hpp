// Bounds and values of the MAD layer.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "ipoib/time.hpp"
#include "softib/core/fabric_types.hpp"
#include "softib/core/mad_route.hpp"

namespace softib::umad {

/// Bounds of a process. What goes over is refused with ENOMEM, or dropped as drop_mad_full.
inline constexpr std::size_t kMaxAgents = MadRoute::kMaxAgents;
inline constexpr std::size_t kMaxTransactions = 4096;
inline constexpr std::size_t kMaxReassemblies = 16;

/// Of a transfer whose sender or receiver has fallen silent, as in the Linux kernel.
inline constexpr ipoib::Duration kReassemblyTimeout = std::chrono::seconds(40);
/// How long a complete transfer is remembered, in case its last ACK was lost.
inline constexpr ipoib::Duration kReassemblyMemory = std::chrono::seconds(10);
inline constexpr ipoib::Duration kRmppAckTimeout = std::chrono::seconds(2);
inline constexpr unsigned kRmppRetries = 3;

/// The other end of a MAD.
struct MadAddress {
  Lid lid;
  ServiceLevel sl;
  Qpn qpn;
  std::uint16_t pkey_index = 0;
  std::uint8_t path_bits = 0;  ///< of our own LID
};

/// What umad_recv returns.
struct Arrived {
  std::uint32_t agent = 0;
  int status = 0;  ///< ETIMEDOUT: the header of a request that nobody has answered
  MadAddress peer;
  std::vector<std::uint8_t> mad;
};

/// When a request is repeated, and given up. A negative timeout waits for ever, zero not at all.
struct Persistence {
  ipoib::Duration timeout{};
  unsigned retries = 0;
};

}  // namespace softib::umad
