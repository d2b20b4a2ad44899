// Values of options, from their text. Each function throws UsageError, which names the option, what
// was given and what may be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/options.hpp"

namespace ipoib::daemon {

/// Decimal, or hexadecimal after 0x, from `least` to `most`.
[[nodiscard]] std::uint64_t parse_number(const std::string& option, const std::string& text,
                                         std::uint64_t least, std::uint64_t most);
[[nodiscard]] bool parse_yes_no(const std::string& option, const std::string& text);
/// A P_Key, with or without its membership bit, as the full member's key: one option names one
/// partition, and RFC 4391, 4 wants the bit set in group addresses.
[[nodiscard]] PKey parse_pkey(const std::string& option, const std::string& text);
/// The partitions of several such keys, each once; at most kMaxInterfaces.
[[nodiscard]] std::vector<PKey> parse_pkeys(const std::string& option,
                                            const std::vector<std::string>& texts);
/// An MTU of InfiniBand in octets, as its code.
[[nodiscard]] std::uint8_t parse_fabric_mtu(const std::string& option, const std::string& text);
/// A rate in Gb/s, "10" or "2.5", as its IBA code.
[[nodiscard]] std::uint8_t parse_rate(const std::string& option, const std::string& text);
/// "[SUBNET][/HCA]".
[[nodiscard]] SoftibTarget parse_softib(const std::string& text);
/// "LEVEL" for all modules, or "MODULE=LEVEL,...". Names are checked by control::LogLevels.
[[nodiscard]] std::vector<control::ModuleLevel> parse_log(const std::string& text);
[[nodiscard]] LogTarget parse_log_target(const std::string& option, const std::string& text);
[[nodiscard]] PollMode parse_poll_mode(const std::string& option, const std::string& text);
/// A name that the kernel takes for an interface.
[[nodiscard]] std::string parse_interface(const std::string& option, const std::string& text);

}  // namespace ipoib::daemon
