// Why a port is not ACTIVE, and what to do about it.
#pragma once

#include <cstdint>
#include <string_view>

namespace ipoib {

/// The states of a link before ACTIVE (IBA 7.2.7), with the two of DOWN that have different causes.
enum class Inactive : std::uint8_t {
  down,     ///< no link: the port is disabled, or fails
  polling,  ///< no link: the port looks for a partner
  init,     ///< the link is up, and no subnet manager has configured the port
  armed,    ///< a subnet manager has configured the port, and not yet activated it
  no_gid,   ///< a port of RoCE without a usable GID
};

inline constexpr std::string_view kSubnetManagerRemedy =
    "sminfo shows the subnet manager, opensm is one";

/// Completes "the port is".
[[nodiscard]] constexpr std::string_view text_of(Inactive state) {
  switch (state) {
    case Inactive::down:
      return "DOWN";
    case Inactive::polling:
      return "DOWN and polls for a partner";
    case Inactive::init:
      return "INIT: the link is up, no subnet manager has configured the port";
    case Inactive::armed:
      return "ARMED: the subnet manager has not activated the port";
    case Inactive::no_gid:
      return "without a RoCE v2 GID that is an IPv6 address";
  }
  return "";
}

/// What an operator can do.
[[nodiscard]] constexpr std::string_view remedy_of(Inactive state) {
  switch (state) {
    case Inactive::down:
      return "check cable and switch port; ibportstate shows whether it is disabled";
    case Inactive::polling:
      return "check cable and switch port";
    case Inactive::init:
    case Inactive::armed:
      return kSubnetManagerRemedy;
    case Inactive::no_gid:
      return "ip -6 address shows those of its network device";
  }
  return "";
}

}  // namespace ipoib
