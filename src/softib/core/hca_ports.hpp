// The ports of an HCA by number, also those that have no cable.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <ranges>
#include <span>

#include "softib/core/fabric_types.hpp"

namespace softib {

class HcaPorts {
 public:
  /// Of an HCA that has this port. The others have no cable until set().
  explicit HcaPorts(const PortAttributes& port);

  [[nodiscard]] std::uint8_t count() const { return count_; }
  [[nodiscard]] bool has(unsigned number) const { return number >= 1 && number <= count_; }
  /// Requires has(`number`).
  [[nodiscard]] const PortAttributes& operator[](unsigned number) const {
    assert(has(number));
    return ports_[number - 1];
  }
  /// Replaces the port of this number. Requires has(`port.number`).
  void set(const PortAttributes& port) {
    assert(has(port.number));
    ports_[port.number - 1U] = port;
  }
  // Both refer to this object, so a loop over the ports of a temporary one does not compile.
  [[nodiscard]] std::span<const PortAttributes> all() const& {
    return std::span(ports_).first(count_);
  }
  std::span<const PortAttributes> all() const&& = delete;
  /// Those that have a cable.
  [[nodiscard]] auto cabled() const& {
    return all() | std::views::filter(&PortAttributes::has_cable);
  }
  auto cabled() const&& = delete;
  /// An HCA with an Ethernet port has no other one.
  [[nodiscard]] bool are_ethernet() const { return ports_.front().is_ethernet(); }
  /// An HCA fails as a whole.
  [[nodiscard]] bool have_failed() const { return ports_.front().failed; }
  /// The port that programs get which name none: the first one that is active, or else that is not
  /// down, or else that has a cable.
  [[nodiscard]] const PortAttributes& preferred() const;

 private:
  std::uint8_t count_;
  std::array<PortAttributes, kMaxHcaPorts> ports_;
};

}  // namespace softib
