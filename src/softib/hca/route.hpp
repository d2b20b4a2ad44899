// The headers that say where a packet goes, from the attributes of an address.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>

#include "ipoib/result.hpp"
#include "softib/core/ip_gid.hpp"
#include "wire/packet.hpp"

namespace softib::hca {

/// Checks what an address says of the GRH. Fails with EINVAL, as the kernel's rdma_check_ah_attr().
[[nodiscard]] inline ipoib::Result<void> check_route(const ibv_ah_attr& to,
                                                     const PortAttributes& port) {
  if (to.is_global == 0) {
    if (!port.grh_required && !port.is_ethernet()) return {};
    return ipoib::Error{EINVAL, "the port requires a GRH: is_global has to be set"};
  }
  if (to.grh.sgid_index < port.gid_table_size() && !port.gid(to.grh.sgid_index).is_zero())
    return {};
  return ipoib::Error{EINVAL, "no such entry in the GID table"};
}

inline constexpr std::uint32_t kFlowLabelMask = 0xfffff;

/// The flow label of a connection of an Ethernet port that has been given none, as the Linux kernel
/// computes it (rdma_calc_flow_label()).
[[nodiscard]] inline std::uint32_t flow_label_of(Qpn local, Qpn remote) {
  auto product = std::uint64_t{local.value()} * remote.value();
  product ^= product >> 20;
  product ^= product >> 40;
  return static_cast<std::uint32_t>(product) & kFlowLabelMask;
}

/// Sets LRH, GRH and P_Key of a packet that `port` sends.
inline void set_route(ipoib::wire::DataPacket& packet, const ibv_ah_attr& to,
                      const PortAttributes& port, std::uint16_t pkey_index) {
  constexpr std::uint8_t kServiceLevelMask = 0xf;
  packet.lrh.sl = ServiceLevel(to.sl & kServiceLevelMask);
  if (!port.is_ethernet()) {
    packet.lrh.dlid = Lid(to.dlid);
    packet.lrh.slid = port.source_lid(to.src_path_bits);
  }
  packet.bth.pkey = port.pkeys[pkey_index];
  if (to.is_global == 0) return;
  auto& grh = packet.grh.emplace();
  grh.traffic_class = to.grh.traffic_class;
  grh.flow_label = to.grh.flow_label & kFlowLabelMask;
  grh.hop_limit = to.grh.hop_limit;
  grh.sgid = port.gid(to.grh.sgid_index);
  grh.dgid = Gid(std::to_array(to.grh.dgid.raw));
  if (port.is_ethernet() && is_ip_multicast(grh.dgid)) packet.lrh.dlid = kRoceMulticastLid;
}

}  // namespace softib::hca
