// What lies between a TUN and its link: nothing, or on a TAP the Ethernet view of the link.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/pump/shared_view.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/should_log.hpp"
#include "link/link.hpp"

namespace ipoib::daemon {

class HostSide {
 public:
  struct Settings {
    bool ethernet = false;            ///< the TUN is a TAP
    std::size_t neighbours = 0;       ///< limit of the addresses that the view knows
    std::size_t stations = 0;         ///< limit of the stations behind a TAP
    bool strict_source = false;       ///< see ethernet::View::Limits
    std::uint32_t solicitations = 0;  ///< the same
  };
  /// `link` and `log` outlive it.
  HostSide(link::Link& link, Logger& log, const HashKey& key, const Settings& settings);
  HostSide(const HostSide&) = delete;
  HostSide& operator=(const HostSide&) = delete;

  /// Uses the view of the interface's other port in place of its own.
  void share_view_of(const HostSide& other, TimePoint now);
  /// The links of the interface are shut down; only draining follows.
  void stop_view() {
    if (shared_) shared_->remove_all();
  }
  /// Gives the view up, and is not used any more.
  void leave_view();

  /// The headroom for TunPort::read().
  [[nodiscard]] std::size_t headroom() const;
  /// Passes packets of the host to the link.
  void send(std::vector<Frame>& packets, TimePoint now);
  /// The packets for the host; the caller takes them out.
  [[nodiscard]] std::vector<Frame>& received(TimePoint now);
  /// The packets for the host while another port serves the interface: the view does not learn from
  /// this link.
  [[nodiscard]] std::vector<Frame>& received_in_standby(TimePoint now);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;
  /// The host's configuration has changed.
  void on_changed(const HostView& view, TimePoint now,
                  std::shared_ptr<link::HostRoutes> routes = nullptr);
  /// Serves stations as the daemon before has done, or listens for them; does nothing on a TUN.
  template <class Saved>  // ethernet::SavedStation or SavedGroup
  void restore(const std::vector<Saved>& saved, TimePoint now) {
    ethernet::Stations* const stations = view_ ? view_->stations() : nullptr;
    if (stations == nullptr || saved.empty()) return;
    stations->restore(saved, now);
    carry_out(now);
  }
  /// Null on a TUN.
  [[nodiscard]] const ethernet::View* ethernet() const {
    return shared_ ? &shared_->view() : nullptr;
  }
  /// What has happened to addresses of stations; the caller takes them out after each turn.
  [[nodiscard]] std::vector<ethernet::StationEvent>& station_events() {
    return shared_ ? shared_->events() : no_events_;
  }

 private:
  void carry_out(TimePoint now);
  void log(const ethernet::StationEvent& event, TimePoint now);
  void log(const ethernet::GroupsLeftOut& left_out, TimePoint now);

  link::Link& link_;
  Logger& log_;
  LogPause duplicates_;
  LogPause groups_left_out_;
  std::shared_ptr<SharedView> shared_;  ///< null on a TUN
  ethernet::View* view_ = nullptr;      ///< of shared_
  std::vector<ethernet::StationEvent> no_events_;
  /// Of a batch; a member, so that its memory is reused.
  std::vector<std::optional<IpAddress>> hops_;
};

}  // namespace ipoib::daemon
