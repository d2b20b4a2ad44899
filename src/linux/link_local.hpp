// The IPv6 link-local address of an interface, which the kernel cannot derive from the port's GUID.
//
// The kernel removes it when the interface or IPv6 goes down. It removes IPv6 completely, with its
// settings, while the MTU is less than IPv6 needs.
#pragma once

#include <optional>

#include "ipoib/ip.hpp"
#include "ipoib/result.hpp"

struct nl_sock;
struct nlmsghdr;

namespace ipoib::linux {

class LinkLocal {
 public:
  /// The minimum MTU for IPv6 (RFC 8200, 5).
  static constexpr std::uint32_t kMinMtu = 1280;

  /// Without an address this object does nothing.
  LinkLocal(int interface_index, const std::optional<Ipv6Address>& address)
      : interface_index_(interface_index), address_(address) {}

  /// To call for each notification of rtnetlink(7).
  void on_event(nlmsghdr* message);
  /// To call when notifications were lost.
  void on_events_lost() { is_set_ = false; }
  /// Adds the address if the kernel may have removed it, but only once after IPv6 comes up on the
  /// interface, so that the operator can delete it.
  [[nodiscard]] Result<void> ensure(nl_sock* socket, std::uint32_t mtu);
  /// Changes the address; ensure() sets the new one.
  void replace(const Ipv6Address& address);
  /// Whether duplicate address detection has found another owner of the address (RFC 4862, 5.4).
  [[nodiscard]] Result<bool> is_duplicate(nl_sock* socket) const;

 private:
  int interface_index_;
  std::optional<Ipv6Address> address_;
  std::optional<Ipv6Address> former_;  ///< an address to be removed
  bool is_set_ = false;
  bool settings_lost_ = false;
};

}  // namespace ipoib::linux
