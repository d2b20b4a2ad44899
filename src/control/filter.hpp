// Selects neighbour entries by address and state.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/ip_prefix.hpp"
#include "ipoib/result.hpp"

namespace ipoib::control {

/// The states of an entry, docs/states.md, "Neighbour"; "pinned" stands for each pinned address, in
/// any state.
inline constexpr std::array<std::string_view, 9> kNeighbourStates{
    "incomplete", "resolving", "reachable", "stale", "delay",
    "probing",    "failed",    "permanent", "pinned"};

/// Conditions for entries. An entry matches if it meets all of them; without any, all entries
/// match.
struct Filter {
  std::optional<IpFamily> family{};
  std::optional<IpPrefix> prefix{};
  std::vector<std::string> states{};  ///< any of these; empty for any state

  [[nodiscard]] bool is_empty() const { return !family && !prefix && states.empty(); }
  [[nodiscard]] bool matches(const IpAddress& address, std::string_view state) const;
  friend bool operator==(const Filter&, const Filter&) = default;
};

/// Parses "ADDRESS" or "ADDRESS/LENGTH".
[[nodiscard]] std::optional<IpPrefix> parse_prefix(std::string_view text);
[[nodiscard]] std::string to_string(const IpPrefix& prefix);
/// Parses names separated by commas. The error lists the known ones.
[[nodiscard]] Result<std::vector<std::string>> parse_states(std::string_view text);

}  // namespace ipoib::control
