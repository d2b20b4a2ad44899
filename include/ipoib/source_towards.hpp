// Which of its addresses the host sends from.
#pragma once

#include <optional>

#include "ipoib/ip.hpp"

namespace ipoib {

/// The source address that the kernel chooses for packets to an address, by the routes of the
/// calling thread's network namespace. nullopt: it has no route, or the destination needs a scope
/// (IPv6 link-local addresses).
[[nodiscard]] std::optional<IpAddress> source_towards(const IpAddress& destination);

}  // namespace ipoib
