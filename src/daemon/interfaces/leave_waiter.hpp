// Delays the end of an interface until the SA has responded to its leaves.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <set>
#include <utility>

#include "daemon/process/timer.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::daemon {

class LeaveWaiter {
 public:
  /// The longest wait: enough for the SA to respond, and for one retry.
  static constexpr std::chrono::seconds kTimeout{3};

  /// Calls `done` once after wait().
  LeaveWaiter(boost::asio::io_context& context, std::function<void()> done)
      : done_(std::move(done)), timer_(context, [this] { end(); }) {}

  /// A request was sent.
  void on_request(const wire::SaRequest& request) {
    if (std::holds_alternative<wire::LeaveQuery>(request.query)) outstanding_.insert(request.id);
  }
  /// Returns whether it is the response to a leave.
  [[nodiscard]] bool on_response(wire::SaRequestId id) {
    if (outstanding_.erase(id) == 0) return false;
    if (outstanding_.empty() && timer_.is_set()) end();
    return true;
  }
  /// There are no further requests.
  void wait() {
    if (outstanding_.empty()) return end();
    timer_.set(monotonic_now() + kTimeout);
  }

 private:
  void end() {
    timer_.set(kNever);
    done_();
  }

  const std::function<void()> done_;
  std::set<wire::SaRequestId> outstanding_;
  Timer timer_;
};

}  // namespace ipoib::daemon
