// Carries out requests of the control socket on a link.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/protocol.hpp"
#include "daemon/pump/captures.hpp"
#include "daemon/pump/poll_policy.hpp"
#include "daemon/pump/port_role.hpp"
#include "ethernet/view.hpp"
#include "link/link.hpp"
#include "linux/pollable_tun.hpp"
#include "offload/coalescer.hpp"
#include "sa/counters.hpp"
#include "verbs/device.hpp"
#include "verbs/ud_queue_pair.hpp"

namespace ipoib::daemon {

struct InterfaceIdentity {
  std::string interface;
  std::string device;  ///< that serves it
  std::uint8_t port = 0;
  std::uint32_t pid = 0;
};

/// State of an interface outside its link.
struct InterfaceStatus {
  link::PortStatus port;
  std::uint64_t messages_lost = 0;  ///< the control thread's mailbox was full
  std::uint64_t tx_timeouts = 0;    ///< see SendWatchdog
  std::uint64_t failovers = 0;      ///< from one of its ports to the other
};

/// The part of an interface on one of its ports.
struct PortState {
  PortRole role;
  const PortName& name;
  const link::Link& link;
  const link::PortStatus& status;
  const verbs::UdCounters& queue_pair;
  const offload::Coalescer::Counters& to_host;
};

/// Counts of parts of the interface that are no longer there, so that no counter becomes smaller.
struct RetiredCounters {
  link::Counters link;
  verbs::UdCounters queue_pair;
  offload::Coalescer::Counters to_host;
  DurationHistogram resolution;
  std::uint64_t tx_timeouts = 0;
};

struct InterfaceState {
  const InterfaceIdentity& identity;
  const InterfaceStatus& status;
  const verbs::UdCounters& queue_pair;
  const offload::Coalescer::Counters& to_host;
  const PollPolicy::Counters& poll;
  linux::HostDrops of_host = {};
  PKey pkey;
  bool admin_up = true;                      ///< the network interface is administratively up
  const ethernet::View* ethernet = nullptr;  ///< of a TAP
  PortRole active = PortRole::primary;       ///< which the values above belong to
  std::optional<PortState> idle = {};        ///< the other port, if there are two
  const RetiredCounters* retired = nullptr;  ///< null: there is none
  std::uint32_t host_mtu = 0;                ///< of the network interface; 0: unknown
  Captures::Counters captures = {};
};

/// Carries out `request`, on the interface's thread.
[[nodiscard]] control::Response carry_out(const control::InterfaceRequest& request,
                                          link::Link& link, const InterfaceState& state,
                                          TimePoint now);

/// Makes a change on the link of the idle port, too, so that it can take over. What that link
/// refuses is left out.
void repeat_on(link::Link& idle, const control::InterfaceRequest& change, TimePoint now);

/// An address of a station as the control protocol shows it; its state is "gone" if it has no
/// entry.
[[nodiscard]] control::Station to_station(const IpAddress& address, MacAddress mac,
                                          const ethernet::StationTable& table, TimePoint now);

/// What the link shows, as the control protocol shows it; `ethernet` may be null.
[[nodiscard]] control::Entry to_entry(const link::NeighbourInfo& info,
                                      const ethernet::View* ethernet);
[[nodiscard]] control::Group to_group(const link::GroupInfo& info);
[[nodiscard]] control::InterfaceInfo information(const link::Link& link,
                                                 const InterfaceState& state);

// Counters of the port, which the control thread adds to the others.
[[nodiscard]] std::vector<control::Counter> port_counters(const verbs::PortCounters& counters);
[[nodiscard]] std::vector<control::Counter> sa_counters(const sa::Counters& counters);

}  // namespace ipoib::daemon
