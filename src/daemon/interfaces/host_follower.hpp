// Follows the host's configuration of an interface: reads it after the kernel has announced a
// change, and for changes that the kernel does not announce. Chooses the IPv6 link-local address.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/interfaces/link_local_choice.hpp"
#include "daemon/process/timer.hpp"
#include "daemon/process/watch.hpp"
#include "daemon/pump/messages.hpp"
#include "ipoib/backoff.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/trace.hpp"
#include "linux/host_mirror.hpp"

namespace ipoib::daemon {

class HostFollower {
 public:
  /// All of these outlive it.
  struct Dependencies {
    boost::asio::io_context& context;
    linux::HostMirror& host;
    TraceRing& trace;
    Logger& log;
    std::string interface;  ///< the network interface's name
    LinkLocalChoice link_local;
    std::function<void(HostChanged)> changed;
    std::function<void(const std::string&)> renamed;  ///< called with the interface's new name
    std::function<void()> gone;  ///< the network interface is no longer in its network namespace
  };
  explicit HostFollower(Dependencies dependencies);

  /// The primary port has this GUID.
  void on_guid(Guid guid);
  /// Calls `renamed` or `gone` if HostMirror says so.
  void check_interface();
  /// There may be a change that the kernel has not announced.
  void expect_change();
  /// `changed` is called soon, whether or not there is a change.
  void expect_view();
  /// The host may have followed a redirect.
  void expect_redirect();
  /// The settings for ARP were used.
  void check_arp_policy();
  [[nodiscard]] bool has_address(const IpAddress& address) const;
  [[nodiscard]] bool permits_reply(const wire::Arp& request);

 private:
  void on_event();
  void update();
  void take(HostView&& view, TimePoint began);
  void set_link_local(const Ipv6Address& address);
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
  std::vector<IpPrefix> addresses_;                              ///< in the last view
  std::vector<std::shared_ptr<link::HostRoutes>> routes_given_;  ///< to destroy them here
};

}  // namespace ipoib::daemon
