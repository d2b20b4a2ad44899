// Answers messages of communication management (class 7) that are for no process of a node: none
// listens on the service, or the process of the connection has gone.
#pragma once

#include "softib/subnet/agent_response.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

/// The answer in the name of the node at the packet's DLID; unmatched_response for a message that
/// has none.
[[nodiscard]] AgentResult refuse_cm(const MadPacket& packet, const SubnetManager& manager);

}  // namespace softib::subnet
