// Subnet management packets like those of smpquery and ibnetdiscover.
#include <gtest/gtest.h>

#include "directed_request.hpp"
#include "sa_client.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/subnet/node_attributes.hpp"
#include "wire/node_record.hpp"
#include "wire/port_info.hpp"

namespace softib::subnet {
namespace {

using ipoib::wire::MadHeader;
using ipoib::wire::NodeInfo;
using ipoib::wire::PortInfo;

constexpr std::uint16_t kNodeDescription = 0x0010;
constexpr std::uint16_t kNodeInfo = 0x0011;
constexpr std::uint16_t kSwitchInfo = 0x0012;
constexpr std::uint16_t kGuidInfo = 0x0014;
constexpr std::uint16_t kPortInfo = 0x0015;
constexpr std::uint16_t kPKeyTable = 0x0016;
constexpr std::uint16_t kLinearForwardingTable = 0x0019;
constexpr std::uint16_t kMulticastForwardingTable = 0x001b;

class Sma : public ::testing::Test {
 protected:
  MadPacket smp(Lid to, std::uint16_t attribute, std::uint32_t modifier = 0) {
    MadHeader header;
    header.management_class = 0x01;
    header.class_version = 1;
    header.method = 1;
    header.attribute_id = attribute;
    header.attribute_modifier = modifier;
    header.transaction_id = id();
    MadPacket packet;
    packet.slid = a.port().lid;
    packet.dlid = to;
    header.emit(packet.mad);
    return packet;
  }
  MadPacket directed(const std::vector<std::uint8_t>& path, std::uint16_t attribute,
                     std::uint32_t modifier = 0) {
    MadPacket packet = directed_request(a.index(), path, 1, attribute, modifier);
    packet.slid = a.port().lid;
    return packet;
  }
  std::optional<MadPacket> send_request(const MadPacket& packet) {
    subnet.receive(packet, kStart);
    const auto packets = subnet.take_outgoing();
    if (packets.empty()) return std::nullopt;
    EXPECT_EQ(packets[0].dlid, a.port().lid);
    EXPECT_EQ(packets[0].destination, packet.source);
    EXPECT_EQ(MadHeader::parse(packets[0].mad)->transaction_id, id());
    return packets[0];
  }
  /// Transaction ID of a process on the first node.
  std::uint64_t id() const {
    return std::uint64_t{MadRoute{a.index(), 1, 1, 1}.high_half()} << 32 | 77;
  }
  static ConstBytes data(const MadPacket& packet) { return ConstBytes(packet.mad).subspan(64, 64); }
  static unsigned status(const MadPacket& packet) {
    return MadHeader::parse(packet.mad)->status & 0x7fffU;
  }

