// Reports that something of the host may have changed which its kernel does not announce. Each kind
// is limited, since the fabric may cause any number of them.
#pragma once

#include <algorithm>
#include <chrono>

#include "ipoib/time.hpp"
#include "link/output.hpp"

namespace ipoib::link {

class HostReports {
 public:
  /// Between two reports of one kind.
  static constexpr Duration kInterval = std::chrono::seconds(1);

  /// `out` outlives it.
  explicit HostReports(Output& out) : out_(out) {}

  /// A redirect within the interval is reported at its end: the host may have followed this one
  /// only.
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
  /// The next use is soon enough for what has changed since the last report.
  void arp_policy_used(TimePoint now) {
    if (now < policy_known_until_) return;
    policy_known_until_ = now + kInterval;
    out_.events.emplace_back(ArpPolicyUsed{});
  }
  [[nodiscard]] TimePoint next_deadline() const { return redirect_at_; }

 private:
  Output& out_;
  TimePoint redirect_at_ = kNever;  ///< when to report the redirects received since the last report
  TimePoint redirects_not_before_{};
  TimePoint policy_known_until_{};
};

}  // namespace ipoib::link
