// Chooses the IPv6 link-local address of an interface.
#pragma once

#include <optional>

#include "daemon/interfaces/ipv6_identity.hpp"

namespace ipoib::daemon {

class LinkLocalChoice {
 public:
  /// Addresses to try, until one of them has no other owner.
  static constexpr unsigned kAttempts = 16;

  /// With `by_kernel` the kernel chooses (--stable-privacy), and this never does.
  LinkLocalChoice(Guid port, PKey pkey, bool by_kernel)
      : port_(port), pkey_(pkey), by_kernel_(by_kernel) {}

  /// Returns the address that replaces the current one if the port has another GUID now.
  [[nodiscard]] std::optional<Ipv6Address> on_guid(Guid port) {
    if (by_kernel_ || port == port_) return std::nullopt;
    port_ = port;
    attempt_ = 0;
    return link_local_of(port_, pkey_);
  }
  /// The current address has another owner: returns the next one, if any is left.
  [[nodiscard]] std::optional<Ipv6Address> on_duplicate() {
    if (by_kernel_ || attempt_ == kAttempts) return std::nullopt;
    return link_local_of(port_, pkey_, ++attempt_);
  }

 private:
  Guid port_;
  PKey pkey_;
  bool by_kernel_;
  unsigned attempt_ = 0;
};

}  // namespace ipoib::daemon
