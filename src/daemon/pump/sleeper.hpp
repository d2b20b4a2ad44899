// Seam: how the thread of an interface reads the clock and sleeps. Implemented with epoll, and in
// virtual time by tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ipoib/monotonic_clock.hpp"
#include "ipoib/time.hpp"
#include "linux/poller.hpp"

namespace ipoib::daemon {

/// What ends a sleep, besides its deadline.
enum class WakeSource : std::uint32_t { host, completions, messages, routes };
/// Which sources have ended a sleep.
struct WokenBy {
  bool completions = false;
  bool routes = false;
};

class Sleeper {
 public:
  virtual ~Sleeper() = default;
  [[nodiscard]] virtual TimePoint now() = 0;
  /// Sleeps until a source is ready or the deadline has passed. Returns some of the sources.
  [[nodiscard]] virtual WokenBy sleep(TimePoint now, TimePoint deadline) = 0;
};

class EpollSleeper final : public Sleeper {
 public:
  struct Descriptors {
    int host = -1;
    std::vector<int> completions = {};
    int messages = -1;
    int routes = -1;  ///< optional
  };
  explicit EpollSleeper(const Descriptors& descriptors) {
    poller_.add(descriptors.host, tag(WakeSource::host));
    for (const int each : descriptors.completions) poller_.add(each, tag(WakeSource::completions));
    poller_.add(descriptors.messages, tag(WakeSource::messages));
    if (descriptors.routes >= 0) poller_.add(descriptors.routes, tag(WakeSource::routes));
  }

  /// Adds a part of the interface later, while another thread may be in sleep().
  void add_completions(int descriptor) { poller_.add(descriptor, tag(WakeSource::completions)); }

  [[nodiscard]] TimePoint now() override { return monotonic_now(); }
  [[nodiscard]] WokenBy sleep(TimePoint now, TimePoint deadline) override {
    WokenBy woken;
    for (const auto ready : poller_.wait(now, deadline)) {
      woken.completions |= ready == tag(WakeSource::completions);
      woken.routes |= ready == tag(WakeSource::routes);
    }
    return woken;
  }

 private:
  static constexpr std::uint32_t tag(WakeSource source) {
    return static_cast<std::uint32_t>(source);
  }
  linux::Poller poller_;
};

}  // namespace ipoib::daemon
