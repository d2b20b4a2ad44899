// How the interfaces of a port share one SA client: each numbers its requests in a range of its
// own, so the id of a response says which interface and which of its ports it is for.
#pragma once

#include <cstdint>

#include "daemon/pump/port_role.hpp"
#include "ipoib/strong.hpp"
#include "sa/counters.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::daemon {

/// Counts the interfaces that a process has created; 24 bits. 0 stands for the port itself. A
/// number is not reused, so a response that arrives after its interface has gone is dropped.
using InterfaceNumber = Strong<struct InterfaceNumberTag, std::uint32_t>;

/// The range of an interface. Each port has one half; the link on the port uses the first half of
/// that, and InterfaceControl the second.
inline constexpr std::uint64_t kRequestsPerInterface = 1ULL << 40;
inline constexpr std::uint64_t kRequestsPerPort = kRequestsPerInterface / kPortRoles.size();

[[nodiscard]] constexpr wire::SaRequestId first_link_request(InterfaceNumber interface,
                                                             PortRole port = PortRole::primary) {
  return wire::SaRequestId(interface.value() * kRequestsPerInterface +
                           static_cast<std::uint64_t>(port) * kRequestsPerPort);
}
[[nodiscard]] constexpr wire::SaRequestId first_control_request(InterfaceNumber interface,
                                                                PortRole port = PortRole::primary) {
  return wire::SaRequestId(first_link_request(interface, port).value() + kRequestsPerPort / 2);
}
[[nodiscard]] constexpr PortRole port_of(wire::SaRequestId id) {
  return static_cast<PortRole>(id.value() % kRequestsPerInterface / kRequestsPerPort);
}
[[nodiscard]] constexpr InterfaceNumber interface_of(wire::SaRequestId id) {
  return InterfaceNumber(static_cast<std::uint32_t>(id.value() / kRequestsPerInterface));
}

/// Sends requests to the SA of the port in their number. Each gets one response, by the sender's
/// on_response(), perhaps within the call.
class SaRequestPort {
 public:
  virtual ~SaRequestPort() = default;
  virtual void send(const wire::SaRequest& request) = 0;
  /// The counters of all interfaces and ports together.
  [[nodiscard]] virtual sa::Counters counters() const = 0;
};

}  // namespace ipoib::daemon
