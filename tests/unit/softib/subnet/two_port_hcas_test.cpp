// HCAs with two ports: each port that has a cable is a node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "directed_request.hpp"
#include "sa_client.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/subnet/node_attributes.hpp"
#include "softib/subnet/smp.hpp"
#include "subnet_snapshot.hpp"
#include "two_level_tree.hpp"
#include "wire/node_record.hpp"
#include "wire/port_info.hpp"

namespace softib::subnet {
namespace {

using ipoib::wire::MadHeader;
using ipoib::wire::NodeInfo;
using ipoib::wire::PortInfo;
using ::testing::ElementsAre;
namespace attribute = ipoib::wire::attribute;

/// The tree, in which host-1 has a second port, at leaf-2, and host-2 a cable at its second port
/// only.
SubnetConfig two_port_config(Management management = Management::own) {
  SubnetConfig config;
  config.management = management;
  auto tree = test::two_level_tree();
  tree.switches[1].ports = 5;
  tree.hcas[0].ports = tree.hcas[1].ports = tree.hcas[3].ports = 2;
  tree.hcas[0].guid = Guid(0x100);
  tree.hcas[0].port_guids = {Guid(0x201), Guid()};
  for (auto& cable : tree.cables) {
    if (!cable.b.is_switch && cable.b.index == 1) cable.b.port = 2;
    if (cable.b.is_switch) cable.speed = cable.width = 1;
  }
  tree.hcas[2].guid = Guid(0x200);  // so its port has the GUID of one of host-1
  tree.hcas[3].guid = tree.switches[0].guid = Guid(0x300);
  tree.cables.insert(tree.cables.begin(), topology::Cable{{true, 1, 5}, {false, 0, 2}});
  config.topology = tree;
  return config;
}

class TwoPortHcas : public ::testing::Test {
 protected:
  explicit TwoPortHcas(Management management = Management::own)
      : subnet(two_port_config(management), {[](NodeIndex node) {
                                               PerformanceCounters counters;
                                               counters.transmit_packets = 1000U + node;
                                               return counters;
                                             },
                                             {},
                                             {},
                                             {}}) {}
  [[nodiscard]] const PortAttributes& port(NodeIndex node) const { return subnet.node(node)->port; }

