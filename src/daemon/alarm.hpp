// Calls a function at a time, on an io_context.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "ipoib/time.hpp"

namespace ipoib::daemon {

/// Set for at most one time. No call comes for a time that was replaced, nor once the alarm is
/// gone, even one that was due already; so its owner may go at any time but during the call.
class Alarm {
 public:
  Alarm(boost::asio::io_context& context, std::function<void()> ring)
      : state_(std::make_shared<State>(context, std::move(ring))) {}
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm() { set(kNever); }

  [[nodiscard]] bool is_set() const { return state_->due != kNever; }
  /// kNever: no call any more.
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
