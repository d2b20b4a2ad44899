// The file of static neighbours, in the style of ethers(5): a link-layer address or a GID alone,
// the IP address, and the interface unless the line is for all. See ipoibd(8).
//
//   00:00:04:01:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01  10.44.0.2
//   0x401@fe80::2:c903:0:1                                       10.44.0.3   ib0.8001
//   fe80::2:c903:0:2                                             2001:db8::4     # pinned
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/result.hpp"

namespace ipoib::control {

/// The name of the file in the folder of the configuration.
inline constexpr std::string_view kNeighbourFile = "neighbours";
inline constexpr std::size_t kMaxNeighbourFile = 8U << 20;  ///< bytes
inline constexpr std::size_t kMaxStaticNeighbours = 65536;  ///< entries of a file

struct StaticNeighbour {
  IpAddress address;
  /// A link-layer address makes a permanent entry; a GID alone pins the address to it.
  std::variant<HwAddress, Gid> to;
  std::string interface;  ///< empty: all
  friend bool operator==(const StaticNeighbour&, const StaticNeighbour&) = default;
};

/// Parses 20 bytes in hexadecimal with colons, or "QPN@GID", with the QPN in decimal, or in
/// hexadecimal after 0x.
[[nodiscard]] std::optional<HwAddress> parse_hardware(std::string_view text);

/// The entries of a file for an interface, to be set in this order: those for all interfaces, then
/// those for this one, which take precedence.
[[nodiscard]] std::vector<StaticNeighbour> neighbours_for(std::string_view interface,
                                                          std::span<const StaticNeighbour> file);

/// Parses the text of a file. The error is EINVAL with "NAME:LINE: reason".
[[nodiscard]] Result<std::vector<StaticNeighbour>> parse_neighbours(std::string_view text,
                                                                    const std::string& name);
/// Reads and parses a file; fails with errors of opening and reading, too, and with EFBIG.
[[nodiscard]] Result<std::vector<StaticNeighbour>> read_neighbours(const std::string& path);

}  // namespace ipoib::control
