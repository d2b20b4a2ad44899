// The queue pair of an interface on one of its ports, and the frames that it uses.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/options/options.hpp"
#include "daemon/pump/pools.hpp"
#include "daemon/pump/port_role.hpp"
#include "daemon/pump/pump.hpp"
#include "ipoib/log_fwd.hpp"
#include "verbs/ud_queue_pair.hpp"

namespace ipoib::daemon {

/// The devices of the ports. The control thread replaces one that has failed, and is back.
using PortDevices = PerPort<std::shared_ptr<const verbs::Device>>;

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

/// The part of an interface on one of its ports, as long as the port's device works.
struct PortSide {
  PortSide(std::shared_ptr<const verbs::Device> on, const Options& options, std::size_t more,
           Logger& log)
      : device(std::move(on)), queue(*device, options, more, log) {}

  const std::shared_ptr<const verbs::Device> device;
  PortQueue queue;
  std::optional<Pump> pump;  ///< later, since it needs the TUN
};

/// The parts of an interface on all its ports. The last one of a port counts; earlier ones, whose
/// device has failed, are still used by the interface's thread.
class PortSides {
 public:
  /// `devices`: null if there is no backup. Throws std::runtime_error that says what is missing.
  PortSides(const PortDevices& devices, const Options& options, std::size_t more, Logger& log);

  [[nodiscard]] bool has(PortRole role) const { return !sides_[role].empty(); }
  [[nodiscard]] PortSide& operator[](PortRole role) { return *sides_[role].back(); }
  PortSide& add(PortRole role, std::unique_ptr<PortSide> side) {
    return *sides_[role].emplace_back(std::move(side));
  }
  /// Destroys the oldest part on the port.
  void release(PortRole role) { sides_[role].pop_front(); }
  /// The descriptors of the completion channels.
  [[nodiscard]] std::vector<int> descriptors() const;
  [[nodiscard]] bool can_send_large_packets() const;

 private:
  PerPort<std::deque<std::unique_ptr<PortSide>>> sides_;
};

}  // namespace ipoib::daemon
