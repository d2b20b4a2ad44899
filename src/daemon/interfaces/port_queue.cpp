#include "daemon/interfaces/port_queue.hpp"

#include <algorithm>

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

PortSides::PortSides(const PortDevices& devices, const Options& options, std::size_t more,
                     Logger& log) {
  for (const PortRole role : kPortRoles) {
    if (devices[role]) add(role, std::make_unique<PortSide>(devices[role], options, more, log));
  }
}

std::vector<int> PortSides::descriptors() const {
  std::vector<int> all;
  for (const auto& of_port : sides_.values) {
    if (!of_port.empty()) all.push_back(of_port.back()->queue.queue_pair->descriptor());
  }
  return all;
}

bool PortSides::can_send_large_packets() const {
  return std::ranges::all_of(sides_.values, [](const auto& of_port) {
    return of_port.empty() || of_port.back()->queue.queue_pair->can_send_large_packets();
  });
}

}  // namespace ipoib::daemon
