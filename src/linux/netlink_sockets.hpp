// The two rtnetlink sockets of who follows a table of the kernel: one that is told of changes, and
// one for questions.
#pragma once

#include <memory>

#include "ipoib/result.hpp"

struct nl_sock;

namespace ipoib::host {

struct NetlinkSockets {
  struct Free {
    void operator()(nl_sock* socket) const;
  };
  using Socket = std::unique_ptr<nl_sock, Free>;

  Socket events;  ///< non-blocking; a member of no group yet
  Socket queries;

  /// In the network namespace of the calling thread.
  [[nodiscard]] static Result<NetlinkSockets> open();
};

}  // namespace ipoib::host
