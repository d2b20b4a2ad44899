// The subnet management agents of all nodes and of the switch (IBA 14.2, 14.3): they answer
// SubnGet(); SubnSet() is for the SM, which has no need of packets here.
//
// The cabling is one switch with node i on port i + 1. A LID-routed packet names its node by its
// DLID. A directed route (IBA 14.2.2) starts at the sender; since such a packet has the permissive
// LID as its source on a real fabric, the sender's own LID is expected in its place here.
#pragma once

#include "softib/core/agent_answer.hpp"
#include "softib/core/subnet_manager.hpp"

namespace softib {

/// Answers a packet to QP0 from `sender`.
[[nodiscard]] AgentAnswer answer_smp(const MadPacket& packet, NodeIndex sender,
                                     const SubnetManager& manager);

}  // namespace softib
