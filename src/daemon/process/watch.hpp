// Calls a function whenever a descriptor is readable, on an io_context.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <utility>

namespace ipoib::daemon {

/// The descriptor outlives the watch, which does not own it. The function is not called after the
/// watch is destroyed, even if the call was due. The watch must not be destroyed within a call.
class Watch {
 public:
  Watch(boost::asio::io_context& context, int fd, std::function<void()> readable)
      : state_(std::make_shared<State>(context, fd, std::move(readable))) {
    wait(state_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { (void)state_->descriptor.release(); }

  /// No more calls. May be used within a call.
  void stop() { state_->watching = false; }

 private:
  struct State {
    State(boost::asio::io_context& context, int fd, std::function<void()> function)
        : descriptor(context, fd), readable(std::move(function)) {}
    boost::asio::posix::stream_descriptor descriptor;
    std::function<void()> readable;
    bool watching = true;
  };

  static void wait(const std::shared_ptr<State>& state) {
    using Descriptor = boost::asio::posix::stream_descriptor;
    state->descriptor.async_wait(
        Descriptor::wait_read,
        [weak = std::weak_ptr(state)](const boost::system::error_code& error) {
          const auto alive = weak.lock();
          if (error || !alive) return;
          alive->readable();
          if (alive->watching) wait(alive);
        });
  }

  std::shared_ptr<State> state_;
};

}  // namespace ipoib::daemon
