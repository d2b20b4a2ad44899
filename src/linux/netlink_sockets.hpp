// A pair of rtnetlink sockets to follow a table of the kernel: one for notifications, one for
// requests.
#pragma once

#include <memory>

#include "ipoib/result.hpp"

struct nl_sock;

namespace ipoib::linux {

/// The number of messages that are read before the thread's other work gets its turn. The rest
/// stays in the socket, which is still readable.
inline constexpr int kMaxEventReads = 64;

struct NetlinkSockets {
  struct Free {
    void operator()(nl_sock* socket) const;
  };
  using Socket = std::unique_ptr<nl_sock, Free>;

  Socket events;  ///< non-blocking; subscribed to no group yet
  Socket queries;

  /// Opens them in the network namespace of the calling thread.
  [[nodiscard]] static Result<NetlinkSockets> open();
  /// Opens one.
  [[nodiscard]] static Result<Socket> open_one();
};

}  // namespace ipoib::linux
