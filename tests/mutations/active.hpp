// Included in every source of a build with faults (mutations.py); never in another build.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <type_traits>

namespace ipoib_mutation {

/// FNV-1a, like mutations.py.
constexpr std::uint64_t id_of(std::string_view name) {
  std::uint64_t id = 0xcbf2'9ce4'8422'2325;
  for (const char each : name) {
    id = (id ^ static_cast<unsigned char>(each)) * 0x0000'0100'0000'01b3;
  }
  return id;
}

inline bool is_selected(std::uint64_t id) {
  static const std::uint64_t selected = [] {
    const char* const name = std::getenv("IPOIB_MUTATION");
    return name != nullptr ? id_of(name) : 0;
  }();
  return id == selected;
}

/// Whether IPOIB_MUTATION names this fault. Never in a constant expression.
constexpr bool active(std::uint64_t id) { return !std::is_constant_evaluated() && is_selected(id); }

}  // namespace ipoib_mutation
