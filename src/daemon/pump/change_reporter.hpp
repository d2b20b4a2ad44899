// Reports changes of an interface to the control thread, for subscribers.
//
// Runs on the interface's thread. Nothing happens while nobody has subscribed. Otherwise a report
// has at most kMaxEvents, and there is a pause between two reports, so that the cost is bounded
// however much changes: what the link does not keep meanwhile is counted as lost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/events.hpp"
#include "daemon/pump/admin.hpp"
#include "link/link.hpp"

namespace ipoib::daemon {

class ChangeReporter {
 public:
  static constexpr std::size_t kMaxEvents = 128;
  static constexpr std::size_t kMaxStationEvents = 64;  ///< waiting; included in kMaxEvents
  static constexpr Duration kPause = std::chrono::milliseconds(20);

  /// Reports on these topics from now on.
  void watch(const control::Topics& topics, link::Link& link, const InterfaceState& state);
  [[nodiscard]] bool is_on() const { return is_on_; }
  /// Something has happened to the address of a station.
  void on_station(const ethernet::StationEvent& event, const InterfaceState& state, TimePoint now);
  /// The events of the next report, if there are any and it is time.
  [[nodiscard]] std::vector<control::Event> take(link::Link& link, const InterfaceState& state,
                                                 TimePoint now);
  /// Another link serves the interface from now on.
  void move(link::Link& from, link::Link& to, TimePoint now);
  /// A report was lost.
  void on_lost(const std::vector<control::Event>& events);
  /// When to call take() again at the latest.
  [[nodiscard]] TimePoint next_deadline(link::Link& link) const;

 private:
  /// What a LinkEvent is about. Compared once a turn, so it has no text while the link is up.
  struct Summary {
    link::LinkState state{};
    std::string waiting_for;
    bool admin_up = false;
    std::uint32_t mtu = 0;
    HwAddress hardware;
    Lid lid;
    Lid sm_lid;
    QKey qkey;
    bool limited = false;
    std::uint32_t host_mtu = 0;
    PortRole active = PortRole::primary;
    friend bool operator==(const Summary&, const Summary&) = default;
  };
  [[nodiscard]] static Summary summary(const link::Link& link, const InterfaceState& state);
  [[nodiscard]] static std::vector<std::string> differences(const Summary& before,
                                                            const Summary& now);

  bool is_on_ = false;
  bool wants_link_ = false;
  bool wants_stations_ = false;
  link::Changes::Wanted wanted_;
  std::vector<control::Event> stations_;
  Summary reported_;
  Summary before_;  ///< the last report
  bool is_link_pending_ = false;
  std::uint64_t lost_ = 0;
  TimePoint not_before_{};
};

}  // namespace ipoib::daemon
