// A node of a subnet without processes: node N has LID N + 1.
#pragma once

#include <cerrno>
#include <map>
#include <optional>
#include <set>

#include "softib/core/ip_gid.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/rdma_cm/node.hpp"
#include "wire/mad.hpp"
#include "wire/path_record.hpp"

namespace softib::rdma_cm {

inline PortAttributes port_of_node(NodeIndex node) {
  PortAttributes port;
  port.node_guid = Guid(0x100 + node);
  port.port_guid = Guid(0x200 + node);
  port.lid = Lid(static_cast<std::uint16_t>(node + 1));
  port.sm_lid = Lid(1);
  port.sm_sl = ipoib::ServiceLevel(2);
  port.state = PortState::active;
  port.pkeys[0] = ipoib::kDefaultPKey;
  return port;
}

/// The path that an SA grants to a query: between two nodes of the subnet.
inline wire::PathRecord path_for(const MadPacket& query) {
  const auto record = ipoib::ConstBytes(query.mad).subspan(wire::kSaHeaderSize);
  auto path = wire::PathRecord::parse(record).value();
  path.slid = query.slid;
  path.dlid = Lid(static_cast<std::uint16_t>(path.dgid.guid().value() - 0x200 + 1));
  path.mtu = 4;
  path.rate = 3;
  path.lifetime = 16;
  return path;
}

class FakeNode : public Node {
 public:
  explicit FakeNode(NodeIndex self) : self_(self) {}
  [[nodiscard]] HcaPorts ports(std::size_t /*hca*/) const override {
    auto port = port_of_node(self_);
    if (is_ethernet) {
      port.link_layer = LinkLayer::ethernet;
      port.lid = port.sm_lid = Lid();
      port.gids[0] = gid_of_ipv4(0x0a000000U + self_);
    }
    if (is_first_down) port.state = PortState::down;
    if (!second) return HcaPorts(port);
    port.hca_ports = 2;
    HcaPorts both(port);
    auto other = port_of_node(*second);
    other.node_guid = port.node_guid;
    other.number = other.hca_ports = 2;
    both.set(other);
    return both;
  }
  [[nodiscard]] std::optional<Local> find_local(const IpAddress& address) override {
    if (interface && address == interface->address) return interface;
    const auto node = node_of(address);
    if (second && node == second) return Local{{0, 2}, PKey(), address};
    if (node != self_) return std::nullopt;
    return Local{{}, PKey(), address};
  }
  [[nodiscard]] IpAddress source(const LocalPort& port,
                                 const IpAddress& destination) const override {
    return source_address(port.number == 2 ? second.value() : self_, {}, destination);
  }
  [[nodiscard]] std::optional<Remote> find(const IpAddress& address,
                                           ipoib::TimePoint until) override {
    if (const auto known = neighbours.find(address); known != neighbours.end()) {
      return Remote{known->second, interface};
    }
    const auto node = node_of(address);
    if (node && *node < nodes) return Remote{port_of_node(*node).gid()};
    wanted[address] = until;
    return std::nullopt;
  }
  ipoib::Result<void> lock_port(const PortRequest& request, std::uint16_t port) override {
    if (taken.contains(port) || (shared.contains(port) && !request.reuses_address)) {
      return ipoib::Error{EADDRINUSE, "another process has the port"};
    }
    locked.insert(port);
    return {};
  }
  void unlock_port(PortSpace /*space*/, std::uint16_t port) override { locked.erase(port); }
  [[nodiscard]] bool may_use_privileged_ports() const override { return is_privileged; }
  bool announce(const LocalPort& port, wire::ServiceId service) override {
    if (is_folder_lost) return false;
    (port.number == 2 ? services_of_second : services).insert(service);
    return true;
  }
  void withdraw(const LocalPort& port, wire::ServiceId service) override {
    (port.number == 2 ? services_of_second : services).erase(service);
  }

  bool hold_group(const LocalPort& /*port*/, const Gid& mgid, std::uint8_t join_state) override {
    if (is_folder_lost) return false;
    held.emplace(mgid, join_state);
    return true;
  }
  bool release_group(const LocalPort& /*port*/, const Gid& mgid, std::uint8_t join_state) override {
    held.erase({mgid, join_state});
    return !has_another_member;
  }

  std::set<std::pair<Gid, std::uint8_t>> held;   ///< groups
  bool has_another_member = false;               ///< in another process
  std::optional<Local> interface;                ///< an IP interface of the process
  std::map<IpAddress, Gid> neighbours;           ///< of that
  std::map<IpAddress, ipoib::TimePoint> wanted;  ///< addresses that were not found, until when
  NodeIndex nodes = 3;                           ///< of the subnet
  std::set<std::uint16_t> taken;                 ///< ports of other processes
  std::set<std::uint16_t> shared;                ///< those that they share
  std::set<std::uint16_t> locked;                ///< of this one
  std::set<wire::ServiceId> services;
  std::optional<NodeIndex> second;               ///< the second port of the HCA, with a cable
  std::set<wire::ServiceId> services_of_second;  ///< its services
  bool is_first_down = false;                    ///< the first port of the HCA
  bool is_privileged = false;
  bool is_ethernet = false;     ///< the ports are
  bool is_folder_lost = false;  ///< it can lock nothing

 private:
  const NodeIndex self_;
};

}  // namespace softib::rdma_cm
