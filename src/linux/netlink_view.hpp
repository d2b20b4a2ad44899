// Mirror of what the host has configured on one interface, over rtnetlink.
//
// Notifications only say that something has changed; what is there now is always asked for anew
// with a dump. So a lost notification (ENOBUFS) costs one dump and nothing else, and there is one
// way in which the mirror can come to be.
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
  /// Subscribes to changes of links, addresses, forwarding, routes, rules and, where the kernel
  /// announces them, multicast groups of the current network namespace. The interface is given the
  /// address `link_local` whenever it comes up, and IPv6 on it: the kernel cannot make it from the
  /// port's GUID.
  [[nodiscard]] static Result<std::unique_ptr<NetlinkView>> open(
      int interface_index, const std::optional<Ipv6Address>& link_local = std::nullopt);

  /// Readable when the host's configuration may have changed.
  [[nodiscard]] int descriptor() const;
  /// Takes in the notifications at hand. Whether update() may have something, and is to be called;
  /// when is the caller's choice: one update covers any number of notifications.
  [[nodiscard]] bool take_events();
  /// Something has changed that the kernel may not have announced.
  void expect_change() { dirty_ = true; }
  /// A snapshot when it differs from the last one returned; the first call always returns one. An
  /// interface that is administratively down has no addresses and no routes.
  [[nodiscard]] Result<std::optional<HostView>> update();
  [[nodiscard]] bool interface_exists() const { return exists_; }

 private:
  NetlinkView(NetlinkSockets sockets, HostGroups groups, int interface_index,
              const std::optional<Ipv6Address>& link_local);
  [[nodiscard]] bool drain_events();
  [[nodiscard]] Result<HostView> take_snapshot();
  [[nodiscard]] Result<void> give_link_local();

  NetlinkSockets::Socket events_;
  NetlinkSockets::Socket queries_;
  HostGroups groups_;
  int interface_index_;
  std::optional<Ipv6Address> link_local_;
  bool exists_ = true;
  bool has_link_local_ = false;
  bool dirty_ = true;  ///< a change was announced and not looked at yet
  std::optional<HostView> last_;
};

}  // namespace ipoib::host
