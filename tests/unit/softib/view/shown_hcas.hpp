// HCAs for the tests of what programs find.
#pragma once

#include "softib/view/tree.hpp"

namespace softib::view {

/// An active HCA whose last port has this number.
inline ShownHca make_hca(std::size_t number, std::uint8_t port) {
  ShownHca hca{.number = number, .node = {}, .ports = HcaPorts(PortAttributes())};
  hca.node.name = "host";
  hca.node.port.node_guid = Guid(0x02501b0000000001);
  hca.node.port.port_guid = Guid(0x02501b0000000002);
  hca.node.port.number = port;
  hca.node.port.lid = Lid(0x1a);
  hca.node.port.lmc = 1;
  hca.node.port.sm_lid = Lid(1);
  hca.node.port.sm_sl = ServiceLevel(3);
  hca.node.port.state = PortState::active;
  hca.node.port.pkeys[0] = PKey(0xffff);
  hca.node.port.pkeys[1] = PKey(0x8012);
  hca.node.port.hca_ports = port;
  hca.ports = HcaPorts(hca.node.port);
  return hca;
}

}  // namespace softib::view
