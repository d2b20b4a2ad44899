// Posts messages to an interface's thread, in order, as soon as its mailbox has room.
#pragma once

#include <boost/asio/io_context.hpp>
#include <deque>
#include <utility>

#include "daemon/process/timer.hpp"
#include "daemon/pump/messages.hpp"

namespace ipoib::daemon {

class InterfaceOutbox {
 public:
  InterfaceOutbox(boost::asio::io_context& context, InterfaceMailbox& to)
      : to_(to), timer_(context, [this] { deliver(); }) {}

  /// Posts a message now or later. While it waits, a later one may replace it: of most kinds only
  /// the last one counts. The others are bounded by the link's requests and the port's objects.
  void post(ToInterface message);
  /// Posts a message now or not at all; `message` is then unchanged.
  [[nodiscard]] bool try_post(ToInterface&& message) {
    return waiting_.empty() && to_.post(std::move(message));
  }

 private:
  void deliver();

  InterfaceMailbox& to_;
  Timer timer_;
  std::deque<ToInterface> waiting_;  ///< oldest first
};

}  // namespace ipoib::daemon
