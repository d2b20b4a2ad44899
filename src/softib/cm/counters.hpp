// Counters of the communication manager: by message, and drops by reason.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

#include "wire/cm_messages.hpp"

namespace softib::cm {

inline constexpr std::size_t kMessages = std::variant_size_v<ipoib::wire::CmMessage>;
/// Names of the messages in the order of CmMessage.
inline constexpr std::array<std::string_view, kMessages> kMessageNames{
    "req", "mra", "rej", "rep", "rtu", "dreq", "drep", "sidr_req", "sidr_rep", "lap", "apr"};

/// Why a message was dropped without an answer.
enum class Drop : std::uint8_t {
  malformed,      ///< no message of class 7, version 2
  no_connection,  ///< names no connection with that peer
  unexpected,     ///< does not fit the state of its connection
  full,           ///< a bound of limits.hpp
};
inline constexpr std::array<std::string_view, 4> kDropNames{"malformed", "no_connection",
                                                            "unexpected", "full"};

struct Counters {
  using ByMessage = std::array<std::uint64_t, kMessages>;
  ByMessage sent{};  ///< including those sent again
  ByMessage retries{};
  ByMessage received{};  ///< including duplicates
  ByMessage duplicates{};
  std::array<std::uint64_t, kDropNames.size()> drops{};

  [[nodiscard]] std::uint64_t dropped(Drop why) const {
    return drops[static_cast<std::size_t>(why)];
  }
};

}  // namespace softib::cm
