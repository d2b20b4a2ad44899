// Calls a function each time that a descriptor is readable, on an io_context.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <utility>

namespace ipoib::daemon {

/// The descriptor belongs to somebody else and outlives the watch.
class Watch {
 public:
  Watch(boost::asio::io_context& context, int fd, std::function<void()> readable)
      : descriptor_(context, fd), readable_(std::move(readable)) {
    wait();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { (void)descriptor_.release(); }

  /// No call of the function after this one; for the function itself.
  void stop() { watching_ = false; }

 private:
  void wait() {
    using Descriptor = boost::asio::posix::stream_descriptor;
    descriptor_.async_wait(Descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (error) return;  // the watch is gone
      readable_();
      if (watching_) wait();
    });
  }

  boost::asio::posix::stream_descriptor descriptor_;
  std::function<void()> readable_;
  bool watching_ = true;
};

}  // namespace ipoib::daemon
