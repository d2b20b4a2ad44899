// Unix sockets that keep message boundaries and order, by path.
#pragma once

#include <string>

#include "ipoib/result.hpp"
#include "softib/fork_guard.hpp"

namespace softib {

/// Queue of one connection, in octets; less where the system does not allow it (net.core.wmem_max).
inline constexpr int kSocketBuffer = 2 << 20;
/// Connections that wait to be accepted.
inline constexpr int kListenBacklog = 1024;

/// Listens at `path`; what was there is replaced, so the caller must own the place. Anybody who can
/// reach the path may connect.
[[nodiscard]] ipoib::Result<GuardedFd> listen_at(const std::string& path);

/// Connects without waiting. On failure no descriptor, and errno: ECONNREFUSED and ENOENT mean that
/// nobody listens, EAGAIN that too many wait to be accepted.
[[nodiscard]] GuardedFd connect_to(const std::string& path);

}  // namespace softib
