// The services that the process listens on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "ipoib/result.hpp"
#include "softib/cm/events.hpp"

namespace softib::cm {

class Listeners {
 public:
  static constexpr std::uint64_t kExact = ~std::uint64_t{0};
  static constexpr std::uint8_t kAnyPort = 0;

  /// Listens at a port of the HCA on all services that equal `service` in the bits of `mask`. Fails
  /// with EBUSY if a listener has one of them, and with ENOMEM beyond kMaxListeners.
  [[nodiscard]] ipoib::Result<ListenerId> add(wire::ServiceId service, std::uint64_t mask,
                                              std::uint8_t port);
  void remove(ListenerId listener);
  [[nodiscard]] std::optional<ListenerId> find(wire::ServiceId service, std::uint8_t port) const;
  [[nodiscard]] std::size_t size() const { return listeners_.size(); }

 private:
  struct Range {
    std::uint64_t mask = 0;
    std::uint64_t service = 0;  ///< without the bits that the mask lacks
    std::uint8_t port = kAnyPort;
    friend auto operator<=>(const Range&, const Range&) = default;
  };
  std::map<ListenerId, Range> listeners_;
  /// Sorted by mask: there are few masks, so a look-up is a few searches.
  std::map<Range, ListenerId> by_range_;
  std::uint32_t next_ = 1;
};

}  // namespace softib::cm
