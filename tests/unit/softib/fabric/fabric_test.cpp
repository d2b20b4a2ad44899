#include "softib/fabric/fabric.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "softib/fabric/checked_way.hpp"
#include "softib/fabric/fabric_layout.hpp"
#include "softib/fabric/shared_file.hpp"
#include "temporary_folder.hpp"
#include "two_level_tree.hpp"

namespace softib::fabric {
namespace {

using test::TemporaryFolder;

subnet::Node make_node(const std::string& name, std::uint16_t lid) {
  subnet::Node node;
  node.name = name;
  node.port.node_guid = Guid(0x1111'2222'3333'4400ULL + lid);
  node.port.port_guid = Guid(0x1111'2222'3333'4480ULL + lid);
  node.port.lid = Lid(lid);
  node.port.sm_lid = Lid(1);
  node.port.sm_sl = ServiceLevel(3);
  node.port.state = PortState::active;
  node.port.mtu = 4;
  node.port.max_mtu = 5;
  node.port.grh_required = lid % 2 != 0;
  node.port.number = node.port.hca_ports = 2;
  node.port.width = 8;
  node.port.speed = 32;
  node.port.reregister_count = 0xfedc;
  node.port.losses = 0xba98;
  node.port.generation = 0x1234;
  node.port.operational_vls = 3;
  node.port.vl_capability = 4;
  for (std::size_t i = 0; i < node.port.pkeys.size(); ++i) {
    node.port.pkeys[i] = PKey(static_cast<std::uint16_t>(0x8000 + i * 7));
  }
  return node;
}

subnet::GroupForwarding make_group(std::initializer_list<std::size_t> receivers) {
  subnet::GroupForwarding group;
  group.mgid = *Gid::parse("ff12:401b:ffff::ffff:ffff");
  for (const auto node : receivers) group.receivers.set(node);
  return group;
}

class FabricTest : public testing::Test {
 protected:
  FabricWriter writer() {
    auto made = FabricWriter::create_or_adopt(path_);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  Fabric reader() {
    auto opened = Fabric::open(path_);
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  void publish(FabricWriter& out) {
    for (const auto& change : switches_.take_changes()) {
      out.set_switch(switches_[change.index], change);
    }
  }
  TemporaryFolder folder_;
  std::string path_ = folder_ / "fabric";
  subnet::SubnetConfig config_;
  subnet::Switches switches_{config_};
};

TEST_F(FabricTest, NodesAreFoundByTheirAddresses) {
  auto out = writer();
  const auto in = reader();
  const auto ip = [](const char* text) { return ipoib::parse_ip_address(text).value(); };
  auto first = make_node("first", 7);
  first.addresses = {ip("10.1.0.1"), ip("fd01::7")};
  auto second = make_node("second", 8);
  for (std::uint32_t i = 0; i < kMaxNodeAddresses; ++i) {
    second.addresses.emplace_back(ipoib::Ipv4Address(0x0a02'0000 + i));
  }
  out.set_node(5, first);
  out.set_node(6, second);
  EXPECT_EQ(in.node(5)->addresses, first.addresses);
  EXPECT_EQ(in.node(6)->addresses, second.addresses);
  EXPECT_EQ(in.find(ip("10.1.0.1")), NodeIndex{5});
  EXPECT_EQ(in.find(ip("fd01::7")), NodeIndex{5});
  EXPECT_EQ(in.find(second.addresses.back()), NodeIndex{6});
  EXPECT_EQ(in.find(address_of(6, IpFamily::v6)), NodeIndex{6});
  for (const auto& nobody : {ip("10.1.0.2"), ip("0.0.0.0"), ip("::"), ip("::ffff:10.1.0.1"),
                             address_of(7, IpFamily::v4)}) {
    EXPECT_FALSE(in.find(nobody)) << ipoib::to_string(nobody);
  }
  out.remove_node(5);
  EXPECT_FALSE(in.find(ip("10.1.0.1")));
}

TEST_F(FabricTest, AnEthernetPortHasItsGidsInPlaceOfAddresses) {
  auto out = writer();
  auto node = make_node("roce", 0);
  node.port.link_layer = LinkLayer::ethernet;
  node.port.gids = {*Gid::parse("::ffff:10.0.0.1"), *Gid::parse("fe80::1")};
  out.set_node(3, node);
  const auto in = reader();
  const auto read = in.node(3);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->port, node.port);
  EXPECT_EQ(read->port.max_mtu, 5);
  EXPECT_EQ(read->addresses, (std::vector<IpAddress>{*ipoib::parse_ip_address("10.0.0.1"),
                                                     *ipoib::parse_ip_address("fe80::1")}));
  EXPECT_EQ(in.find(*ipoib::parse_ip_address("10.0.0.1")), NodeIndex{3});
  EXPECT_FALSE(in.find(*ipoib::parse_ip_address("10.0.0.2")));
}

TEST_F(FabricTest, AReaderSeesWhatTheWriterPublished) {
  auto out = writer();
  const auto in = reader();
  const auto host = make_node("host1", 7);
  out.set_node(5, host);

  const auto seen = in.node(5);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->name, "host1");
  EXPECT_EQ(seen->port, host.port);
  EXPECT_EQ(in.find("host1"), NodeIndex{5});
  EXPECT_EQ(in.port_state(5), PortState::active);
  EXPECT_EQ(in.node_version(5), 1U);
}

TEST_F(FabricTest, FindsANodeByItsName) {
  auto out = writer();
  out.set_node(5, make_node("host1", 7));
  out.set_node(6, make_node("host2", 8));
  EXPECT_EQ(out.find("host1"), NodeIndex{5});
  EXPECT_EQ(out.find("host2"), NodeIndex{6});
  EXPECT_FALSE(out.find("host3"));
}

TEST_F(FabricTest, KnowsItsFile) {
  const auto fabric = writer();
  const auto other = FabricWriter::create_or_adopt(folder_ / "other");
  ASSERT_TRUE(other);
  const auto own_file = open_shared(path_, IfMissing::fail);
  const auto other_file = open_shared(folder_ / "other", IfMissing::fail);
  EXPECT_TRUE(fabric.is_file(own_file->get()));
  EXPECT_FALSE(fabric.is_file(other_file->get()));
}

TEST_F(FabricTest, IsEmptyBeforeAnythingIsPublished) {
  const auto out = writer();
  const auto in = reader();
  EXPECT_FALSE(out.adopted());
  EXPECT_FALSE(in.node(5));
  EXPECT_FALSE(in.find("host1"));
  EXPECT_FALSE(in.node_at(0, Lid(7)));
  EXPECT_FALSE(in.node_at(0, Lid(0xc000)));
  EXPECT_EQ(in.port_state(5), PortState::down);
  EXPECT_EQ(in.group(Lid(0xc000)), subnet::GroupForwarding{});
  EXPECT_EQ(in.occupied(5), SlotSet());
}

TEST_F(FabricTest, HasPagesForTheNodesThatThereAre) {
  auto out = writer();
  const auto used = [&] {
    struct stat status {};
    EXPECT_EQ(::stat(path_.c_str(), &status), 0);
    return status.st_blocks * 512;
  };
  const auto first = out.nodes();
  const auto before = used();
  const auto reserve = [&](NodeIndex index) { return out.reserve(index).has_value(); };
  EXPECT_TRUE(reserve(static_cast<NodeIndex>(first - 1)));
  EXPECT_EQ(out.nodes(), first);
  EXPECT_EQ(used(), before);
  EXPECT_TRUE(reserve(first));
  const auto second = reader().nodes();
  EXPECT_GT(second, first);
  EXPECT_LT(second, kMaxNodes / 2);
  const auto more = used() - before;
  EXPECT_GT(more, 0);
  EXPECT_TRUE(reserve(kMaxNodes - 1));
  EXPECT_EQ(reader().nodes(), kMaxNodes);
  EXPECT_GT(used() - before, 5 * more);
  out.set_node(kMaxNodes - 1, make_node("last", 7));
  EXPECT_EQ(reader().find("last"), kMaxNodes - 1);
  EXPECT_EQ(reader().snapshot().nodes.size(), 1U);
}

TEST_F(FabricTest, ATruncatedFileStaysSo) {
  auto out = writer();
  std::filesystem::resize_file(path_, 0);
  EXPECT_TRUE(out.reserve(1).has_value());
  EXPECT_TRUE(out.is_lost());
  EXPECT_EQ(std::filesystem::file_size(path_), 0U);
}

TEST_F(FabricTest, WithoutRoomNoNodeIsAdded) {
  auto out = writer();
  std::filesystem::remove(path_);
  const auto first = out.nodes();
  EXPECT_FALSE(out.reserve(first).has_value());
  EXPECT_EQ(out.nodes(), first);
}

TEST_F(FabricTest, IndicesBeyondTheTablesAreEmpty) {
  const auto in = writer();
  EXPECT_FALSE(in.node(kMaxNodes));
  EXPECT_EQ(in.port_state(kMaxNodes), PortState::down);
  EXPECT_EQ(in.occupied(kMaxNodes), SlotSet());
  EXPECT_FALSE(in.is_occupied(kMaxNodes, 0));
  EXPECT_EQ(in.epoch(kMaxNodes, 0), 0U);
  EXPECT_EQ(in.epoch(0, QpnLayout::kSlots), 0U);
  EXPECT_EQ(in.group(subnet::group_lid(kMaxGroups)), subnet::GroupForwarding{});
}

/// What is behind a table belongs to something else.
TEST_F(FabricTest, NothingBehindATableIsRead) {
  auto out = writer();
  out.set_occupied(0, 0, true);
  out.count(0, PortCounter{}, 5);
  EXPECT_FALSE(out.node_at(0, Lid(subnet::kUnicastLids)));
  EXPECT_EQ(out.epoch(0, QpnLayout::kSlots), 0U);
  EXPECT_FALSE(out.is_occupied(0, QpnLayout::kSlots));
}

/// Every process may write to the file.
TEST_F(FabricTest, ValuesThatNoWriterWritesAreIgnored) {
  auto out = writer();
  for (const auto& peer :
       {subnet::Peer{subnet::Peer::Kind::node, kMaxNodes, 0, PortState::down},
        subnet::Peer{subnet::Peer::Kind::switch_port, 1, 1, PortState::active},
        subnet::Peer{subnet::Peer::Kind::switch_port, 0, kMaxSwitchPort + 1, PortState::active},
        subnet::Peer{static_cast<subnet::Peer::Kind>(3), 0, 1, PortState::active}}) {
    EXPECT_EQ(decode_peer(encode(peer), out.switches()), subnet::Peer{});
  }
  for (const unsigned state : {0U, 5U, 255U}) {
    auto host = make_node("host1", 7);
    host.port.state = static_cast<PortState>(state);
    out.set_node(5, host);
    EXPECT_EQ(out.port_state(5), PortState::down) << state;
    EXPECT_FALSE(out.node(5)) << state;
  }
  auto host = make_node("host1", 7);
  host.port.number = 0;
  host.port.lmc = 15;
  out.set_node(5, host);
  EXPECT_EQ(out.node(5)->port.number, 1);
  EXPECT_EQ(out.node(5)->port.lmc, ipoib::kMaxLmc);
  for (const int code : {0, 6, 15}) {
    host.port.mtu = host.port.max_mtu = static_cast<std::uint8_t>(code);
    out.set_node(5, host);
    EXPECT_EQ(out.node(5)->port.mtu, code == 0 ? 1 : 5) << code;
    EXPECT_EQ(out.node(5)->port.max_mtu, code == 0 ? 1 : 5) << code;
  }
}

TEST_F(FabricTest, RoutesLidsToNodes) {
  auto out = writer();
  for (NodeIndex node = 5; node < 7; ++node)
    switches_.connect({0, static_cast<SwitchPort>(node + 1)}, node, {node, 1});
  switches_[0].routes.set(Lid(7), SwitchPort{6});
  publish(out);
  EXPECT_EQ(reader().node_at(0, Lid(7)), NodeIndex{5});
  switches_[0].routes.set(Lid(7), SwitchPort{7});
  switches_[0].routes.set(Lid(9), SwitchPort{6});
  publish(out);
  EXPECT_EQ(reader().node_at(0, Lid(7)), NodeIndex{6});
  EXPECT_EQ(reader().node_at(0, Lid(9)), NodeIndex{5});
  switches_[0].routes.set(Lid(7), std::nullopt);
  switches_[0].routes.set(Lid(9), SwitchPort{0});
  switches_[0].routes.set(Lid(10), SwitchPort{8});
  publish(out);
  EXPECT_FALSE(reader().node_at(0, Lid(7)));
  EXPECT_EQ(reader().node_at(0, Lid(9)), kSubnetNode) << "the switch";
  EXPECT_FALSE(reader().node_at(0, Lid(10))) << "nothing is connected";
}

TEST_F(FabricTest, AnHcaWithTwoPortsIsTwoNodes) {
  auto out = writer();
  auto first = make_node("host1", 7);
  first.port.number = 1;
  first.port.hca_ports = 2;
  first.other_port = 6;
  auto second = make_node("host1", 9);
  second.port.hca_ports = 2;
  second.other_port = 5;
  out.set_node(5, first);
  out.set_node(6, second);
  const auto fabric = reader();
  EXPECT_EQ(fabric.find("host1"), NodeIndex{5});
  for (const NodeIndex node : {NodeIndex{5}, NodeIndex{6}}) {
    EXPECT_EQ(fabric.hca_of(node), 5);
    const auto ports = fabric.hca_ports(node);
    ASSERT_TRUE(ports);
    EXPECT_EQ((*ports)[1], first.port);
    EXPECT_EQ((*ports)[2], second.port);
  }
  EXPECT_EQ(fabric.hca_port(5).number, 1);
  EXPECT_EQ(fabric.hca_port(6).number, 2);
  EXPECT_EQ(fabric.find(address_of(5, IpFamily::v4)), NodeIndex{5});
  EXPECT_EQ(fabric.find(address_of(6, IpFamily::v4)), NodeIndex{6}) << "each port has addresses";
  switches_.connect({0, 7}, 6, {5, 2});
  switches_[0].routes.set(Lid(9), SwitchPort{7});
  publish(out);
  const auto way = fabric.route(0, Lid(9), false);
  EXPECT_EQ(way.index, 6);
  EXPECT_EQ(way.to.hca, 5);
  EXPECT_EQ(way.to.number, 2);
}

TEST_F(FabricTest, AnHcaWithOneCableIsOneNode) {
  auto out = writer();
  auto host = make_node("host1", 7);
  host.port.hca_ports = 2;
  out.set_node(5, host);
  EXPECT_EQ(out.hca_of(5), 5) << "its port is the second one";
  const auto ports = out.hca_ports(5);
  ASSERT_TRUE(ports);
  EXPECT_FALSE((*ports)[1].has_cable);
  EXPECT_EQ((*ports)[2], host.port);
}

TEST_F(FabricTest, RoutesUnicastLidsOnly) {
  const auto out = writer();
  for (const Lid lid : {Lid(), Lid(0xc000), ipoib::kPermissiveLid}) {
    EXPECT_FALSE(out.node_at(0, lid));
    EXPECT_EQ(out.route(0, lid, false).checks, subnet::kNoChecks);
  }
}

TEST_F(FabricTest, SpreadsMulticastToThePortsOfItsRow) {
  auto out = writer();
  for (const std::uint16_t node :
       std::initializer_list<std::uint16_t>{0, 5, 63, 64, kMaxNodes - 1}) {
    switches_.connect({0, static_cast<SwitchPort>(node + 1)}, node, {node, 1});
  }
  switches_[0].groups.set(33, PortSet().set(0).set(5).set(7).set(64).set(kMaxNodes - 1));
  switches_[0].groups.set(34, PortSet().set(63));
  publish(out);
  bool has_looped = true;
  EXPECT_EQ(reader().receivers(0, Lid(0xc000 + 33), 1, 1, has_looped),
            NodeSet().set(0).set(5).set(64).set(kMaxNodes - 1));
  EXPECT_FALSE(has_looped);
  EXPECT_EQ(reader().receivers(0, Lid(0xc000 + 34), 1, 1, has_looped), NodeSet().set(63));
  EXPECT_TRUE(reader().receivers(0, Lid(0xc000 + 32), 1, 1, has_looped).none());
  EXPECT_TRUE(reader().receivers(0, subnet::group_lid(kMaxGroups), 1, 1, has_looped).none());
}

TEST_F(FabricTest, ARemovedNodeIsGoneButItsEpochsStay) {
  auto out = writer();
  out.set_node(5, make_node("host1", 7));
  EXPECT_EQ(out.advance_epoch(5, 3), 1U);
  out.count(5, PortCounter::sent_packets, 2);
  out.remove_node(5);
  EXPECT_FALSE(out.node(5));
  EXPECT_FALSE(out.find("host1"));
  EXPECT_EQ(out.port_state(5), PortState::down);
  EXPECT_EQ(out.counters(5), PortCounterValues()) << "the next node begins anew";
  EXPECT_EQ(out.epoch(5, 3), 1U);
}

TEST_F(FabricTest, GroupsForwardToTheirReceivers) {
  auto out = writer();
  const auto group = make_group({0, 5, 63, 64, kMaxNodes - 1});
  out.set_group(Lid(0xc001), group);
  EXPECT_EQ(reader().group(Lid(0xc001)), group);
  EXPECT_EQ(reader().group(Lid(0xc000)), subnet::GroupForwarding{});
}

TEST_F(FabricTest, EpochsWrapAroundWithoutReservedValues) {
  auto out = writer();
  for (std::uint32_t i = 1; i <= QpnLayout::kMaxEpoch; ++i) EXPECT_EQ(out.advance_epoch(5, 3), i);
  EXPECT_EQ(out.advance_epoch(5, 3), 1U);
  EXPECT_EQ(out.epoch(5, 4), 0U);
}

TEST_F(FabricTest, SlotsAreOccupiedIndividually) {
  auto out = writer();
  SlotSet slots;
  for (const std::uint32_t slot : {0U, 63U, 64U, QpnLayout::kSlots - 1}) {
    out.set_occupied(5, slot, true);
    EXPECT_EQ(out.occupied(5), slots.set(slot));
    EXPECT_TRUE(out.is_occupied(5, slot));
    EXPECT_FALSE(out.is_occupied(5, (slot + 128) % QpnLayout::kSlots));
  }
  out.set_occupied(5, 64, false);
  EXPECT_EQ(out.occupied(5), slots.reset(64));
  EXPECT_FALSE(out.is_occupied(5, 64));
  EXPECT_EQ(out.occupied(4), SlotSet());
}

TEST_F(FabricTest, CountersAddUpOverProcesses) {
  auto one = writer();
  auto other = reader();
  one.count(5, PortCounter::sent_packets, 2);
  other.count(5, PortCounter::sent_packets);
  EXPECT_EQ(one.counters(5)[static_cast<std::size_t>(PortCounter::sent_packets)], 3U);
}

TEST_F(FabricTest, ViolationsAddUpOverProcessesAndKeepTheLast) {
  const KeyViolation one{Lid(0xbfff),   Lid(2),        0xfedc'ba98,     ServiceLevel(15),
                         Qpn(0xfffffe), Qpn(0x123456), Gid(1, Guid(2)), Gid(3, Guid(4))};
  const KeyViolation other{Lid(5), Lid(6), 7, ServiceLevel(8), Qpn(), Qpn(9), Gid(), Gid()};
  auto out = writer();
  auto here = reader();
  auto there = reader();
  EXPECT_EQ(out.violations(7, CheckedKey::pkey), 0U);
  here.note_violations(7, CheckedKey::pkey, {2, other});
  there.note_violations(7, CheckedKey::pkey, {3, one});
  here.note_violations(7, CheckedKey::qkey, {4, other});
  EXPECT_EQ(out.violations(7, CheckedKey::pkey), 5U);
  EXPECT_EQ(out.last_violation(7, CheckedKey::pkey), one);
  EXPECT_EQ(out.violations(7, CheckedKey::qkey), 4U);
  EXPECT_EQ(out.last_violation(7, CheckedKey::qkey), other);
  EXPECT_EQ(out.violations(8, CheckedKey::pkey), 0U) << "of another port";

  out.reset_violations(7, CheckedKey::pkey);
  EXPECT_EQ(here.violations(7, CheckedKey::pkey), 0U);
  EXPECT_EQ(here.violations(7, CheckedKey::qkey), 4U);
  out.remove_node(7);
  EXPECT_EQ(here.violations(7, CheckedKey::qkey), 0U) << "of the next HCA with this number";
}

TEST(FabricLayoutTest, APartOfAnotherViolationIsNoticed) {
  const auto one =
      encode(KeyViolation{Lid(1), Lid(2), 3, {}, Qpn(4), Qpn(5), Gid(6, Guid(7)), Gid()});
  const auto other =
      encode(KeyViolation{Lid(9), Lid(8), 7, {}, Qpn(6), Qpn(5), Gid(4, Guid(3)), Gid(2, Guid(1))});
  ASSERT_TRUE(decode_violation(one));
  for (std::size_t i = 0; i < one.size(); ++i) {
    auto mixed = one;
    mixed[i] = other[i];
    EXPECT_FALSE(decode_violation(mixed)) << i;
  }
}

TEST(FabricLayoutTest, AnHcaBeyondTheTableIsNoPeer) {
  subnet::Peer peer{.kind = subnet::Peer::Kind::node, .index = 7, .port = 1, .hca = kMaxNodes - 1};
  EXPECT_EQ(decode_peer(encode(peer), {}), peer);
  peer.hca = kMaxNodes;
  EXPECT_EQ(decode_peer(encode(peer), {}), subnet::Peer());
}

TEST(FabricLayoutTest, APortOfASwitchKeepsEachAttribute) {
  subnet::ExternalPort port;
  port.width = 8;
  port.speed = 1;
  port.mtu = 5;
  port.operational_vls = 3;
  port.faults = {.loss = 77, .delay = 55};
  for (int flag = 0; flag < 3; ++flag) {
    port.filter.inbound = flag == 0;
    port.filter.outbound = flag == 1;
    port.is_plugged_in = flag == 2;
    const auto read = decode_attributes(encode_attributes(port));
    EXPECT_EQ(read.width, 8);
    EXPECT_EQ(read.speed, 1);
    EXPECT_EQ(read.mtu, 5);
    EXPECT_EQ(read.operational_vls, 3);
    EXPECT_EQ(read.faults, port.faults);
    EXPECT_EQ(read.filter.inbound, flag == 0);
    EXPECT_EQ(read.filter.outbound, flag == 1);
    EXPECT_EQ(read.is_plugged_in, flag == 2);
  }
}

TEST(CheckedPacketsTest, HeadersAreReadBehindAGrhToo) {
  ipoib::wire::UdPacket packet;
  packet.lrh.slid = Lid(3);
  packet.lrh.dlid = Lid(4);
  packet.lrh.sl = ServiceLevel(5);
  packet.bth.pkey = PKey(0x8012);
  packet.bth.destination = Qpn(7);
  packet.deth.source = Qpn(9);
  for (const bool has_grh : {false, true}) {
    if (has_grh) packet.grh.emplace();
    std::array<std::uint8_t, ipoib::wire::UdPacket::kMaxHeaderSize> bytes{};
    const auto size = packet.emit_headers(0, bytes);
    const auto read = CheckedPackets::headers_of(ipoib::ConstBytes(bytes).first(size));
    EXPECT_EQ(std::tuple(read.slid, read.dlid, read.sl),
              std::tuple(Lid(3), Lid(4), ServiceLevel(5)));
    EXPECT_EQ(std::tuple(read.pkey, read.destination), std::tuple(PKey(0x8012), Qpn(7)));
    EXPECT_EQ(read.source, Qpn(9));
    constexpr std::size_t kOpcodeBehindDeth = 8 + 12;
    bytes[size - kOpcodeBehindDeth] = 0x04;  // SEND of a connection, which has no DETH
    EXPECT_EQ(CheckedPackets::headers_of(ipoib::ConstBytes(bytes).first(size)).source, Qpn());
    EXPECT_EQ(CheckedPackets::headers_of(ipoib::ConstBytes(bytes).first(8)).pkey, PKey());
  }
}

TEST_F(FabricTest, SaysThatTheWayOfAPacketMayHaveChanged) {
  auto out = std::optional(writer());
  const auto in = reader();
  auto before = in.changes();
  const auto has_changed = [&] { return std::exchange(before, in.changes()) != before; };
  out->set_node(5, make_node("host1", 7));
  EXPECT_TRUE(has_changed());
  switches_[0].routes.set(Lid(7), SwitchPort{6});
  publish(*out);
  EXPECT_TRUE(has_changed());
  out->set_checks(subnet::kPKeyCheck);
  EXPECT_TRUE(has_changed());
  out->set_group(Lid(0xc001), make_group({5}));
  EXPECT_FALSE(has_changed()) << "a way of multicast packets";
  out->remove_node(5);
  EXPECT_TRUE(has_changed());
  out.reset();
  (void)writer();
  EXPECT_TRUE(has_changed()) << "the last writer may have been killed before it could say so";
}

TEST_F(FabricTest, ANewWriterAdoptsTheState) {
  {
    auto out = writer();
    out.set_node(5, make_node("host1", 7));
    out.set_group(Lid(0xc001), make_group({5}));
    out.advance_epoch(5, 0);
  }
  const auto out = writer();
  EXPECT_TRUE(out.adopted());
  const auto all = out.snapshot();
  ASSERT_EQ(all.nodes.size(), 1U);
  EXPECT_EQ(all.nodes[0].index, 5);
  EXPECT_EQ(all.nodes[0].node.name, "host1");
  ASSERT_EQ(all.groups.size(), 1U);
  EXPECT_EQ(all.groups[0].mlid, Lid(0xc001));
  EXPECT_EQ(out.epoch(5, 0), 1U);
}

/// The counts, tables and ports of each switch, with values that differ from each other.
TEST_F(FabricTest, ANewWriterReadsTheSwitchesAsTheyWere) {
  config_.topology = test::two_level_tree();
  subnet::Switches before(config_);
  const SwitchCount count{before.size(), before[0].last_port()};
  std::uint16_t next = 1;
  for (SwitchIndex i = 0; i < before.size(); ++i) {
    auto& at = before[i];
    at.node.port = make_node("", static_cast<std::uint16_t>(i + 50)).port;
    at.has_changed = true;
    for (SwitchPort number = 1; number <= at.last_port(); ++number, ++next) {
      auto& port = at.ports[number];
      const auto low = static_cast<std::uint8_t>(next);
      port.width = low;
      port.speed = static_cast<std::uint8_t>(low + 1);
      port.mtu = static_cast<std::uint8_t>(1 + next % 5);
      port.operational_vls = static_cast<std::uint8_t>(1 + next % 4);
      port.is_plugged_in = next % 2 == 0;
      port.faults = {.loss = next, .delay = static_cast<std::uint16_t>(next + 100)};
      port.filter = {.inbound = next % 3 == 0, .outbound = next % 4 == 0, .pkeys = {}};
      for (std::size_t k = 0; k < port.filter.pkeys.size(); ++k) {
        port.filter.pkeys[k] = PKey(static_cast<std::uint16_t>(0x8000 + next * 40 + k));
      }
      port.links_lost = next * 70'000U;
    }
    for (std::uint16_t lid = 0; lid < subnet::kUnicastLids; lid += 501) {
      at.routes.set(Lid(lid), static_cast<SwitchPort>(1 + (lid + i) % 4));
    }
    for (const std::size_t group : {std::size_t{0}, std::size_t{7}, kMaxGroups - 1}) {
      at.groups.set(group, PortSet().set((group + i) % 4));
    }
  }
  {
    auto out = FabricWriter::create_or_adopt(path_, count).value();
    for (const auto& change : before.take_changes()) out.set_switch(before[change.index], change);
    for (const std::size_t group : {std::size_t{0}, kMaxGroups - 1}) {
      out.set_group(subnet::group_lid(group), make_group({group % 5}));
    }
  }
  const auto all = FabricWriter::create_or_adopt(path_, count)->snapshot();
  ASSERT_EQ(all.switches.size(), before.size());
  for (SwitchIndex i = 0; i < before.size(); ++i) {
    SCOPED_TRACE(i);
    const auto& [node, ports, routes, groups] = all.switches[i];
    const auto& from = std::as_const(before)[i];
    EXPECT_EQ(node.name, from.node.name);
    EXPECT_EQ(node.port, from.node.port);
    ASSERT_EQ(ports.size(), from.ports.size());
    for (SwitchPort number = 1; number <= from.last_port(); ++number) {
      SCOPED_TRACE(number);
      const auto& [read, wrote] = std::tie(ports[number], from.ports[number]);
      EXPECT_EQ(read.peer, wrote.peer);
      EXPECT_EQ((std::tuple(read.width, read.speed, read.mtu, read.operational_vls)),
                (std::tuple(wrote.width, wrote.speed, wrote.mtu, wrote.operational_vls)));
      EXPECT_EQ(read.is_plugged_in, wrote.is_plugged_in);
      EXPECT_EQ(read.faults, wrote.faults);
      EXPECT_EQ(read.filter, wrote.filter);
      EXPECT_EQ(read.links_lost, wrote.links_lost);
    }
    for (std::size_t lid = 0; lid < subnet::kUnicastLids; ++lid) {
      const Lid each(static_cast<std::uint16_t>(lid));
      ASSERT_EQ(routes.at(each), from.routes.at(each)) << lid;
    }
    for (std::size_t group = 0; group < kMaxGroups; ++group) {
      ASSERT_EQ(groups.at(group), from.groups.at(group)) << group;
    }
  }
  ASSERT_EQ(all.groups.size(), 2U);
  EXPECT_EQ(all.groups[0].mlid, subnet::group_lid(0));
  EXPECT_EQ(all.groups[0].forwarding, make_group({0}));
  EXPECT_EQ(all.groups[1].mlid, subnet::group_lid(kMaxGroups - 1));
  EXPECT_EQ(all.groups[1].forwarding, make_group({(kMaxGroups - 1) % 5}));
}

// States that kill -9 can leave.

TEST_F(FabricTest, AWriterKilledDuringAChangeLeavesTheOldRecord) {
  const auto host = make_node("host1", 7);
  PublishedNode record{};
  record.publish(encode(host));
  record.fill(encode(make_node("other", 8)));

  PublishedNode::Value words;
  ASSERT_TRUE(record.read(words));
  EXPECT_EQ(decode(words)->port, host.port);
  record.publish(encode(make_node("third", 9)));
  ASSERT_TRUE(record.read(words));
  EXPECT_EQ(decode(words)->name, "third");
}

TEST_F(FabricTest, AnUnfinishedFileIsCreatedAgain) {
  std::ofstream(path_ + ".new") << std::string(sizeof(FabricLayout), '\1');
  const auto out = writer();
  EXPECT_FALSE(out.adopted());
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
  EXPECT_EQ(out.epoch(5, 0), 0U) << "nothing of it is left";
  EXPECT_EQ(out.node_version(5), 0U);
}

TEST_F(FabricTest, AReaderNeverSeesHalfAChange) {
  auto out = writer();
  out.set_node(5, make_node("host0", 1));
  std::atomic<bool> done = false;
  std::thread changes([&] {
    for (std::uint16_t i = 0; i < 2000; ++i) {
      const std::uint16_t lid = static_cast<std::uint16_t>(1 + i % 9);
      out.set_node(5, make_node("host" + std::to_string(lid - 1), lid));
    }
    done = true;
  });
  const auto in = reader();
  std::size_t complete = 0;
  while (!done) {
    const auto node = in.node(5);
    if (!node) continue;
    ++complete;
    EXPECT_EQ(node->name, "host" + std::to_string(node->port.lid.value() - 1));
    EXPECT_EQ(node->port.node_guid.value() & 0xff, node->port.lid.value());
  }
  changes.join();
  EXPECT_TRUE(complete > 0 || in.node(5));
}

// Other files are refused, with a message that says what to do.

TEST_F(FabricTest, RefusesAMissingFile) {
  const auto opened = Fabric::open(path_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ENOENT);
}

TEST_F(FabricTest, RefusesAFileThatIsSomethingElse) {
  std::ofstream(path_) << "not a fabric file";
  const auto opened = FabricWriter::create_or_adopt(path_);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, testing::HasSubstr(" is not usable: "));
  EXPECT_THAT(opened.error().message,
              testing::EndsWith("; stop the subnet's processes and remove " + folder_.path()));
}

TEST_F(FabricTest, RefusesAFileOfAnotherTopology) {
  (void)writer();
  EXPECT_EQ(FabricWriter::create_or_adopt(path_, {.switches = 2, .ports = 4}).error().message,
            path_ +
                " is of a subnet with another topology; end its programs, and remove it with "
                "`softib stop`");
}

TEST_F(FabricTest, RefusesAFileOfAnotherKind) {
  std::ofstream(path_).close();
  std::filesystem::resize_file(path_, file_bytes({}));
  const auto opened = Fabric::open(path_);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, testing::HasSubstr("not a fabric file"));
}

TEST_F(FabricTest, RefusesAFileOfAnotherVersion) {
  (void)writer();
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  const std::uint32_t version = kFabricVersion + 1;
  file.seekp(offsetof(FabricHeader, version)).write(reinterpret_cast<const char*>(&version), 4);
  file.close();
  const auto opened = Fabric::open(path_);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, testing::HasSubstr("another version"));
}

TEST_F(FabricTest, RefusesAFileThatHasBeenCutOrHasGrown) {
  (void)writer();
  const auto size = std::filesystem::file_size(path_);
  for (const auto& [other, why] : {std::pair{size - 1, "its size is not what it says"},
                                   std::pair{size + 1, "its size is not what it says"},
                                   std::pair{std::uintmax_t{8}, "too short for a fabric file"}}) {
    std::filesystem::resize_file(path_, other);
    const auto opened = Fabric::open(path_);
    ASSERT_FALSE(opened) << other;
    EXPECT_THAT(opened.error().message, testing::HasSubstr(why));
  }
}

}  // namespace
}  // namespace softib::fabric
