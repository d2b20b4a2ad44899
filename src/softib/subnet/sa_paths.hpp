// PathRecord queries (IBA 15.2.5.16). On a subnet with one switch, two ports are connected by one
// route, whose MTU and rate are the minimum of its ends. A path to a multicast GID has the values
// of the group.
#pragma once

#include "softib/subnet/multicast_groups.hpp"
#include "softib/subnet/sa_request.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

[[nodiscard]] SaResponse query_paths(const SaRequest& request, const SubnetManager& manager,
                                     const MulticastGroups& groups);

}  // namespace softib::subnet
