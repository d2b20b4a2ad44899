#include "softib/cm/qp_parameters.hpp"

#include "ipoib/ud_port.hpp"

namespace softib::cm {

using ipoib::wire::CmPath;
using ipoib::wire::PathRecord;

PathRecord path_back(const ipoib::wire::CmReq& req) {
  const CmPath& primary = req.primary;
  PathRecord path;
  path.service_id = req.service_id.value();
  path.dgid = primary.local_gid;
  path.sgid = primary.remote_gid;
  path.dlid = primary.local_lid;
  path.slid = primary.remote_lid;
  path.flow_label = primary.flow_label;
  path.hop_limit = primary.hop_limit;
  path.traffic_class = primary.traffic_class;
  path.reversible = true;
  path.numb_path = 1;
  path.pkey = req.pkey;
  path.sl = primary.sl;
  path.mtu = req.mtu;
  path.rate = primary.rate;
  // The ACK time-out is that of a round trip.
  path.lifetime = primary.ack_timeout > 0 ? static_cast<std::uint8_t>(primary.ack_timeout - 1) : 0;
  return path;
}

CmPath path_of_req(const PathRecord& path, std::uint8_t ack_delay) {
  CmPath primary;
  primary.local_lid = path.slid;
  primary.remote_lid = path.dlid;
  primary.local_gid = path.sgid;
  primary.remote_gid = path.dgid;
  primary.flow_label = path.flow_label;
  primary.rate = path.rate;
  primary.traffic_class = path.traffic_class;
  primary.hop_limit = path.hop_limit;
  primary.sl = path.sl;
  primary.is_subnet_local = path.hop_limit <= ipoib::kSubnetHopLimit;
  primary.ack_timeout = ack_timeout_of(path.lifetime, ack_delay);
  return primary;
}

}  // namespace softib::cm
