// The end of connections whose process has died, for peers on other machines, which cannot see
// that.
#pragma once

#include <span>
#include <vector>

#include "softib/core/mad_packet.hpp"
#include "softib/rdma_cm/id_status.hpp"

namespace softib::rdma_cm {

/// The DREQs (IBA 12.6.10) that a process on an Ethernet port still had to send: one for each of
/// its IDs, as IdStatus::words(), that has a connection of which its peer does not know the end.
[[nodiscard]] std::vector<MadPacket> farewells(std::span<const IdStatus::Words> ids);

}  // namespace softib::rdma_cm
