// Values derived from port attributes: rates, and the partitions that two ports share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softib/subnet/subnet_types.hpp"

namespace softib::subnet {

/// Index of a partition's key, full or limited, in the table; kPKeyTableSize if there is none.
[[nodiscard]] std::size_t pkey_index(PKey partition, const PKeyTable& table);
/// IBA rate code of a port, from its width and speed (IBA 14.2.5.6).
[[nodiscard]] std::uint8_t port_rate(const PortAttributes& port);
/// The port's P_Key for the partition; an invalid key if the port is not a member.
[[nodiscard]] PKey find_pkey(const PortAttributes& port, PKey partition);
/// The P_Key of `from` for a partition in which both may communicate; an invalid key if there is
/// none. If `only` is valid, only that partition is considered.
[[nodiscard]] PKey shared_pkey(const PortAttributes& from, const PortAttributes& to,
                               PKey only = PKey());
/// The shared P_Key of two nodes. A port may always communicate with itself.
[[nodiscard]] PKey shared_pkey(const Node& from, const Node& to, PKey only = PKey());

}  // namespace softib::subnet
