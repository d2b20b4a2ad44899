// Subnet management packets that are routed by a path of ports (IBA 14.2.2), for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ipoib/bytes.hpp"
#include "ipoib/ud_port.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/subnet/smp.hpp"

namespace softib::subnet {

/// A request of a process on `from`, along `path`: the ports by which it leaves each node.
inline MadPacket directed_request(NodeIndex from, const std::vector<std::uint8_t>& path,
                                  std::uint8_t method, std::uint16_t attribute,
                                  std::uint32_t modifier = 0, const SmpData& data = {}) {
  ipoib::wire::MadHeader header;
  header.management_class = ipoib::wire::mgmt_class::kSubnDirected;
  header.class_version = 1;
  header.method = method;
  header.class_specific = static_cast<std::uint16_t>(path.size());
  header.attribute_id = attribute;
  header.attribute_modifier = modifier;
  header.transaction_id = std::uint64_t{MadRoute{from, 1, 1, 1}.high_half()} << 32 | 77;
  MadPacket packet;
  packet.dlid = ipoib::kPermissiveLid;
  packet.source = Qpn(1);  // it is for QP0, whoever has sent it
  header.emit(packet.mad);
  ipoib::store_be(&packet.mad[32], std::uint32_t{0xffffffff});
  std::ranges::copy(path, packet.mad.begin() + 129);
  std::ranges::copy(data, packet.mad.begin() + kSmpDataOffset);
  return packet;
}

}  // namespace softib::subnet
