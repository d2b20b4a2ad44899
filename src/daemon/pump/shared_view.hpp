// The Ethernet view of an interface, and the links that speak for its stations: one on each port.
//
// What the host and the stations know stays when the interface is moved to another port: MACs,
// addresses and groups of stations, and requests that nobody has answered yet.
#pragma once

#include <map>
#include <vector>

#include "ethernet/view.hpp"
#include "link/link.hpp"

namespace ipoib::daemon {

class SharedView {
 public:
  SharedView(const ethernet::View::Limits& limits, const HashKey& key)
      : view_(limits, key, messages_) {}

  [[nodiscard]] ethernet::View& view() { return view_; }
  [[nodiscard]] const ethernet::View& view() const { return view_; }
  /// What has happened to addresses of stations; the owner of the loop takes them out.
  [[nodiscard]] std::vector<ethernet::StationEvent>& events() { return events_; }

  /// The link learns what the others have been told so far. It outlives this, or is removed.
  void add(link::Link& link, TimePoint now);
  void remove(link::Link& link) { std::erase(links_, &link); }
  void remove_all() { links_.clear(); }  ///< before they are shut down
  /// Tells all links what the view wants of them. A link in standby keeps its announcements to
  /// itself.
  void tell_links(ethernet::Stations& stations, TimePoint now);

 private:
  static constexpr std::size_t kMessages = 1024;

  FramePool messages_{kMessages, ethernet::View::kMessageSize};
  ethernet::View view_;
  std::vector<link::Link*> links_;
  std::map<IpAddress, bool> served_;  ///< and whether they are routers; bounded by the view
  std::vector<IpAddress> groups_;
  std::vector<ethernet::StationEvent> events_;
};

}  // namespace ipoib::daemon
