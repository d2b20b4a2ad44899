// What follows from the attributes of ports: rates, and the partitions that two of them share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "softib/subnet/subnet_types.hpp"

namespace softib::subnet {

using PKeyTable = std::array<PKey, kPKeyTableSize>;

/// Where a table has the key of a partition, whatever the membership; kPKeyTableSize: nowhere.
[[nodiscard]] std::size_t pkey_index(PKey partition, const PKeyTable& table);
/// IBA rate code of a port, from its width and speed (IBA 14.2.5.6).
[[nodiscard]] std::uint8_t port_rate(const PortAttributes& port);
/// A key of `port` in the partition; an invalid key when it is no member.
[[nodiscard]] PKey find_pkey(const PortAttributes& port, PKey partition);
/// Whether the two may talk to each other in some partition; its key as `from` has it, or an
/// invalid key. `only`, if valid, is the one partition to look at.
[[nodiscard]] PKey shared_pkey(const PortAttributes& from, const PortAttributes& to,
                               PKey only = PKey());
/// The same for two ports of the subnet; a port may always talk to itself.
[[nodiscard]] PKey shared_pkey(const Node& from, const Node& to, PKey only = PKey());

}  // namespace softib::subnet
