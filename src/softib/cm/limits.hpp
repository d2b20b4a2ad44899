// Bounds and times of the communication manager of one process.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "ipoib/time.hpp"

namespace softib::cm {

/// Connections in all, also those that are only remembered to answer late messages. Beyond that,
/// connect() fails with ENOMEM.
inline constexpr std::size_t kMaxConnections = 65'536;
/// The number of these that may be requests of peers without a connection yet. One port may cause
/// half of them (ipoib::FairShare). Beyond that, a REQ is dropped, and its sender repeats it.
inline constexpr std::size_t kMaxRequests = 8'192;
inline constexpr std::size_t kMaxListeners = 4'096;
/// Requests of SIDR: our own, and those of peers, of which one port may cause half.
inline constexpr std::size_t kMaxResolutions = 4'096;
inline constexpr std::size_t kMaxServiceRequests = 4'096;

/// How long the answer to a SIDR_REQ is kept, to be repeated.
inline constexpr ipoib::Duration kServiceAnswerRetention = std::chrono::seconds(10);

/// Shortest time after which a message is sent again.
inline constexpr ipoib::Duration kMinInterval = std::chrono::milliseconds(1);

/// Larger time codes count as this one, 8.6 s, since peers choose the times for which state is kept
/// here.
inline constexpr std::uint8_t kMaxTimeCode = 21;
/// The time of a code: 4.096 us * 2^code (IBA 12.6).
[[nodiscard]] constexpr ipoib::Duration time_of(std::uint8_t code) {
  return std::chrono::nanoseconds(std::int64_t{4096} << std::min(code, kMaxTimeCode));
}

}  // namespace softib::cm