  Subnet subnet;
  const NodeIndex one = subnet.find("host-1").value();
  const NodeIndex other = subnet.node(one)->other_port;
};

TEST_F(TwoPortHcas, EachPortWithACableIsANode) {
  ASSERT_NE(other, kNoOtherPort);
  EXPECT_THAT(subnet.ports_of_hca(one), ElementsAre(one, other));
  EXPECT_THAT(subnet.ports_of_hca(other), ElementsAre(one, other));
  EXPECT_EQ(hca_of(other, *subnet.node(other)), one);
  EXPECT_EQ(subnet.node(other)->name, "host-1");
  EXPECT_EQ(subnet.node(other)->other_port, one);
  for (const auto node : {one, other}) {
    EXPECT_EQ(port(node).number, node == one ? 1 : 2);
    EXPECT_EQ(port(node).hca_ports, 2);
    EXPECT_EQ(port(node).node_guid, Guid(0x100));
    EXPECT_EQ(port(node).state, PortState::active);
  }
  EXPECT_EQ(port(one).port_guid, Guid(0x201)) << "that of the file";
  EXPECT_EQ(port(other).port_guid, Guid(0x102));
  EXPECT_LT(one, other) << "the ports are in order";
  EXPECT_EQ(subnet.switches()[0].node.port.node_guid, Guid(0x300));
  EXPECT_EQ(subnet.switches()[0].ports[3].speed, 1);
  EXPECT_EQ(subnet.switches()[0].ports[3].width, 1);
  EXPECT_NE(port(subnet.find("host-3").value()).node_guid, Guid(0x200)) << "its port's is taken";
  EXPECT_NE(port(subnet.find("host-4").value()).node_guid, Guid(0x300)) << "that of a switch";
  EXPECT_NE(port(one).lid, port(other).lid);
  EXPECT_EQ(subnet.node(one)->attachment.switch_index, 0);
  EXPECT_EQ(subnet.node(other)->attachment.switch_index, 1);
}

TEST_F(TwoPortHcas, AnHcaWithOneCableIsOneNode) {
  const auto host = subnet.find("host-2").value();
  EXPECT_THAT(subnet.ports_of_hca(host), ElementsAre(host));
  EXPECT_EQ(port(host).number, 2);
  EXPECT_EQ(port(host).hca_ports, 2);
  EXPECT_EQ(subnet.find_port(host, 0).value(), host);
  EXPECT_EQ(subnet.find_port(host, 1).error().message,
            "the HCA 'host-2' has no cable at its port 1");
}

TEST_F(TwoPortHcas, ProgramsMayNameAPort) {
  for (const std::uint8_t number : std::initializer_list<std::uint8_t>{0, 1, 2}) {
    EXPECT_EQ(subnet.add_hca("host-1", number).value(), one) << unsigned{number};
  }
  EXPECT_EQ(subnet.add_hca("host-2", 1).error().code, EINVAL);
  EXPECT_EQ(subnet.add_hca("host-4", 2).error().message,
            "the HCA 'host-4' is connected by its port 1");
  ASSERT_TRUE(subnet.remove_hca(subnet.find("host-2").value()));
  EXPECT_EQ(subnet.add_hca("host-2", 1).error().code, EINVAL);
  EXPECT_TRUE(subnet.add_hca("host-2", 2));
}

TEST_F(TwoPortHcas, AnOperatorHasToNameThePort) {
  EXPECT_EQ(subnet.find_port(one, 1).value(), one);
  EXPECT_EQ(subnet.find_port(one, 2).value(), other);
  const auto any = subnet.find_port(one, 0);
  ASSERT_FALSE(any);
  EXPECT_EQ(any.error().message, "the HCA 'host-1' has 2 ports: name one, as in host-1[1]");
}

TEST_F(TwoPortHcas, AnAddressIsThatOfOnePort) {
  const auto address = ipoib::parse_ip_address("10.1.0.1").value();
  ASSERT_TRUE(subnet.add_address(other, address));
  EXPECT_THAT(subnet.node(other)->addresses, ElementsAre(address));
  EXPECT_THAT(subnet.node(one)->addresses, ElementsAre());
  const auto taken = subnet.add_address(one, address);
  EXPECT_EQ(taken.error().code, EADDRINUSE);
  EXPECT_EQ(taken.error().message, "10.1.0.1 is an address of the HCA 'host-1[2]'");
  EXPECT_EQ(subnet.delete_address(one, address).error().message,
            "the HCA 'host-1[1]' was not given 10.1.0.1");
  ASSERT_TRUE(subnet.delete_address(other, address));
  EXPECT_TRUE(subnet.add_address(one, address));
}

TEST_F(TwoPortHcas, PacketsTakeTheWayOfTheirPort) {
  const auto far = subnet.find("host-3").value();
  EXPECT_EQ(subnet.route(far, port(one).lid), one);
  EXPECT_EQ(subnet.route(far, port(other).lid), other);
  EXPECT_EQ(subnet.route(one, port(other).lid), other);
  const auto way = follow(subnet.switches(), 1, port(other).lid, false);
  EXPECT_EQ(way.cables, 0U);
  EXPECT_EQ(way.to.hca, one);
  EXPECT_EQ(way.to.number, 2);
}

TEST_F(TwoPortHcas, OnePortFailsWithoutTheOther) {
  ASSERT_TRUE(subnet.set_port_state(other, PortState::down));
  EXPECT_EQ(port(other).state, PortState::down);
  EXPECT_EQ(port(one).state, PortState::active);
  ASSERT_TRUE(subnet.set_cable({"host-1", 2}, {}, CableState::up));
  EXPECT_EQ(port(other).state, PortState::active);
  EXPECT_EQ(subnet.set_cable({"host-1", 0}, {}, CableState::down).error().message,
            "2 cables are of host-1: name the port, as in host-1[1]");
}

TEST(CablesOfAnHca, AreNamedByItsPorts) {
  SubnetConfig config;
  auto& topology = config.topology.emplace();
  topology.switches.push_back({"switch", "", Guid(), 4});
  topology.hcas.push_back({"two", "", Guid(), 2, {}});
  for (std::uint8_t i = 1; i <= 2; ++i) {
    topology.cables.push_back({{true, 0, static_cast<std::uint8_t>(i + 2)}, {false, 0, i}});
    topology.cables.back().speed = topology.cables.back().width = 1;
  }
  Subnet subnet(config);
  EXPECT_EQ(subnet.set_cable({"two", 0}, {}, CableState::down).error().message,
            "2 cables are of two: name the port, as in two[1]");
  const auto& port = subnet.node(subnet.find("two").value())->port;
  EXPECT_EQ(port.speed, 1);
  EXPECT_EQ(port.width, 1);
}

TEST_F(TwoPortHcas, TheHcaFailsAsAWhole) {
  ASSERT_TRUE(subnet.set_failed(other, true));
  for (const auto node : {one, other}) {
    EXPECT_TRUE(port(node).failed);
    EXPECT_EQ(port(node).state, PortState::down);
  }
  ASSERT_TRUE(subnet.set_failed(one, false));
  for (const auto node : {one, other}) {
    EXPECT_EQ(port(node).state, PortState::active);
    EXPECT_EQ(port(node).generation, 1);
  }
}

TEST_F(TwoPortHcas, BothPortsAreRemovedAndAddedAgain) {
  (void)subnet.take_changes();
  ASSERT_TRUE(subnet.remove_hca(other));
  EXPECT_FALSE(subnet.find("host-1"));
  EXPECT_EQ(subnet.node(one), nullptr);
  EXPECT_EQ(subnet.node(other), nullptr);
  const auto changes = subnet.take_changes();
  EXPECT_TRUE(changes.nodes[one] && changes.nodes[other]);
  const auto again = subnet.add_hca("host-1").value();
  EXPECT_EQ(subnet.ports_of_hca(again).size(), 2U);
  EXPECT_EQ(port(again).port_guid, Guid(0x201));
}

TEST_F(TwoPortHcas, APartitionHasBothPorts) {
  ASSERT_TRUE(subnet.set_membership(one, PKey(0x8012), Membership::limited));
  for (const auto node : {one, other}) EXPECT_TRUE(find_pkey(port(node), PKey(0x12)).is_valid());
}

TEST_F(TwoPortHcas, AnMtuIsOfOnePort) {
  ASSERT_TRUE(subnet.set_mtu(other, 3));
  EXPECT_EQ(port(other).mtu, 3);
  EXPECT_EQ(port(one).mtu, 4);
  EXPECT_THAT(subnet.port_mtus(), ElementsAre(PortMtu{"host-1", 3, 2}));
}

TEST_F(TwoPortHcas, ARestartedProcessAdoptsBothPorts) {
  ASSERT_TRUE(subnet.set_lid(other, Lid(77)));
  Subnet later(two_port_config());
  later.adopt(snapshot_of(subnet), kStart);
  EXPECT_THAT(later.ports_of_hca(one), ElementsAre(one, other));
  EXPECT_EQ(later.find("host-1"), one);
  EXPECT_EQ(later.node(other)->port.lid, Lid(77));
  EXPECT_EQ(later.route(one, Lid(77)), other);
}

TEST_F(TwoPortHcas, TheSaHasARecordOfEachPort) {
  SaClient client(subnet, "host-3");
  const auto response = client.send_request(ipoib::wire::method::kGetTable, attribute::kNodeRecord,
                                            0, ipoib::wire::NodeRecord());
  ASSERT_TRUE(response);
  std::vector<unsigned> ports;
  for (const auto& record : response->records<ipoib::wire::NodeRecord>()) {
    if (record.node.node_guid != Guid(0x100)) continue;
    EXPECT_EQ(record.node.ports, 2);
    ports.push_back(record.node.local_port);
  }
  EXPECT_THAT(ports, ElementsAre(1U, 2U));
}

/// The SM is on host-3, at port 1 of leaf-2.
class TwoPortHcasAndSm : public TwoPortHcas {
 protected:
  using Path = std::vector<std::uint8_t>;
  TwoPortHcasAndSm() : TwoPortHcas(Management::external_sm) {}

