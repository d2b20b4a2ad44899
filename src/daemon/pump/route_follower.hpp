// Keeps the routes of an interface's links as new as the packets of the host.
//
// The kernel announces a change before the call that makes it returns. So announcements are read
// after packets have been taken out of the TUN, and before they are sent. Each change goes to the
// links by itself, so that thousands of them do not stop the packets.
//
// The control thread reads all routes at times (HostView), since the kernel makes some changes in
// silence. What was announced since it began is made again on top of that.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ipoib/route_changes.hpp"
#include "ipoib/time.hpp"
#include "link/link.hpp"
#include "linux/route_source.hpp"

namespace ipoib::daemon {

class RouteFollower {
 public:
  /// Without packets, announcements are read this often by a thread that does not sleep.
  static constexpr Duration kInterval = std::chrono::milliseconds(1);
  /// Changes are kept for this long: reading all routes takes less.
  static constexpr Duration kKept = std::chrono::seconds(10);
  static constexpr std::size_t kMaxKept = 65536;

  /// Null on a TAP, whose kernel finds the next hops itself.
  explicit RouteFollower(std::unique_ptr<linux::RouteSource> source) : source_(std::move(source)) {}

  /// For WakeSource::routes; -1 if there is none.
  [[nodiscard]] int descriptor() const { return source_ ? source_->descriptor() : -1; }
  /// A link that follows the routes until it is removed, or outlives this.
  void add(link::Link& link) { links_.push_back(&link); }
  void remove(const link::Link& link) { std::erase(links_, &link); }
  /// To be called at the beginning of each turn.
  void turn(TimePoint now);
  /// To be called when announcements may have come that are older than a packet.
  void refresh(TimePoint now);
  /// The links have got a view which the control thread began to read at `began`.
  void on_view(TimePoint began, TimePoint now);
  void rename(const std::string& name) {
    if (source_ != nullptr) source_->rename(name);
  }
  /// Whether a new view is needed, since something is not known. The caller resets it when it has
  /// asked for one.
  [[nodiscard]] bool& wants_view() { return wants_view_; }

 private:
  struct Kept {
    TimePoint read;  ///< not before; kNever until the turn after that
    RouteChange change;
  };
  void keep(std::vector<RouteChange>& changes, TimePoint now);
  void pass_on(std::span<const RouteChange> changes, TimePoint now);

  std::unique_ptr<linux::RouteSource> source_;
  std::vector<link::Link*> links_;
  TimePoint next_read_{};
  std::deque<Kept> kept_;
  TimePoint kept_since_{};  ///< all changes that were read later are in kept_
  bool wants_view_ = false;
  std::vector<RouteChange> changes_;  ///< a member, so that its memory is reused
};

}  // namespace ipoib::daemon
