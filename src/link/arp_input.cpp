#include "link/arp_input.hpp"

namespace ipoib::link {

bool is_endpoint(const HwAddress& hardware) {
  constexpr Qpn kFirstOrdinaryQpn{2};
  return hardware.qpn >= kFirstOrdinaryQpn && hardware.qpn < kMulticastQpn &&
         !hardware.gid.is_zero() && !hardware.gid.is_multicast();
}

/// As in RFC 826, the sender is checked first, whatever the operation. The flags of a hardware
/// address are ignored (RFC 4755, 3: an interface without connected mode "MUST ignore" them). The
/// link also asks from the addresses of stations, so replies to these are for the link.
ArpKind classify(const wire::Arp& message, const HostAddresses& host, const HwAddress& own) {
  using wire::ArpOperation;
  // The interface of the host that has a served address replies itself.
  const bool for_us =
      host.is_local(message.target_protocol) && !host.is_served(message.target_protocol);
  if (!is_endpoint(message.sender_hardware) || message.sender_hardware.same_endpoint(own)) {
    return ArpKind::bad_sender;
  }
  if (host.is_own(message.sender_protocol)) return ArpKind::duplicate_address;
  if (host.is_served(message.sender_protocol)) return ArpKind::station_address;
  if (message.sender_protocol.is_unspecified() && message.operation == ArpOperation::request) {
    return for_us ? ArpKind::probe : ArpKind::probe_of_other;
  }
  if (host.is_local(message.sender_protocol) || !host.can_be_neighbour(message.sender_protocol)) {
    return ArpKind::bad_sender;
  }
  if (message.operation == ArpOperation::request) {
    return for_us ? ArpKind::request_for_us : ArpKind::third_party;
  }
  return for_us || host.is_served(message.target_protocol) ? ArpKind::reply_for_us
                                                           : ArpKind::third_party;
}

bool is_announcement(const wire::Arp& message) {
  return message.sender_protocol == message.target_protocol &&
         (message.operation == wire::ArpOperation::request ||
          message.target_hardware.same_endpoint(message.sender_hardware));
}

/// Applies the policy as Linux does (ip-sysctl).
ArpAnswer answer_to(const wire::Arp& request, const HostAddresses& host) {
  const ArpPolicy& policy = host.arp();
  const Ipv4Address target = request.target_protocol;
  const Ipv4Address sender = request.sender_protocol;
  const bool is_probe = sender.is_unspecified();
  if (request.operation != wire::ArpOperation::request || host.is_served(target)) {
    return ArpAnswer::none;
  }
  if (!host.is_local(target)) {
    if (is_probe) return ArpAnswer::none;
    if (policy.proxy || host.is_proxied(target)) return ArpAnswer::ask_routes;
    return policy.forwards ? ArpAnswer::ask_proxies : ArpAnswer::none;
  }
  bool ignored = false;
  switch (policy.ignore) {
    case 1:
      ignored = !host.is_own(target);
      break;
    case 2:
      ignored = !host.is_own(target) || (!is_probe && !host.is_one_subnet(target, sender));
      break;
    case 3:
      // The kernel finds a scope only for addresses, so it ignores what is only in a local route.
      ignored = !host.is_of_larger_scope(target);
      break;
    case 8:
      ignored = true;
      break;
    default:  // 0, and 4 to 7, which are reserved
      break;
  }
  if (ignored) return ArpAnswer::none;
  return policy.filter && !is_probe ? ArpAnswer::ask_routes : ArpAnswer::reply;
}

}  // namespace ipoib::link
