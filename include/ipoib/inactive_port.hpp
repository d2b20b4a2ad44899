// Why a port is not ACTIVE.
#pragma once

#include <cstdint>

namespace ipoib {

/// The states of a link before ACTIVE (IBA 7.2.7), with the two of DOWN that have different causes.
enum class Inactive : std::uint8_t {
  down,     ///< no link: the port is disabled, or fails
  polling,  ///< no link: the port looks for a partner
  init,     ///< the link is up, and no subnet manager has configured the port
  armed,    ///< a subnet manager has configured the port, and not yet activated it
  no_gid,   ///< a port of RoCE without a usable GID
};

}  // namespace ipoib
