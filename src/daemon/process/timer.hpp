// Calls a function at a given time, on an io_context.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "ipoib/time.hpp"

namespace ipoib::daemon {

/// Has at most one deadline. The function is not called for a replaced deadline, nor after the
/// timer is destroyed, even if the call was due. The timer must not be destroyed within a call.
class Timer {
 public:
  Timer(boost::asio::io_context& context, std::function<void()> on_expiry)
      : state_(std::make_shared<State>(context, std::move(on_expiry))) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { set(kNever); }

  [[nodiscard]] bool is_set() const { return state_->due != kNever; }
  /// kNever cancels it.
  void set(TimePoint due) {
    if (due == state_->due) return;
    state_->due = due;
    if (due == kNever) {
      state_->timer.cancel();
      return;
    }
    state_->timer.expires_at(boost::asio::steady_timer::time_point(due.time_since_epoch()));
    state_->timer.async_wait(
        [weak = std::weak_ptr(state_), due](const boost::system::error_code& error) {
          const auto alive = weak.lock();
          if (error || !alive || alive->due != due) return;
          alive->due = kNever;
          alive->on_expiry();
        });
  }

 private:
  struct State {
    State(boost::asio::io_context& context, std::function<void()> function)
        : timer(context), on_expiry(std::move(function)) {}
    boost::asio::steady_timer timer;
    std::function<void()> on_expiry;
    TimePoint due = kNever;
  };

  std::shared_ptr<State> state_;
};

}  // namespace ipoib::daemon
