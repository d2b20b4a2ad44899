// The ports of an interface: that of --device, and perhaps that of --backup.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ipoib::daemon {

enum class PortRole : std::uint8_t { primary, backup };

inline constexpr std::array kPortRoles{PortRole::primary, PortRole::backup};

/// A value for each port.
template <class T>
struct PerPort {
  std::array<T, kPortRoles.size()> values{};
  [[nodiscard]] T& operator[](PortRole role) { return values[static_cast<std::size_t>(role)]; }
  [[nodiscard]] const T& operator[](PortRole role) const {
    return values[static_cast<std::size_t>(role)];
  }
};

[[nodiscard]] constexpr PortRole other_than(PortRole role) {
  return role == PortRole::primary ? PortRole::backup : PortRole::primary;
}
[[nodiscard]] constexpr const char* name(PortRole role) {
  return role == PortRole::primary ? "primary" : "backup";
}

/// A port of an RDMA device, "mlx5_0:1" as text.
struct PortName {
  std::string device;
  std::uint8_t port = 1;
  [[nodiscard]] std::string text() const { return device + ":" + std::to_string(port); }
  friend bool operator==(const PortName&, const PortName&) = default;
};

}  // namespace ipoib::daemon
