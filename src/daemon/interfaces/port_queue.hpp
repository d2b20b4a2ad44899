// The queue pair of an interface on one of its ports, and the frames that it uses.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "daemon/options/options.hpp"
#include "daemon/pump/pools.hpp"
#include "ipoib/log_fwd.hpp"
#include "verbs/ud_queue_pair.hpp"

namespace ipoib::daemon {

struct PortQueue {
  /// Frames have `more` bytes of headroom in addition to the link's. Throws std::runtime_error that
  /// says what is missing.
  PortQueue(const verbs::Device& device, const Options& options, std::size_t more, Logger& log);
  PortQueue(const PortQueue&) = delete;
  PortQueue& operator=(const PortQueue&) = delete;

  Pools pools;
  const std::unique_ptr<verbs::UdQueuePair> queue_pair;

 private:
  PortQueue(const verbs::Device& device, std::uint32_t max_mtu, const Options& options,
            std::size_t more, Logger& log);
};

/// Those on all ports of an interface.
class PortQueues {
 public:
  /// `backup` may be null. Throws std::runtime_error that says what is missing.
  PortQueues(const verbs::Device& primary, const verbs::Device* backup, const Options& options,
             std::size_t more, Logger& log);

  [[nodiscard]] PortQueue& primary() { return primary_; }
  [[nodiscard]] PortQueue* backup() { return backup_ ? &*backup_ : nullptr; }
  /// Of the completion channels.
  [[nodiscard]] std::vector<int> descriptors() const;
  [[nodiscard]] bool can_send_large_packets() const;
  void enable_large_receives();

 private:
  PortQueue primary_;
  std::optional<PortQueue> backup_;
};

}  // namespace ipoib::daemon