  std::optional<MadPacket> send(NodeIndex from, const Path& path, std::uint8_t method,
                                std::uint16_t attribute, std::uint32_t modifier = 0,
                                const SmpData& data = {}) {
    subnet.receive(directed_request(from, path, method, attribute, modifier, data), kStart);
    const auto packets = subnet.take_outgoing();
    return packets.empty() ? std::nullopt : std::optional(packets[0]);
  }
  static unsigned status(const std::optional<MadPacket>& packet) {
    return packet ? MadHeader::parse(packet->mad)->status & 0x7fffU : 0xffffU;
  }
  static ConstBytes data(const MadPacket& packet) {
    return ConstBytes(packet.mad).subspan(kSmpDataOffset, kSmpDataSize);
  }
  NodeInfo node_info(const Path& path) {
    return NodeInfo::parse(
               data(send(sm, path, ipoib::wire::method::kGet, attribute::kNodeInfo).value()))
        .value();
  }
  PortInfo port_info(const Path& path, std::uint32_t number) {
    return PortInfo::parse(
               data(
                   send(sm, path, ipoib::wire::method::kGet, attribute::kPortInfo, number).value()))
        .value();
  }
  unsigned set(const Path& path, std::uint32_t number, Lid lid) {
    PortInfo info;
    info.lid = lid;
    info.sm_lid = Lid(1);
    info.neighbor_mtu = 4;
    SmpData value{};
    info.emit(value);
    return status(send(sm, path, ipoib::wire::method::kSet, attribute::kPortInfo, number, value));
  }

