// IP addresses that the operator has pinned to a GID: only the port with this GID may have them.
// The QPN is learnt as usual, since it changes whenever the neighbour's daemon starts.
//
// Only ARP and Neighbour Discovery messages and operators ask for pins; packets use entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::link {

class Pins {
 public:
  /// The number of a pin, in the order of creation.
  using Number = std::uint32_t;
  struct Pin {
    Gid gid;
    Number number = 0;
  };

  explicit Pins(std::size_t limit) : limit_(limit) {}

  /// Adds or replaces a pin. Returns false if there is no room.
  [[nodiscard]] bool set(const IpAddress& address, const Gid& gid);
  /// Removes a pin. Returns false if there was none.
  bool erase(const IpAddress& address);
  /// The GID that an address is pinned to; null if there is none.
  [[nodiscard]] const Gid* find(const IpAddress& address) const;
  /// Whether the port with the GID may have the address.
  [[nodiscard]] bool permit(const IpAddress& address, const Gid& gid) const {
    const Gid* const pinned = find(address);
    return pinned == nullptr || *pinned == gid;
  }
  [[nodiscard]] std::size_t size() const { return pins_.size(); }
  /// Returns the pinned address with the least number from `from` on, and sets `from` to the next
  /// number; nullopt at the end.
  [[nodiscard]] std::optional<IpAddress> next(Number& from) const;

 private:
  const std::size_t limit_;
  std::map<IpAddress, Pin> pins_;
  std::map<Number, IpAddress> by_number_;
  Number next_number_ = 0;
};

}  // namespace ipoib::link
