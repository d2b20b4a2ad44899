// What lies between a TUN and its link: nothing, or on a TAP the Ethernet view of the link.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ethernet/view.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/should_log.hpp"
#include "link/link.hpp"

namespace ipoib::daemon {

class HostSide {
 public:
  struct Settings {
    bool ethernet = false;       ///< the TUN is a TAP
    std::size_t neighbours = 0;  ///< limit of the addresses that the view knows
    std::size_t stations = 0;    ///< limit of the stations behind a TAP
  };
  /// `link`, `messages`, for messages of the view, and `log` outlive it.
  HostSide(link::Link& link, FramePool& messages, Logger& log, const HashKey& key,
           const Settings& settings);

  /// For TunPort::read().
  [[nodiscard]] std::size_t headroom() const;
  /// Passes packets of the host to the link.
  void send(std::vector<Frame>& packets, TimePoint now);
  /// The packets for the host; the caller takes them out.
  [[nodiscard]] std::vector<Frame>& received(TimePoint now);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;
  /// The host's configuration has changed.
  void on_changed(const HostView& view, TimePoint now);
  /// Null on a TUN.
  [[nodiscard]] const ethernet::View* ethernet() const { return view_ ? &*view_ : nullptr; }
  /// What has happened to addresses of stations; the caller takes them out after each turn.
  [[nodiscard]] std::vector<ethernet::StationEvent>& station_events() { return station_events_; }

 private:
  void carry_out(TimePoint now);
  void log(const ethernet::StationEvent& event, TimePoint now);
  void log(const ethernet::GroupsLeftOut& left_out, TimePoint now);

  link::Link& link_;
  Logger& log_;
  LogPause duplicates_;
  LogPause groups_left_out_;
  std::optional<ethernet::View> view_;
  std::vector<ethernet::StationEvent> station_events_;
  /// Of a batch; a member, so that its memory is reused.
  std::vector<std::optional<IpAddress>> hops_;
};

}  // namespace ipoib::daemon
