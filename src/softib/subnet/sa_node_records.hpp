// NodeRecord and PortInfoRecord queries (IBA 15.2.5.2, 15.2.5.3), and the SA's ClassPortInfo.
#pragma once

#include "softib/subnet/sa_request.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::subnet {

/// All queries return only nodes that share a partition with the requester (IBA 15.4.1.2).
[[nodiscard]] SaResponse query_nodes(const SaRequest& request, const SubnetManager& manager);
[[nodiscard]] SaResponse query_ports(const SaRequest& request, const SubnetManager& manager);
[[nodiscard]] SaResponse query_class_port_info();

}  // namespace softib::subnet
