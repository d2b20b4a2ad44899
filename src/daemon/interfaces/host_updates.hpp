// When the control thread reads the host's configuration of an interface: after the kernel has
// announced a change, and for changes that it does not announce.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/process/timer.hpp"
#include "daemon/process/watch.hpp"
#include "daemon/pump/messages.hpp"
#include "ipoib/backoff.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/trace.hpp"
#include "linux/host_mirror.hpp"

namespace ipoib::daemon {

class HostUpdates {
 public:
  /// All of these outlive it.
  struct Dependencies {
    boost::asio::io_context& context;
    host::HostMirror& host;
    TraceRing& trace;
    Logger& log;
    std::function<void(HostChanged)> changed;
    std::function<void()>
        updated;  ///< called after each reading, whether or not that has succeeded
  };
  explicit HostUpdates(Dependencies dependencies);

  /// The configuration is read soon, in any case.
  void update_soon();
  /// There may be a change that the kernel has not announced.
  void expect_change();
  /// `changed` is called soon, whether or not there is a change.
  void expect_view();
  /// The host may have followed a redirect.
  void expect_redirect();
  /// The settings for ARP were used.
  void check_arp_policy();

 private:
  void on_event();
  void update();
  void check_redirects();
  [[nodiscard]] std::shared_ptr<link::HostRoutes> take_routes(HostView& view);

  Dependencies dependencies_;
  Timer timer_;
  Timer redirect_timer_;
  Watch watch_;
  TimePoint not_before_{};
  TimePoint redirects_not_before_{};
  bool is_late_ = false;        ///< the timer is set for changes that can wait
  bool has_redirects_ = false;  ///< in the last view
  Retry retry_;
  std::vector<std::shared_ptr<link::HostRoutes>> routes_given_;  ///< to destroy them here
};

}  // namespace ipoib::daemon
