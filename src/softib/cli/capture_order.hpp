// Puts the packets of several processes in the order of their times.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ipoib/bytes.hpp"

namespace softib::cli {

/// Packets wait for this long for earlier ones of other processes.
inline constexpr std::int64_t kOrderWindow = 50'000'000;  ///< nanoseconds
/// Bytes that wait; beyond them, the earliest do not wait any longer.
inline constexpr std::size_t kMaxWaitingBytes = 16U << 20;
/// Sizes of a packet, LRH to padding; messages with others are malformed.
inline constexpr std::size_t kLeastPacket = 8;
inline constexpr std::size_t kMostPacket = 8192;

/// Owns the packets that wait.
class CaptureOrder {
 public:
  struct Packet {
    std::int64_t when = 0;  ///< nanoseconds since 1970
    std::uint64_t number = 0;
    bool is_received = false;
    std::vector<std::uint8_t> bytes;
  };

  /// Adds the packets of a message (erf/capture_messages.hpp). Returns false if it is malformed;
  /// those before the fault are added.
  [[nodiscard]] bool add(ipoib::ConstBytes message);
  /// Passes on the packets from before `until` in their order, and the earliest beyond
  /// kMaxWaitingBytes. `visit` returns whether to go on.
  void take(std::int64_t until, const std::function<bool(const Packet&)>& visit);
  /// Packets that processes have left out.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  std::vector<Packet> waiting_;  ///< a heap; the earliest is the first
  std::size_t bytes_ = 0;
  std::uint64_t added_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace softib::cli
