// Parses values of options. Each function throws UsageError, which names the option, its value and
// the allowed values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/options/options.hpp"

namespace ipoib::daemon {

/// Decimal, or hexadecimal after 0x, from `least` to `most`.
[[nodiscard]] std::uint64_t parse_number(const std::string& option, const std::string& text,
                                         std::uint64_t least, std::uint64_t most);
[[nodiscard]] bool parse_yes_no(const std::string& option, const std::string& text);
/// Numbers of CPUs that a thread can run on, "0-3,5", in this order; each once.
[[nodiscard]] std::vector<unsigned> parse_cpus(const std::string& option, const std::string& text);
/// A P_Key, with or without its membership bit, as the full member's key: both select the same
/// partition, and RFC 4391, 4 requires the bit in group addresses.
[[nodiscard]] PKey parse_pkey(const std::string& option, const std::string& text);
/// Several such keys without duplicates; at most kMaxInterfaces.
[[nodiscard]] std::vector<PKey> parse_pkeys(const std::string& option,
                                            const std::vector<std::string>& texts);
/// P_Keys as above, separated by commas; empty or "yes": all; "no": none.
[[nodiscard]] EthernetChoice parse_ethernet(const std::string& option, const std::string& text);
/// "VLAN=P_KEY" for each VLAN; each VLAN and each partition once.
[[nodiscard]] std::map<PKey, VlanId> parse_vlans(const std::string& option,
                                                 const std::vector<std::string>& texts);
/// Multicast scopes, 1 to 14, separated by commas, without duplicates.
[[nodiscard]] std::vector<std::uint8_t> parse_scopes(const std::string& option,
                                                     const std::string& text);
/// Converts an InfiniBand MTU in bytes to its code.
[[nodiscard]] std::uint8_t parse_fabric_mtu(const std::string& option, const std::string& text);
/// Converts a rate in Gb/s, "10" or "2.5", to its IBA code.
[[nodiscard]] std::uint8_t parse_rate(const std::string& option, const std::string& text);
/// "[SUBNET][/HCA]".
[[nodiscard]] SoftibTarget parse_softib(const std::string& text);
/// "LEVEL" for all modules, or "MODULE=LEVEL,...". control::LogLevels checks the names.
[[nodiscard]] std::vector<control::ModuleLevel> parse_log(const std::string& text);
[[nodiscard]] LogTarget parse_log_target(const std::string& option, const std::string& text);
[[nodiscard]] SandboxMode parse_sandbox(const std::string& option, const std::string& text);
[[nodiscard]] Takeover parse_takeover(const std::string& option, const std::string& text);
/// Returns the text if it is the name or number of a user.
[[nodiscard]] std::string parse_user(const std::string& option, const std::string& text);
/// Returns the text if it is the name of a group, or any number.
[[nodiscard]] std::string parse_group(const std::string& option, const std::string& text);
/// "GROUP" or "GROUP,private"; the group has to exist.
[[nodiscard]] control::SocketAccess parse_control_group(const std::string& option,
                                                        const std::string& text);
/// "DEVICE:PORT"; without a port, port 1.
[[nodiscard]] PortName parse_port_name(const std::string& option, const std::string& text);
[[nodiscard]] Reselect parse_reselect(const std::string& option, const std::string& text);
[[nodiscard]] PollMode parse_poll_mode(const std::string& option, const std::string& text);
/// What is_interface_name() accepts, as text.
inline constexpr const char* kInterfaceNameRule =
    "a name of 1 to 15 characters without blanks, quotes, / : and %";
/// Whether a network interface can have this name.
[[nodiscard]] bool is_interface_name(const std::string& text);
/// A valid name for a network interface.
[[nodiscard]] std::string parse_interface(const std::string& option, const std::string& text);

}  // namespace ipoib::daemon
