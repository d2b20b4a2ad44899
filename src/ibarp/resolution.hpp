// Waits for a path, and shows on a terminal that it does.
#pragma once

#include "client.hpp"

namespace ipoib::ibarp {

/// ibarp_resolve(), with progress.
[[nodiscard]] int resolve_patiently(const Client& client, const ibarp_address& address,
                                    int milliseconds, ibarp_path& path);

}  // namespace ipoib::ibarp
