#include "color.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace ipoib::ibarp {

namespace {

bool enabled = false;

/// In the order of Ink: the codes of SGR (ECMA-48, 8.3.117), for a terminal with a dark or a bright
/// background.
constexpr std::array<std::string_view, 6> kDark{"36", "35", "34", "33", "32", "31"};
constexpr std::array<std::string_view, 6> kLightOnDark{"1;36", "1;35", "1;34",
                                                       "1;33", "1;32", "1;31"};

/// As for ip(8), COLORFGBG ends with the number of the background's colour.
bool has_dark_background() {
  const char* const colors = std::getenv("COLORFGBG");
  if (colors == nullptr) return false;
  const std::string_view text(colors);
  const auto at = text.rfind(';');
  if (at == std::string_view::npos || at + 2 != text.size()) return false;
  const char background = text.back();
  return (background >= '0' && background <= '6') || background == '8';
}

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && value[0] != '\0';
}

bool terminal_has_colors() {
  const char* const terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return isatty(STDOUT_FILENO) != 0 && !is_dumb && !is_set("NO_COLOR");
}

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& all, std::string_view text) {
  return std::ranges::find(all, text) != all.end();
}

}  // namespace

void use_colors(ColorMode mode) {
  enabled = mode == ColorMode::always || (mode == ColorMode::automatic && terminal_has_colors());
}

bool has_colors() { return enabled; }

std::string ink(Ink what, std::string_view text) {
  if (!enabled || text.empty()) return std::string(text);
  const auto& codes = has_dark_background() ? kLightOnDark : kDark;
  return "\033[" + std::string(codes.at(static_cast<std::size_t>(what))) + "m" + std::string(text) +
         "\033[0m";
}

std::string ink_address(int family, std::string_view text) {
  return ink(family == AF_INET ? Ink::ipv4 : Ink::ipv6, text);
}

std::string ink_state(std::string_view state) {
  static constexpr std::array<std::string_view, 4> kGood{"reachable", "permanent", "up", "full"};
  static constexpr std::array<std::string_view, 11> kBad{
      "failed", "missing",           "port_down", "port_polling", "port_init", "port_armed",
      "no_gid", "no_subnet_manager", "no_pkey",   "no_device",    "stopped"};
  if (contains(kGood, state)) return ink(Ink::good, state);
  return contains(kBad, state) ? ink(Ink::bad, state) : std::string(state);
}

}  // namespace ipoib::ibarp
