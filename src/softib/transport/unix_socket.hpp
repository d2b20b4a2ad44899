// Unix sockets of type SOCK_SEQPACKET, by path.
#pragma once

#include <cstddef>
#include <string>

#include "ipoib/result.hpp"
#include "softib/fabric/capture_slots.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/transport/fork_guard.hpp"

namespace softib::transport {

/// Send buffer of a connection in bytes; net.core.wmem_max may limit it further.
inline constexpr int kSocketBuffer = 2 << 20;
/// Length of the listen queue.
inline constexpr int kListenBacklog = 1024;

/// Binds a socket to a name in a folder, and removes the file that had the name before. Everybody
/// who can reach the folder may connect.
[[nodiscard]] ipoib::Result<void> bind_at(int socket, int folder, const std::string& name);
/// Returns a socket that listens at a name in a folder.
[[nodiscard]] ipoib::Result<GuardedFd> listen_at(int folder, const std::string& name);

/// Accepts a connection without blocking. Returns no descriptor and sets errno on failure.
[[nodiscard]] GuardedFd accept_from(int listener);

/// Connections that this process may have in each direction: a quarter of its descriptor limit,
/// since descriptors belong to the application, and at most kMaxConnections. Connections to
/// receivers have a wakeup descriptor each, and share max_shared_wakeup_fds() further ones.
inline constexpr std::size_t kMaxConnections = 16384;
[[nodiscard]] std::size_t max_connections();
[[nodiscard]] inline std::size_t max_shared_wakeup_fds() { return max_connections() / 4; }

/// Connects to the process in a slot, without blocking. Returns no descriptor and sets errno on
/// failure: ECONNREFUSED and ENOENT mean that nobody listens, all others do not.
[[nodiscard]] GuardedFd connect_to(const fabric::SubnetFolder& folder, NodeIndex node,
                                   std::uint32_t slot);

/// As connect_to(), to the process that captures the packets of the subnet with this id.
[[nodiscard]] GuardedFd connect_to_capture(const fabric::SubnetFolder& folder,
                                           fabric::CaptureId id);

}  // namespace softib::transport
