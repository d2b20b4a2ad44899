// Settings of an interface that only rtnetlink can change.
#pragma once

#include "ipoib/result.hpp"

namespace ipoib::host {

/// Stops the kernel from giving the interface a random IPv6 link-local address (addr_gen_mode
/// none): on an IPoIB link that address follows from the port's GUID (RFC 4391, 8). A kernel
/// without IPv6 is fine too.
[[nodiscard]] Result<void> disable_generated_link_local(int interface_index);

}  // namespace ipoib::host
