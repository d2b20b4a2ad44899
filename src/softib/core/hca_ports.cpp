#include "softib/core/hca_ports.hpp"

#include <algorithm>

namespace softib {

namespace {

/// A port without a cable of the HCA that `connected` is a port of.
PortAttributes idle_port(const PortAttributes& connected, std::uint8_t number) {
  PortAttributes idle;
  idle.number = number;
  idle.hca_ports = connected.hca_ports;
  idle.has_cable = false;
  idle.node_guid = connected.node_guid;
  idle.port_guid = Guid(connected.node_guid.value() + number);
  idle.generation = connected.generation;
  idle.failed = connected.failed;
  idle.grh_required = connected.grh_required;
  idle.max_mtu = connected.max_mtu;
  idle.vl_capability = connected.vl_capability;
  idle.pkeys[0] = ipoib::kDefaultPKey;
  return idle;
}

}  // namespace

HcaPorts::HcaPorts(const PortAttributes& port)
    : count_(std::clamp(port.hca_ports, port.number, kMaxHcaPorts)) {
  assert(port.number >= 1 && port.number <= kMaxHcaPorts);
  for (std::uint8_t number = 1; number <= count_; ++number) {
    ports_[number - 1U] = number == port.number ? port : idle_port(port, number);
  }
}

const PortAttributes& HcaPorts::preferred() const {
  const auto ports = all();
  const auto first = [&](auto is_it) { return std::ranges::find_if(ports, is_it); };
  auto found = first([](const auto& port) { return port.state == PortState::active; });
  if (found == ports.end()) {
    found = first([](const auto& port) { return port.state != PortState::down; });
  }
  if (found == ports.end()) found = first([](const auto& port) { return port.has_cable; });
  return found == ports.end() ? ports.front() : *found;
}

}  // namespace softib
