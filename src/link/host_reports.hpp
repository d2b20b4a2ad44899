// Follows the parts of the host's configuration that the kernel does not announce: reads them again
// before they are used, or reports that they may have changed. Each kind is limited, since the
// fabric may cause any number of them.
#pragma once

#include <algorithm>
#include <chrono>

#include "ipoib/time.hpp"
#include "link/host_addresses.hpp"
#include "link/output.hpp"

namespace ipoib::link {

class HostReports {
 public:
  /// The time between two reports of one kind.
  static constexpr Duration kInterval = std::chrono::seconds(1);

  /// How old the policy for ARP may be when it is used.
  static constexpr Duration kPolicyAge = std::chrono::milliseconds(1);
  /// How old the policy may be for requests that are not for this host: on a large subnet there are
  /// many, and only a proxy answers them.
  static constexpr Duration kProxyPolicyAge = std::chrono::milliseconds(100);

  /// Both arguments outlive this object.
  HostReports(HostAddresses& host, Output& out) : host_(host), out_(out) {}

  /// A router has sent a redirect. One within the interval is reported at its end: the host may
  /// have followed this one only.
  void redirect_received(TimePoint now) {
    if (redirect_at_ != kNever) return;
    redirect_at_ = std::max(now, redirects_not_before_);
    tick(now);
  }
  void tick(TimePoint now) {
    if (redirect_at_ > now) return;
    redirect_at_ = kNever;
    redirects_not_before_ = now + kInterval;
    out_.events.emplace_back(RedirectReceived{});
  }
  /// To be called before the policy for ARP is used. The next report is soon enough for proxied
  /// neighbours that have been added.
  void use_arp_policy(TimePoint now, Duration age = kPolicyAge) {
    host_.refresh_policy(age, now);
    if (now < policy_known_until_) return;
    policy_known_until_ = now + kInterval;
    out_.events.emplace_back(ArpPolicyUsed{});
  }
  [[nodiscard]] TimePoint next_deadline() const { return redirect_at_; }

 private:
  HostAddresses& host_;
  Output& out_;
  TimePoint redirect_at_ = kNever;  ///< when to report the redirects received since the last report
  TimePoint redirects_not_before_{};
  TimePoint policy_known_until_{};
};

}  // namespace ipoib::link
