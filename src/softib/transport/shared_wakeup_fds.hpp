// The wakeup descriptors that the connections of a process keep.
#pragma once

#include <mutex>

#include "ipoib/fair_share.hpp"

namespace softib::transport {

class PeerConnection;

/// Counts the further wakeup descriptors of connections, each of which has one of its own. For any
/// thread.
class SharedWakeupFds {
 public:
  explicit SharedWakeupFds(std::size_t most) : shares_(most) {}
  [[nodiscard]] bool take(const PeerConnection& connection) {
    const std::lock_guard lock(mutex_);
    return shares_.take(&connection);
  }
  /// Gives one back. Requires that the connection has one.
  void give_back(const PeerConnection& connection) {
    const std::lock_guard lock(mutex_);
    shares_.give_back(&connection);
  }

 private:
  std::mutex mutex_;
  ipoib::FairShare<const PeerConnection*> shares_;
};

}  // namespace softib::transport
