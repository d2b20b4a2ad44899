// MCMemberRecord requests (IBA 15.2.5.17): join, leave, query. Refusals are those of OpenSM, check
// by check and in its order, since that is what clients have been written against.
#pragma once

#include "softib/subnet/multicast_groups.hpp"
#include "softib/subnet/sa_request.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

/// SubnAdmSet: joins a group, or makes one.
[[nodiscard]] SaResponse join_group(const SaRequest& request, const SubnetManager& manager,
                                    MulticastGroups& groups);
/// SubnAdmDelete: leaves.
[[nodiscard]] SaResponse leave_group(const SaRequest& request, const SubnetManager& manager,
                                     MulticastGroups& groups);
/// SubnAdmGet and SubnAdmGetTable. Who is a member only trusted requests learn.
[[nodiscard]] SaResponse query_members(const SaRequest& request, const SubnetManager& manager,
                                       const MulticastGroups& groups);

/// The record of a group that is made beforehand: what partition and subnet say.
[[nodiscard]] ipoib::wire::McMemberRecord broadcast_group(const Partition& partition,
                                                          std::uint8_t subnet_mtu);

}  // namespace softib::subnet
