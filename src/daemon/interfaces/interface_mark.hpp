// The alternative name of a network interface, by which the next daemon on the port finds it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ipoib/address.hpp"

namespace ipoib::daemon {

struct InterfaceMark {
  std::string name;  ///< with which the interface was created
  Guid port;
  friend bool operator==(const InterfaceMark&, const InterfaceMark&) = default;
};

/// "ipoibd-ib0-0002c90300000001".
[[nodiscard]] std::string to_string(const InterfaceMark& mark);
/// Returns nullopt if the alternative name is not of ipoibd.
[[nodiscard]] std::optional<InterfaceMark> parse_mark(std::string_view alternative);

}  // namespace ipoib::daemon
