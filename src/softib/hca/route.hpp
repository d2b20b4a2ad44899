// The global route of a packet, from the attributes of an address.
#pragma once

#include <infiniband/verbs.h>

#include "softib/core/fabric_types.hpp"
#include "wire/packet.hpp"

namespace softib::hca {

inline constexpr std::uint8_t kServiceLevelMask = 0xf;

[[nodiscard]] inline ipoib::wire::Grh make_grh(const ibv_global_route& route, const Gid& source) {
  constexpr std::uint32_t kFlowLabelMask = 0xfffff;
  ipoib::wire::Grh grh;
  grh.traffic_class = route.traffic_class;
  grh.flow_label = route.flow_label & kFlowLabelMask;
  grh.hop_limit = route.hop_limit;
  grh.sgid = source;
  grh.dgid = Gid(std::to_array(route.dgid.raw));
  return grh;
}

}  // namespace softib::hca
