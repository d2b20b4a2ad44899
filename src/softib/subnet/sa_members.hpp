// MCMemberRecord requests (IBA 15.2.5.17): join, leave, query. Makes the same checks as OpenSM in
// the same order, so that clients get the status codes that they were tested with.
#pragma once

#include "softib/subnet/multicast_groups.hpp"
#include "softib/subnet/sa_request.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

/// Handles SubnAdmSet: joins a group, creating it if necessary.
[[nodiscard]] SaResponse join_group(const SaRequest& request, const SubnetManager& manager,
                                    MulticastGroups& groups);
/// Handles SubnAdmDelete: leaves a group.
[[nodiscard]] SaResponse leave_group(const SaRequest& request, const SubnetManager& manager,
                                     MulticastGroups& groups);
/// Handles SubnAdmGet and SubnAdmGetTable. Only trusted requests get the members.
[[nodiscard]] SaResponse query_members(const SaRequest& request, const SubnetManager& manager,
                                       const MulticastGroups& groups);

/// The record of a partition's broadcast group, created with the partition.
[[nodiscard]] ipoib::wire::McMemberRecord broadcast_group(const Partition& partition,
                                                          std::uint8_t subnet_mtu);

}  // namespace softib::subnet
