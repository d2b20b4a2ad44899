#include "link/arp_input.hpp"

namespace ipoib::link {

bool is_endpoint(const HwAddress& hardware) {
  constexpr Qpn kFirstOrdinaryQpn{2};
  return hardware.qpn >= kFirstOrdinaryQpn && hardware.qpn < kMulticastQpn &&
         !hardware.gid.is_zero() && !hardware.gid.is_multicast();
}

/// As in RFC 826, the sender is checked first, whatever the operation. The flags of a hardware
/// address are ignored (RFC 4755, 3: an interface without connected mode "MUST ignore" them).
ArpKind classify(const wire::Arp& message, const HostAddresses& host, const HwAddress& own) {
  using wire::ArpOperation;
  const bool for_us = host.is_own(message.target_protocol);
  if (!is_endpoint(message.sender_hardware) || message.sender_hardware.same_endpoint(own)) {
    return ArpKind::bad_sender;
  }
  if (host.is_own(message.sender_protocol)) return ArpKind::duplicate_address;
  if (message.sender_protocol.is_unspecified() && for_us &&
      message.operation == ArpOperation::request) {
    return ArpKind::probe;
  }
  if (!host.can_be_neighbour(message.sender_protocol)) return ArpKind::bad_sender;
  if (!for_us) return ArpKind::third_party;
  return message.operation == ArpOperation::request ? ArpKind::request_for_us
                                                    : ArpKind::reply_for_us;
}

}  // namespace ipoib::link
