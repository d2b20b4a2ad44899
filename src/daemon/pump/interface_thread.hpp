// The thread of an interface, joined at the end of the scope that started it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "daemon/pump/messages.hpp"

namespace ipoib::daemon {

class InterfaceThread {
 public:
  /// Runs `body`, which reads `inbox` and returns after Stop. `inbox` outlives this.
  InterfaceThread(std::function<void()> body, InterfaceMailbox& inbox) : inbox_(inbox) {
    thread_ = std::thread([this, body = std::move(body)] {
      body();
      ended_ = true;
    });
  }
  InterfaceThread(const InterfaceThread&) = delete;
  InterfaceThread& operator=(const InterfaceThread&) = delete;
  /// Posts Stop unless the body has returned, and joins the thread.
  ~InterfaceThread() {
    while (!ended_ && !inbox_.post(Stop{})) std::this_thread::sleep_for(kFullPause);
    thread_.join();
  }

 private:
  /// Pause between two attempts to post to a full mailbox.
  static constexpr std::chrono::milliseconds kFullPause{1};

  InterfaceMailbox& inbox_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace ipoib::daemon
