// Bounds, timeouts and value types of the MAD layer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/time.hpp"
#include "ipoib/ud_port.hpp"
#include "softib/core/fabric_types.hpp"
#include "softib/core/mad_route.hpp"

namespace softib::umad {

/// Bounds of a process. Beyond them, calls fail with ENOMEM and packets count as drop_mad_full.
inline constexpr std::size_t kMaxAgents = MadRoute::kOwnAgent;
inline constexpr std::size_t kMaxTransactions = 4096;
/// Transfers (RMPP) that are responses to pending requests.
inline constexpr std::size_t kMaxReassemblies = 16;
/// Bounds of transfers that nobody here has requested, which any port can begin: in all, from one
/// port, and segments of each (about 100 KB).
inline constexpr std::size_t kMaxUnsolicited = 8;
inline constexpr std::size_t kMaxUnsolicitedOfPort = 2;
inline constexpr std::uint32_t kMaxUnsolicitedSegments = 512;

/// The time-out from the last progress of a requested transfer, and from the beginning of one that
/// was not requested; the value of the Linux kernel.
inline constexpr ipoib::Duration kReassemblyTimeout = std::chrono::seconds(40);
/// How long a complete transfer is kept to repeat its last ACK if that was lost.
inline constexpr ipoib::Duration kReassemblyRetention = std::chrono::seconds(10);
inline constexpr ipoib::Duration kRmppAckTimeout = std::chrono::seconds(2);
inline constexpr unsigned kRmppRetries = 3;

/// The port of an agent.
struct AgentPort {
  std::uint8_t number = 1;  ///< on its HCA
  NodeIndex node = 0;       ///< that the port is
};

/// The other end of a MAD.
struct MadAddress {
  Lid lid;
  ServiceLevel sl;
  Qpn qpn;
  std::uint16_t pkey_index = 0;
  std::uint8_t path_bits = 0;  ///< of the local LID
  /// Its `sgid_index` is that of the local port, `dgid` that of the other end.
  std::optional<ipoib::GlobalRoute> global{};
};

/// The result of umad_recv().
struct ReceivedMad {
  std::uint32_t agent = 0;
  int status = 0;          ///< if ETIMEDOUT, `mad` is the header of a request without response
  bool solicited = false;  ///< ends a request, so that there are no more of them than requests
  MadAddress peer;
  std::vector<std::uint8_t> mad;
};

/// How often and how long to wait for a response. A negative timeout waits forever; zero expects no
/// response.
struct RetryPolicy {
  ipoib::Duration timeout{};
  unsigned retries = 0;
};

}  // namespace softib::umad
