// PathRecord queries (IBA 15.2.5.16) on a subnet of one switch: between two ports there is one
// path, as good as the worse of its two ends. Paths to a multicast GID are those of the group.
#pragma once

#include "softib/subnet/multicast_groups.hpp"
#include "softib/subnet/sa_request.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

[[nodiscard]] SaResponse query_paths(const SaRequest& request, const SubnetManager& manager,
                                     const MulticastGroups& groups);

}  // namespace softib::subnet
