// Mirrors the host's configuration of one interface over rtnetlink. If that is a port of a bridge
// or bond, mirrors the configuration of the bridge or bond, which has the host's addresses.
//
// Notifications only trigger a new dump of the kernel's tables; their contents are not used. A lost
// notification (ENOBUFS) thus costs no more than a dump.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ipoib/host_view.hpp"
#include "ipoib/result.hpp"
#include "linux/arp_settings.hpp"
#include "linux/host_groups.hpp"
#include "linux/host_mirror.hpp"
#include "linux/link_local.hpp"
#include "linux/netlink_sockets.hpp"
#include "linux/route_reader.hpp"

namespace ipoib::linux {

class NetlinkView final : public HostMirror {
 public:
  /// Subscribes, in the current network namespace, to changes of links, addresses, forwarding,
  /// routes, rules and, if the kernel announces them, multicast groups. update() adds the address
  /// `link_local` whenever the interface or IPv6 on it has come up: the kernel cannot derive it
  /// from the port's GUID.
  [[nodiscard]] static Result<std::unique_ptr<NetlinkView>> open(
      int interface_index, const std::optional<Ipv6Address>& link_local = std::nullopt);

  [[nodiscard]] int descriptor() const override;
  [[nodiscard]] Pending take_events() override;
  void expect_change() override { pending_ = Pending::any; }
  void expect_routes() override {
    pending_ = Pending::any;
    routes_changed_ = true;
  }
  [[nodiscard]] Result<std::optional<HostView>> update() override;
  [[nodiscard]] bool interface_exists() const override { return exists_; }
  [[nodiscard]] bool permits_reply(Ipv4Address target, Ipv4Address sender) override;
  [[nodiscard]] const ArpPolicySource* arp_policy() const override { return &arp_; }
  [[nodiscard]] bool check_arp_policy() override;
  [[nodiscard]] const std::string& interface_name() const override { return name_; }
  [[nodiscard]] bool link_local_is_duplicate() const override { return is_duplicate_; }
  void set_link_local(const Ipv6Address& address) override;

 private:
  NetlinkView(NetlinkSockets sockets, HostGroups groups, int interface_index,
              const std::optional<Ipv6Address>& link_local);
  void drain_events();
  [[nodiscard]] Result<HostView> take_snapshot();
  [[nodiscard]] Result<void> ensure_link_local(std::uint32_t mtu);
  [[nodiscard]] Result<std::vector<Ipv4Address>> read_proxied_addresses();

  NetlinkSockets::Socket events_;
  NetlinkSockets::Socket queries_;
  HostGroups groups_;
  ArpSettings arp_;
  std::string name_;  ///< of the interface, in the last snapshot
  int interface_index_;
  InterfaceName configured_;  ///< has the addresses and routes: the interface, or its master
  LinkLocal link_local_;
  bool exists_ = true;
  bool is_duplicate_ = false;       ///< the link-local address is
  Pending pending_ = Pending::any;  ///< what was announced since the last snapshot
  bool routes_changed_ = false;     ///< perhaps, since the last snapshot that was returned
  std::optional<HostView> last_;
};

}  // namespace ipoib::linux