  const NodeIndex sm = subnet.find("host-3").value();
  const Path kFirst{1, 3, 1, 1};  ///< leaf-2, spine-1, leaf-1
  const Path kSecond{1, 5};
};

TEST_F(TwoPortHcasAndSm, ADirectedRouteLeadsToAPort) {
  for (const auto& [path, number, guid] :
       {std::tuple(kFirst, 1, Guid(0x201)), std::tuple(kSecond, 2, Guid(0x102))}) {
    const auto info = node_info(path);
    EXPECT_EQ(info.ports, 2);
    EXPECT_EQ(info.local_port, number);
    EXPECT_EQ(info.port_guid, guid);
    EXPECT_EQ(info.node_guid, Guid(0x100));
  }
}

TEST_F(TwoPortHcasAndSm, ADirectedRouteLeavesByThePortOfItsSender) {
  EXPECT_EQ(status(send(one, {1}, ipoib::wire::method::kGet, attribute::kNodeInfo)), 0U);
  EXPECT_EQ(status(send(other, {2}, ipoib::wire::method::kGet, attribute::kNodeInfo)), 0U);
  EXPECT_FALSE(send(one, {2}, ipoib::wire::method::kGet, attribute::kNodeInfo));
  EXPECT_FALSE(send(other, {1}, ipoib::wire::method::kGet, attribute::kNodeInfo));
}

TEST_F(TwoPortHcasAndSm, EachPortHasItsPortInfo) {
  EXPECT_EQ(set(kSecond, 0, Lid(7)), 0U);
  EXPECT_EQ(set(kSecond, 1, Lid(8)), 0U) << "the other port";
  EXPECT_EQ(port(other).lid, Lid(7));
  EXPECT_EQ(port(one).lid, Lid(8));
  EXPECT_EQ(port_info(kFirst, 0).lid, Lid(8));
  EXPECT_EQ(port_info(kFirst, 2).lid, Lid(7));
  EXPECT_NE(status(send(sm, kFirst, ipoib::wire::method::kGet, attribute::kPortInfo, 3)), 0U);
}

TEST_F(TwoPortHcasAndSm, APortWithoutACableIsDownAndCannotBeSet) {
  const Path path{1, 3, 1, 2};  // host-2
  EXPECT_EQ(node_info(path).ports, 2);
  EXPECT_EQ(node_info(path).local_port, 2);
  EXPECT_EQ(port_info(path, 1).port_state, 1);
  EXPECT_NE(set(path, 1, Lid(9)), 0U);
}

TEST_F(TwoPortHcas, TheCountersAreThoseOfThePortThatIsNamed) {
  const auto counted = [&](NodeIndex by, std::uint8_t number) -> std::optional<std::uint32_t> {
    MadHeader header;
    header.management_class = ipoib::wire::mgmt_class::kPerf;
    header.class_version = 1;
    header.method = ipoib::wire::method::kGet;
    header.attribute_id = attribute::kPortCounters;
    MadPacket packet;
    packet.slid = port(subnet.find("host-3").value()).lid;
    packet.dlid = port(by).lid;
    packet.pkey = ipoib::kDefaultPKey;
    packet.qkey = ipoib::wire::kGsiQKey;
    packet.source = packet.destination = Qpn(1);
    header.emit(packet.mad);
    packet.mad[65] = number;
    subnet.receive(packet, kStart);
    const auto response = subnet.take_outgoing().at(0);
    if (MadHeader::parse(response.mad)->status != 0) return std::nullopt;
    return ipoib::load_be<std::uint32_t>(&response.mad[64 + 32]);
  };
  for (const auto by : {one, other}) {
    EXPECT_EQ(counted(by, 1), 1000U + one);
    EXPECT_EQ(counted(by, 2), 1000U + other);
    EXPECT_FALSE(counted(by, 3));
    EXPECT_FALSE(counted(by, 0));
  }
  EXPECT_EQ(counted(subnet.find("host-2").value(), 1), 0U) << "it has no cable";
}

}  // namespace
}  // namespace softib::subnet
