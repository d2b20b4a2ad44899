#include "daemon/interfaces/port_queue.hpp"

namespace ipoib::daemon {

PortQueue::PortQueue(const verbs::Device& device, const Options& options, std::size_t more,
                     Logger& log)
    : PortQueue(device, device.query().value().max_mtu, options, more, log) {}

PortQueue::PortQueue(const verbs::Device& device, std::uint32_t max_mtu, const Options& options,
                     std::size_t more, Logger& log)
    : pools(max_mtu + more, options.link, options.queues),
      queue_pair(verbs::UdQueuePair::create(device, max_mtu, options.queues, log).value()) {
  for (FramePool* const pool : {&pools.host, &pools.large, &pools.messages}) {
    queue_pair->register_pool(*pool).value();
  }
}

PortQueues::PortQueues(const verbs::Device& primary, const verbs::Device* backup,
                       const Options& options, std::size_t more, Logger& log)
    : primary_(primary, options, more, log) {
  if (backup != nullptr) backup_.emplace(*backup, options, more, log);
}

std::vector<int> PortQueues::descriptors() const {
  std::vector<int> all{primary_.queue_pair->descriptor()};
  if (backup_) all.push_back(backup_->queue_pair->descriptor());
  return all;
}

bool PortQueues::can_send_large_packets() const {
  return primary_.queue_pair->can_send_large_packets() &&
         (!backup_ || backup_->queue_pair->can_send_large_packets());
}

void PortQueues::enable_large_receives() {
  primary_.queue_pair->enable_large_receives();
  if (backup_) backup_->queue_pair->enable_large_receives();
}

}  // namespace ipoib::daemon
