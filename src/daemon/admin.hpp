// Carries out requests of the control socket on a link.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/protocol.hpp"
#include "daemon/poll_policy.hpp"
#include "ethernet/view.hpp"
#include "link/link.hpp"
#include "offload/coalescer.hpp"
#include "sa/counters.hpp"
#include "verbs/ud_queue_pair.hpp"

namespace ipoib::daemon {

/// Properties of an interface that never change.
struct InterfaceIdentity {
  std::string interface;
  std::string device;
  std::uint8_t port = 0;
  std::uint32_t pid = 0;
};

/// State of an interface outside its link.
struct InterfaceStatus {
  link::PortStatus port;
  std::uint64_t messages_lost = 0;  ///< the control thread's mailbox was full
  std::uint64_t tx_timeouts = 0;    ///< see SendWatchdog
};

struct InterfaceState {
  const InterfaceIdentity& identity;
  const InterfaceStatus& status;
  const verbs::UdCounters& queue_pair;
  const offload::Coalescer::Counters& to_host;
  const PollPolicy::Counters& poll;
  std::uint64_t malformed_of_host = 0;
  PKey pkey;
  bool admin_up = true;  ///< the network interface is administratively up
  const ethernet::View* ethernet = nullptr;  ///< of a TAP
};

/// Carries out `request`, on the interface's thread.
[[nodiscard]] control::Response carry_out(const control::InterfaceRequest& request,
                                          link::Link& link, const InterfaceState& state,
                                          TimePoint now);

/// What the link shows, as the control protocol shows it; `ethernet` may be null.
[[nodiscard]] control::Entry to_entry(const link::NeighbourInfo& info,
                                      const ethernet::View* ethernet);
[[nodiscard]] control::Group to_group(const link::GroupInfo& info);
[[nodiscard]] control::InterfaceInfo information(const link::Link& link,
                                                 const InterfaceState& state);

// Counters of the port, which the control thread adds to the others.
/// Of verbs::Device::missing_receives().
[[nodiscard]] control::Counter missing_receives_counter(std::uint64_t value);
[[nodiscard]] std::vector<control::Counter> sa_counters(const sa::Counters& counters);

}  // namespace ipoib::daemon
