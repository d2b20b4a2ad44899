// Options of monitor, wait and top.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace ipoib::ibarp {

// Options that have no letter.
inline constexpr int kShortStamp = 4;
inline constexpr int kTimeout = 5;
inline constexpr int kInterval = 6;
inline constexpr int kCount = 7;
inline constexpr int kSort = 8;
inline constexpr int kLastWithoutLetter = kSort;

struct WatchOptions {
  enum class Stamp : std::uint8_t { none, line, brief };
  enum class Sort : std::uint8_t { rate, address, state, idle, uses };

  std::uint32_t topics = 0;  ///< of monitor, as of ibarp_subscribe(); 0: all but the counters
  Stamp stamp = Stamp::none;
  bool until_up = false;                                ///< of wait; or until down
  std::optional<std::chrono::milliseconds> timeout{};   ///< of wait; none: without limit
  std::optional<std::chrono::milliseconds> interval{};  ///< of counters; none: a second
  std::optional<std::uint32_t> count{};  ///< of top: how many times; of capture: packets
  std::optional<Sort> sort{};            ///< of top
};

/// The names of what top can sort by; their first letters are its keys.
inline constexpr std::array<std::pair<std::string_view, WatchOptions::Sort>, 5> kSortNames{
    {{"rate", WatchOptions::Sort::rate},
     {"address", WatchOptions::Sort::address},
     {"state", WatchOptions::Sort::state},
     {"idle", WatchOptions::Sort::idle},
     {"uses", WatchOptions::Sort::uses}}};

struct Command;

/// Sets what the option with this letter is for. Does nothing for an option of other commands.
/// Throws Failure.
void apply_watch_option(WatchOptions& watch, int letter, const char* argument);
/// Refuses options that the command would ignore. Throws Failure.
void check_watch_options(const Command& command);

}  // namespace ipoib::ibarp
