// Unix sockets that keep message boundaries and order, by path.
#pragma once

#include <cstddef>
#include <string>

#include "ipoib/result.hpp"
#include "softib/transport/fork_guard.hpp"

namespace softib::transport {

/// Queue of one connection, in octets; less where the system does not allow it (net.core.wmem_max).
inline constexpr int kSocketBuffer = 2 << 20;
/// Connections that wait to be accepted.
inline constexpr int kListenBacklog = 1024;

/// Gives a socket its name in a folder; what had the name is gone, so the caller must own it.
/// Anybody who can reach the folder may connect.
[[nodiscard]] ipoib::Result<void> bind_at(int socket, int folder, const std::string& name);
/// A socket that listens there.
[[nodiscard]] ipoib::Result<GuardedFd> listen_at(int folder, const std::string& name);

/// Takes a connection of a listener that does not wait. On failure no descriptor, and errno.
[[nodiscard]] GuardedFd accept_from(int listener);

/// Connections that this process may have in each direction: a quarter of the descriptors that it
/// may have at present, since they are the application's, and at most kMaxConnections.
inline constexpr std::size_t kMaxConnections = 16384;
[[nodiscard]] std::size_t max_connections();

/// Connects without waiting. On failure no descriptor, and errno: ECONNREFUSED and ENOENT mean that
/// nobody listens; all others say nothing about that.
[[nodiscard]] GuardedFd connect_to(const std::string& path);

}  // namespace softib::transport
