// Findings that explain and probe have in common: the route to an address, and its interface.
#pragma once

#include <optional>
#include <string>

#include "command.hpp"
#include "findings.hpp"
#include "host_route.hpp"

namespace ipoib::ibarp {

/// Adds what route the host has to the address of the command. Returns it; nullopt if no packet to
/// the address leaves the host by an interface of ipoibd. Throws Failure.
[[nodiscard]] std::optional<HostRoute> find_route(Findings& findings, const Command& command);
/// The interface of the command, or the only one. Throws Failure.
[[nodiscard]] std::string chosen_interface(const Command& command);
/// The interface whose link the address of the command is on, if it is a link-local one; else
/// nothing, since routes decide. Throws Failure.
[[nodiscard]] std::string link_of(const Command& command);
/// "by ib0 and the gateway 10.0.0.1", or "by ib0, on its link".
[[nodiscard]] std::string next_hop_text(const HostRoute& route);
/// Whether the interface is up; adds a finding if it is not.
[[nodiscard]] bool is_up(Findings& findings, const ibarp_info& info);

/// Whether it is an address of a multicast group.
[[nodiscard]] bool is_multicast(const ibarp_address& address);
/// "ARP requests" or "neighbour solicitations", by the family of the address.
[[nodiscard]] const char* requests_for(const ibarp_address& address);

}  // namespace ipoib::ibarp
