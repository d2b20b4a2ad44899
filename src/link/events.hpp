// Input and output of a Link besides packets: the port's status, SA requests, and instructions to
// the owner of queue pair and TUN.
//
// Each SaRequest carries an id. The link's owner calls Link::on_response once with the response to
// that id; late responses are ignored. Instructions must be carried out in order. None has a
// result, but see Link::on_setup_failed and on_attach_failed.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "ipoib/address.hpp"
#include "ipoib/inactive_port.hpp"
#include "wire/arp.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::link {

/// A GID of the port and its index in the GID table.
struct PortGid {
  Gid gid;
  std::uint8_t index = 0;
  friend bool operator==(const PortGid&, const PortGid&) = default;
};

/// The current state of the port, which is passed again on every change.
struct PortStatus {
  bool active = false;                 ///< logical state ACTIVE, and the addresses are assigned
  Inactive inactive = Inactive::down;  ///< why it is not active
  bool sm_known = false;               ///< SA requests can be sent
  Lid lid;               ///< the first of its LIDs; zero where the link layer has none
  std::uint8_t lmc = 0;  ///< of a subnet's ports (IBA 4.1.3)
  Lid sm_lid;            ///< of the subnet manager, if there is one; only shown
  Gid gid;
  std::uint8_t gid_index = 0;   ///< of `gid` in the port's table
  std::uint32_t rate_mbps = 0;  ///< only shown
  std::uint32_t mtu = 0;        ///< bytes of the payload that the port's link carries; only shown
  bool silent = false;          ///< the port passes nothing, see PathMonitor; only shown
  bool grh_required = false;    ///< address handles need a global route
  std::optional<std::uint16_t> pkey_index;  ///< where the port's table has the link's P_Key
  bool limited = false;                     ///< membership of that entry; only shown
  friend bool operator==(const PortStatus&, const PortStatus&) = default;
};

/// Bring the queue pair to RTS with these values; again if one of them has changed.
struct ConfigureQueuePair {
  std::uint16_t pkey_index = 0;
  QKey qkey;
  friend bool operator==(const ConfigureQueuePair&, const ConfigureQueuePair&) = default;
};
struct AttachGroup {
  Gid mgid;
  Lid mlid;
  friend bool operator==(const AttachGroup&, const AttachGroup&) = default;
};
struct DetachGroup {
  Gid mgid;
  Lid mlid;
  friend bool operator==(const DetachGroup&, const DetachGroup&) = default;
};
/// Set the MTU of the interface: that of the broadcast group without the encapsulation header.
struct SetMtu {
  std::uint32_t bytes = 0;
  friend bool operator==(const SetMtu&, const SetMtu&) = default;
};
struct SetCarrier {
  bool on = false;
  friend bool operator==(const SetCarrier&, const SetCarrier&) = default;
};

/// The host has sent an IGMP or MLD report, so its multicast groups may differ from those of the
/// last HostView. The kernel need not notify of the change in any other way.
struct HostGroupsChanged {
  friend bool operator==(const HostGroupsChanged&, const HostGroupsChanged&) = default;
};

/// An ARP request to reply to if the host's routes permit it: Link::reply_to_arp.
struct ArpReplyCheck {
  wire::Arp request;
  friend bool operator==(const ArpReplyCheck&, const ArpReplyCheck&) = default;
};

/// The host has been told of a better gateway by ICMP, once or several times; the kernel does not
/// announce that it uses it. There is at most one of these a second.
struct RedirectReceived {
  friend bool operator==(const RedirectReceived&, const RedirectReceived&) = default;
};

/// HostView::arp has been used, of which the kernel announces no changes. There is at most one of
/// these a second.
struct ArpPolicyUsed {
  friend bool operator==(const ArpPolicyUsed&, const ArpPolicyUsed&) = default;
};

using wire::SaRequest;
using Event =
    std::variant<SaRequest, ConfigureQueuePair, AttachGroup, DetachGroup, SetMtu, SetCarrier,
                 HostGroupsChanged, RedirectReceived, ArpReplyCheck, ArpPolicyUsed>;

}  // namespace ipoib::link
