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
class Alarm {
 public:
  Alarm(boost::asio::io_context& context, std::function<void()> ring)
      : state_(std::make_shared<State>(context, std::move(ring))) {}
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm() { set(kNever); }

  [[nodiscard]] bool is_set() const { return state_->due != kNever; }
  /// kNever cancels it.
  void set(TimePoint due) {
    if (due == state_->due) return;
    state_->due = due;
    if (due == kNever) {
      state_->timer.cancel();
      return;
    }
    state_->timer.expires_at(Timer::time_point(due.time_since_epoch()));
    state_->timer.async_wait(
        [weak = std::weak_ptr(state_), due](const boost::system::error_code& error) {
          const auto alive = weak.lock();
          if (error || !alive || alive->due != due) return;
          alive->due = kNever;
          alive->ring();
        });
  }

 private:
  using Timer = boost::asio::steady_timer;
  struct State {
    State(boost::asio::io_context& context, std::function<void()> function)
        : timer(context), ring(std::move(function)) {}
    Timer timer;
    std::function<void()> ring;
    TimePoint due = kNever;
  };

  std::shared_ptr<State> state_;
};

}  // namespace ipoib::daemon