  Subnet subnet;
  SaClient a{subnet, "a"};
  SaClient b{subnet, "b"};
};

TEST_F(Sma, NodeInfoByLid) {
  EXPECT_EQ(status(send_request(smp(kSmLid, smp_attribute::kSmInfo)).value()), 0U);
  EXPECT_NE(status(send_request(smp(b.port().lid, smp_attribute::kSmInfo)).value()), 0U);
  const auto reply = send_request(smp(b.port().lid, kNodeInfo));
  ASSERT_TRUE(reply);
  const auto info = NodeInfo::parse(data(*reply)).value();
  EXPECT_EQ(info.port_guid, b.port().port_guid);
  EXPECT_EQ(info.ports, 1);
  EXPECT_EQ(info.local_port, 1);
  EXPECT_EQ(info.partition_capacity, kPKeyTableSize);
  EXPECT_EQ(info.vendor_id, 0x02501bU);
  EXPECT_EQ(reply->slid, b.port().lid);
}

TEST_F(Sma, NodeDescriptionIsTheName) {
  const auto reply = send_request(smp(b.port().lid, kNodeDescription));
  EXPECT_EQ(data(*reply)[0], 'b');
  EXPECT_EQ(data(*reply)[1], 0);
}

TEST_F(Sma, PortInfoByLid) {
  const auto info = PortInfo::parse(data(*send_request(smp(b.port().lid, kPortInfo, 1)))).value();
  EXPECT_EQ(info.lid, b.port().lid);
  EXPECT_EQ(info.port_state, 4);
  EXPECT_EQ(status(*send_request(smp(b.port().lid, kPortInfo, 2))), 7U << 2)
      << "an HCA has one port";
}

TEST(PortInfoOfAPort, HasItsAddressesAndLink) {
  PortAttributes port;
  port.gid_prefix = 0xfe80'0000'0000'0001;
  port.lid = Lid(8);
  port.lmc = 2;
  port.sm_lid = Lid(9);
  port.sm_sl = ServiceLevel(5);
  port.mtu = 3;
  port.max_mtu = 5;
  port.state = PortState::active;
  const auto info = port_info(port);
  EXPECT_EQ(info.gid_prefix, port.gid_prefix);
  EXPECT_EQ(info.lid, Lid(8));
  EXPECT_EQ(info.lmc, 2);
  EXPECT_EQ(info.tuning, kUsualTuning);
  EXPECT_EQ(info.sm_lid, Lid(9));
  EXPECT_EQ(info.sm_sl, ServiceLevel(5));
  EXPECT_EQ(info.neighbor_mtu, 3);
  EXPECT_EQ(info.mtu_capability, 5);
  EXPECT_EQ(info.port_state, 4);
  EXPECT_EQ(info.physical_state, 5) << "link up";
  EXPECT_EQ(info.capability_mask, 0x0200'0800U);
  port.sm_lid = port.lid;
  port.vl_capability = 2;
  EXPECT_EQ(port_info(port).capability_mask, 0x0200'0842U) << "an SM, with SLs";
  port.state = PortState::down;
  EXPECT_EQ(port_info(port).physical_state, 3) << "an SM has disabled it";
  port.sm_lid = Lid();
  EXPECT_EQ(port_info(port).physical_state, 2) << "polling";
}

TEST_F(Sma, PKeysAndGuids) {
  ASSERT_TRUE(subnet.set_membership(b.index(), PKey(0x12), Membership::limited));
  const auto keys = *send_request(smp(b.port().lid, kPKeyTable));
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(data(keys).data()), 0xffff);
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(data(keys).data() + 2), 0x0012);
  const auto guids = *send_request(smp(b.port().lid, kGuidInfo));
  EXPECT_EQ(ipoib::load_be<std::uint64_t>(data(guids).data()), b.port().port_guid.value());
}

TEST_F(Sma, SwitchAttributes) {
  const auto info = NodeInfo::parse(data(*send_request(smp(kSwitchLid, kNodeInfo)))).value();
  EXPECT_EQ(info.type, NodeInfo::kSwitch);
  EXPECT_EQ(info.ports, 36);
  EXPECT_EQ(status(*send_request(smp(kSwitchLid, kSwitchInfo))), 0U);
  EXPECT_EQ(status(*send_request(smp(b.port().lid, kSwitchInfo))), 3U << 2) << "not of an HCA";
  const auto used =
      PortInfo::parse(data(*send_request(smp(kSwitchLid, kPortInfo, b.index() + 1U))));
  EXPECT_EQ(used->port_state, 4);
  const auto unused = PortInfo::parse(data(*send_request(smp(kSwitchLid, kPortInfo, 36))));
  EXPECT_EQ(unused->port_state, 1);
}

TEST_F(Sma, LinearForwardingTable) {
  ASSERT_TRUE(subnet.set_lid(b.index(), Lid(64 + 5)));
  const auto block = *send_request(smp(kSwitchLid, kLinearForwardingTable, 1));
  EXPECT_EQ(data(block)[5], switch_port(b.node()));
  EXPECT_EQ(data(block)[6], 255) << "no route";
  const auto last = *send_request(smp(kSwitchLid, kLinearForwardingTable, 0xbfff / 64));
  EXPECT_EQ(data(last)[63], 0) << "the switch";
  EXPECT_NE(status(*send_request(smp(kSwitchLid, kLinearForwardingTable, 0xc000 / 64))), 0U);
  EXPECT_EQ(status(*send_request(smp(b.port().lid, kLinearForwardingTable))), 3U << 2);
}

TEST_F(Sma, MulticastForwardingTable) {
  const auto join = member::record(subnet.groups().front().mgid, b.gid());
  ASSERT_TRUE(b.send_request(ipoib::wire::method::kSet, ipoib::wire::attribute::kMcMemberRecord,
                             member::kJoin, join));
  const auto block = *send_request(smp(kSwitchLid, kMulticastForwardingTable));
  EXPECT_EQ(status(block), 0U);
  EXPECT_EQ(data(block)[1], 1U << *switch_port(b.node())) << "the first group";
  const auto ports_from_16 = *send_request(smp(kSwitchLid, kMulticastForwardingTable, 1U << 28));
  EXPECT_EQ(data(ports_from_16)[1], 0);
  EXPECT_NE(status(*send_request(smp(kSwitchLid, kMulticastForwardingTable, 32))), 0U);
  EXPECT_NE(status(*send_request(smp(b.port().lid, kMulticastForwardingTable))), 0U);
}

TEST_F(Sma, DirectedRoutes) {
  const auto self = *send_request(directed({}, kNodeInfo));
  EXPECT_EQ(NodeInfo::parse(data(self))->port_guid, a.port().port_guid);
  EXPECT_EQ(MadHeader::parse(self.mad)->status, 0x8000);

  const auto hop = *send_request(directed({1}, kNodeInfo));
  EXPECT_EQ(NodeInfo::parse(data(hop))->type, NodeInfo::kSwitch);
  EXPECT_EQ(NodeInfo::parse(data(hop))->local_port, a.index() + 1);

  const auto to_b = static_cast<std::uint8_t>(b.index() + 1);
  const auto peer = *send_request(directed({1, to_b}, kNodeInfo));
  EXPECT_EQ(NodeInfo::parse(data(peer))->port_guid, b.port().port_guid);
  const auto and_back =
      *send_request(directed({1, to_b, 1, switch_port(a.node()).value()}, kNodeInfo));
  EXPECT_EQ(NodeInfo::parse(data(and_back))->port_guid, a.port().port_guid);
}

TEST_F(Sma, InvalidRoutes) {
  EXPECT_FALSE(send_request(directed({2}, kNodeInfo)));
  EXPECT_FALSE(send_request(directed({1, 30}, kNodeInfo)));
  EXPECT_FALSE(send_request(directed({1, 255}, kNodeInfo)));
  EXPECT_FALSE(send_request(smp(Lid(0x400), kNodeInfo)));
  EXPECT_FALSE(send_request(smp(Lid(0xc001), kNodeInfo)));
  EXPECT_EQ(subnet.counters().drop_destination, 5U);
  EXPECT_EQ(subnet.counters().drop_gid, 0U);
  auto long_way = directed({1}, kNodeInfo);
  long_way.mad[7] = 64;
  EXPECT_FALSE(send_request(long_way));
  EXPECT_EQ(subnet.counters().drop_malformed, 1U);
  EXPECT_EQ(subnet.counters().drop_response, 0U);
}

TEST_F(Sma, PortThatIsDownOnlyReachesItself) {
  ASSERT_TRUE(subnet.set_port_state(b.index(), PortState::down));
  EXPECT_FALSE(send_request(smp(b.port().lid, kNodeInfo)));
  ASSERT_TRUE(subnet.set_port_state(a.index(), PortState::down));
  EXPECT_TRUE(send_request(smp(a.port().lid, kPortInfo)));
  EXPECT_TRUE(send_request(directed({}, kPortInfo)));
  EXPECT_FALSE(send_request(directed({1}, kPortInfo)));
}

TEST_F(Sma, UnsupportedRequestsAreRefused) {
  EXPECT_EQ(status(*send_request(smp(b.port().lid, 0x0099))), 3U << 2);
  auto set = smp(b.port().lid, kPortInfo);
  set.mad[3] = 2;
  EXPECT_EQ(status(*send_request(set)), 3U << 2);
  auto version = smp(b.port().lid, kPortInfo);
  version.mad[2] = 2;
  EXPECT_EQ(status(*send_request(version)), 1U << 2);
  auto response = smp(b.port().lid, kPortInfo);
  response.mad[3] = 0x81;
  EXPECT_FALSE(send_request(response));
  EXPECT_EQ(subnet.counters().drop_response, 1U);
}

}  // namespace
}  // namespace softib::subnet
