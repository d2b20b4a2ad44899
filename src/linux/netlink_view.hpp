// Mirrors the host's configuration of one interface over rtnetlink.
//
// Notifications only trigger a new dump of the kernel's tables; their contents are not used. A lost
// notification (ENOBUFS) thus costs no more than a dump.
#pragma once

#include <memory>
#include <optional>

#include "ipoib/host_view.hpp"
#include "ipoib/result.hpp"
#include "linux/host_groups.hpp"
#include "linux/netlink_sockets.hpp"

namespace ipoib::host {

class NetlinkView {
 public:
  /// Subscribes, in the current network namespace, to changes of links, addresses, forwarding,
  /// routes, rules and, if the kernel announces them, multicast groups. update() adds the address
  /// `link_local` whenever the interface or IPv6 on it has come up: the kernel cannot derive it
  /// from the port's GUID.
  [[nodiscard]] static Result<std::unique_ptr<NetlinkView>> open(
      int interface_index, const std::optional<Ipv6Address>& link_local = std::nullopt);

  /// Readable when the host's configuration may have changed.
  [[nodiscard]] int descriptor() const;
  /// Reads pending notifications. Returns whether to call update(), which the caller may delay: one
  /// call covers any number of notifications.
  [[nodiscard]] bool take_events();
  /// Makes the next update() look for a change that the kernel may not have announced.
  void expect_change() { dirty_ = true; }
  /// Returns a snapshot if it differs from the last one returned; the first call always returns
  /// one. An interface that is administratively down has no addresses and no routes.
  [[nodiscard]] Result<std::optional<HostView>> update();
  [[nodiscard]] bool interface_exists() const { return exists_; }

 private:
  NetlinkView(NetlinkSockets sockets, HostGroups groups, int interface_index,
              const std::optional<Ipv6Address>& link_local);
  [[nodiscard]] bool drain_events();
  [[nodiscard]] Result<HostView> take_snapshot();
  [[nodiscard]] Result<void> ensure_link_local();

  NetlinkSockets::Socket events_;
  NetlinkSockets::Socket queries_;
  HostGroups groups_;
  int interface_index_;
  std::optional<Ipv6Address> link_local_;
  bool exists_ = true;
  bool has_link_local_ = false;
  bool dirty_ = true;  ///< a change was announced since the last snapshot
  std::optional<HostView> last_;
};

}  // namespace ipoib::host
