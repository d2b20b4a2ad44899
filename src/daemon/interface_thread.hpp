// The interface's thread, which does not outlive the scope that started it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "daemon/messages.hpp"
#include "daemon/service.hpp"

namespace ipoib::daemon {

class InterfaceThread {
 public:
  /// Runs `body`, which reads `inbox` and returns after Stop; `inbox` outlives this.
  InterfaceThread(std::function<void()> body, InterfaceMailbox& inbox) : inbox_(inbox) {
    const EndingSignalsBlocked inherited;  // these are for the control thread
    thread_ = std::thread([this, body = std::move(body)] {
      body();
      ended_ = true;
    });
  }
  InterfaceThread(const InterfaceThread&) = delete;
  InterfaceThread& operator=(const InterfaceThread&) = delete;
  /// Tells it to stop, lest nobody has, and waits for its end.
  ~InterfaceThread() {
    while (!ended_ && !inbox_.post(Stop{})) std::this_thread::sleep_for(kFullPause);
    thread_.join();
  }

 private:
  /// Until a full mailbox is looked at again.
  static constexpr std::chrono::milliseconds kFullPause{1};

  InterfaceMailbox& inbox_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace ipoib::daemon
