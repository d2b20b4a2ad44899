// Who is at the other end of a Unix socket.
#pragma once

#include <sys/socket.h>

#include <optional>

namespace ipoib {

/// The process that has connected the socket, or that listens where it is connected, and its user
/// and group, as they were then. Returns nullopt on failure, and errno says why.
[[nodiscard]] inline std::optional<ucred> peer_process(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

}  // namespace ipoib
