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

  /// All of them, for other processes to read.
  using Values = std::array<std::uint64_t, 4 * kMessages + kDropNames.size()>;
  [[nodiscard]] Values values() const {
    Values values{};
    visit(*this, [at = values.begin()](std::uint64_t counter) mutable { *at++ = counter; });
    return values;
  }
  [[nodiscard]] static Counters of(const Values& values) {
    Counters counters;
    visit(counters, [at = values.begin()](std::uint64_t& counter) mutable { counter = *at++; });
    return counters;
  }

  [[nodiscard]] std::uint64_t dropped(Drop why) const {
    return drops[static_cast<std::size_t>(why)];
  }

 private:
  /// Calls `visitor` for each counter, in the order of Values.
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor visitor) {
    for (auto* const each : {&self.sent, &self.retries, &self.received, &self.duplicates}) {
      for (auto& counter : *each) visitor(counter);
    }
    for (auto& counter : self.drops) visitor(counter);
  }
};

}  // namespace softib::cm
