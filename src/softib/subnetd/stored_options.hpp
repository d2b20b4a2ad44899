// The options of a subnet, stored in its folder, by which another process can continue a subnet
// whose process was killed.
//
// A file of one JSON object:
//   {"version":2,"sm":"own","mtu":2048,"lmc":0,"grh_required":false,"seed":0,"partitions":[
//     {"pkey":"0x8012","others":"none","mtu":0,"rate":3,"broadcast_group":true,
//      "members":[{"hca":"a","membership":"full"}]}],
//    "port_mtus":[{"hca":"a","port":1,"mtu":1024}]}
//
// `mtu` is in bytes, in a partition 0 for that of the ports; `rate` is an IBA code. The file is
// replaced by rename(2), so that a process that is killed leaves the old or the new one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ipoib/result.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/subnet/subnet_types.hpp"

namespace softib::subnetd {

/// Longest file, in bytes, which the largest configuration fits into.
inline constexpr std::size_t kMaxStoredOptions = 64U << 20;

[[nodiscard]] std::string emit_options(const subnet::SubnetConfig& config);
/// Parses options. Fails with EINVAL unless emit_options() returns this text for some configuration
/// that softib subnet accepts.
[[nodiscard]] ipoib::Result<subnet::SubnetConfig> parse_options(std::string_view text);

/// Reads the options. Returns nullopt if the folder has none. The error says what to do.
[[nodiscard]] ipoib::Result<std::optional<subnet::SubnetConfig>> read_options(
    const fabric::SubnetFolder& folder);
/// Writes the options. Requires that this process holds the subnet's lock.
[[nodiscard]] ipoib::Result<void> write_options(const fabric::SubnetFolder& folder,
                                                const subnet::SubnetConfig& config);

}  // namespace softib::subnetd
