// The interfaces that a command watches: those that are named, or all that there are, also ones
// that come later.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "client.hpp"
#include "ipoib/ibarp.h"

namespace ipoib::ibarp {

class Watched {
 public:
  using Clock = std::chrono::steady_clock;
  /// Pause between two looks for new interfaces.
  static constexpr std::chrono::milliseconds kLook{500};

  /// `topics` and `interval_ms` are those of ibarp_subscribe().
  Watched(std::string device, std::uint32_t topics, std::uint32_t interval_ms)
      : device_(std::move(device)), topics_(topics), interval_ms_(interval_ms) {}

  /// Connects to the interfaces that are not watched yet. Returns the names of the new ones. Throws
  /// Failure if the named one cannot be watched, now and later.
  std::vector<std::string> look();
  /// The watched interfaces, by name.
  [[nodiscard]] std::map<std::string, Handle>& all() { return handles_; }
  /// Why look() could not connect to an interface; empty if there is none.
  [[nodiscard]] const std::string& why() const { return why_; }
  /// Waits until there may be an event, or until that time.
  void wait(Clock::time_point until);
  /// Waits in the same way. Returns false as soon as standard output is a pipe without reader.
  [[nodiscard]] bool wait_with_output(Clock::time_point until);
  /// Calls `on_event(name, event)` for each event that has come, and `on_end(name)` for each
  /// interface whose daemon has ended, which is not watched any more.
  void take(const std::function<void(const std::string&, const ibarp_event&)>& on_event,
            const std::function<void(const std::string&)>& on_end);

 private:
  void connect(const std::string& name);
  [[nodiscard]] short poll_until(Clock::time_point until, int output);

  std::string device_;
  std::uint32_t topics_;
  std::uint32_t interval_ms_;
  std::map<std::string, Handle> handles_;
  std::string why_;
};

}  // namespace ipoib::ibarp
