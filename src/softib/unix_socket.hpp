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

/// Gives a socket its name in a folder; what had the name is gone, so the caller must own it.
/// Anybody who can reach the folder may connect.
[[nodiscard]] ipoib::Result<void> bind_at(int socket, int folder, const std::string& name);
/// A socket that listens there.
[[nodiscard]] ipoib::Result<GuardedFd> listen_at(int folder, const std::string& name);

/// Connects without waiting. On failure no descriptor, and errno: ECONNREFUSED and ENOENT mean that
/// nobody listens; all others say nothing about that.
[[nodiscard]] GuardedFd connect_to(const std::string& path);

}  // namespace softib
