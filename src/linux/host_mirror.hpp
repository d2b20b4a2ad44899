// Seam: a mirror of the host's configuration of one interface. Implemented by NetlinkView, and in
// memory by tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ipoib/host_view.hpp"
#include "ipoib/result.hpp"

namespace ipoib::linux {

class HostMirror {
 public:
  virtual ~HostMirror() = default;

  /// Readable when the host's configuration may have changed.
  [[nodiscard]] virtual int descriptor() const = 0;
  /// The part that update() would read again.
  enum class Pending : std::uint8_t {
    none,
    routes,  ///< only routes and rules, whose changes RouteSource announces as well
    any,
  };
  /// Reads pending notifications; the descriptor is still readable if there are more than a limit.
  /// Returns whether to call update(), which the caller may delay: one call covers any number of
  /// notifications.
  [[nodiscard]] virtual Pending take_events() = 0;
  /// Makes the next update() look for a change that the kernel may not have announced.
  virtual void expect_change() = 0;
  /// The next update() returns a snapshot, whatever was returned before.
  virtual void expect_routes() = 0;
  /// Returns a snapshot if it differs from the last one returned, or if routes have changed since;
  /// the first call always returns one. An interface that is administratively down has no addresses
  /// and no routes.
  [[nodiscard]] virtual Result<std::optional<HostView>> update() = 0;
  /// False once the interface was deleted, or moved to another network namespace.
  [[nodiscard]] virtual bool interface_exists() const = 0;
  /// Whether the kernel replies to an ARP request for `target`, received from `sender`, if its
  /// settings leave that to the routes: arp_filter, proxy_arp, proxy_arp_pvlan, proxied neighbours.
  [[nodiscard]] virtual bool permits_reply(Ipv4Address target, Ipv4Address sender) = 0;
  /// The settings for ARP, for any thread; null if there are none. The mirror outlives its use.
  [[nodiscard]] virtual const ArpPolicySource* arp_policy() const { return nullptr; }
  /// Compares the settings for ARP and the proxied neighbours with those of the last snapshot; the
  /// kernel does not announce their changes. Returns whether to call update().
  [[nodiscard]] virtual bool check_arp_policy() = 0;
  /// The interface's name at the last update(); empty before.
  [[nodiscard]] virtual const std::string& interface_name() const = 0;
  /// Sets the name of a VLAN, which has no network interface, and so no name of the kernel's.
  virtual void set_interface_name(const std::string& /*name*/) {}
  /// Whether another host or interface had the link-local address at the last update().
  [[nodiscard]] virtual bool link_local_is_duplicate() const = 0;
  /// The next update() replaces the link-local address, unless the kernel generates it.
  virtual void set_link_local(const Ipv6Address& address) = 0;
};

}  // namespace ipoib::linux
