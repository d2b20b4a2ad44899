// What lies between a TUN and its link: nothing, or on a TAP the Ethernet view of the link.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ethernet/view.hpp"
#include "link/link.hpp"

namespace ipoib::daemon {

class HostSide {
 public:
  struct Settings {
    bool ethernet = false;       ///< the TUN is a TAP
    std::size_t neighbours = 0;  ///< limit of the addresses that the view knows
  };
  /// `link` and `messages`, for messages of the view, outlive it.
  HostSide(link::Link& link, FramePool& messages, const HashKey& key, const Settings& settings);

  /// For TunPort::read().
  [[nodiscard]] std::size_t headroom() const;
  /// Passes packets of the host to the link.
  void send(std::vector<Frame>& packets, TimePoint now);
  /// The packets for the host; the caller takes them out.
  [[nodiscard]] std::vector<Frame>& received();
  /// The host's configuration has changed.
  void on_changed(const HostView& view, TimePoint now);
  /// Null on a TUN.
  [[nodiscard]] const ethernet::View* ethernet() const { return view_ ? &*view_ : nullptr; }

 private:
  link::Link& link_;
  std::optional<ethernet::View> view_;
  std::vector<std::optional<IpAddress>> hops_;  ///< of a batch; a member, so that its memory is reused
};

}  // namespace ipoib::daemon
