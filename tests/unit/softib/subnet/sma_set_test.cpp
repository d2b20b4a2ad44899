// A subnet with an external SM, which reads and writes the attributes.
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <utility>

#include "directed_request.hpp"
#include "sa_client.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/subnet/node_attributes.hpp"
#include "softib/subnet/smp.hpp"
#include "softib/subnet/switch_traps.hpp"
#include "subnet_snapshot.hpp"
#include "two_level_tree.hpp"
#include "wire/node_record.hpp"
#include "wire/port_info.hpp"

namespace softib::subnet {
namespace {

using ipoib::wire::MadHeader;
using ipoib::wire::PortInfo;
namespace attribute = ipoib::wire::attribute;

constexpr std::uint8_t kGet = 1;
constexpr std::uint8_t kSet = 2;
constexpr unsigned kInvalidField = 7U << 2;
constexpr unsigned kUnsupported = 3U << 2;
constexpr Lid kManagerLid{1};
constexpr Lid kSwitchAt{2};
constexpr Lid kHostLid{3};

SubnetConfig external_sm_config() {
  SubnetConfig config;
  config.management = Management::external_sm;
  config.mtu = 3;  // not the number of lanes
  return config;
}

/// The SM is on the first HCA, a host is the second. They are on ports 2 and 3 of the switch.
class SmaSet : public ::testing::Test {
 protected:
  using Path = std::vector<std::uint8_t>;

  SmaSet() : SmaSet(external_sm_config(), "sm", "a") {}
  SmaSet(const SubnetConfig& config, const char* manager_name, const char* host_name)
      : subnet(config),
        manager(subnet.add_hca(manager_name).value()),
        host(subnet.add_hca(host_name).value()) {}

  MadPacket smp(const Path& path, std::uint8_t method, std::uint16_t attribute,
                std::uint32_t modifier = 0, const SmpData& data = {}) {
    return directed_request(manager, path, method, attribute, modifier, data);
  }
  std::optional<MadPacket> send_request(const MadPacket& packet) {
    subnet.receive(packet, kStart);
    const auto packets = subnet.take_outgoing();
    return packets.empty() ? std::nullopt : std::optional(packets[0]);
  }
  static unsigned status(const MadPacket& packet) {
    return MadHeader::parse(packet.mad)->status & 0x7fffU;
  }
  static ConstBytes data(const MadPacket& packet) {
    return ConstBytes(packet.mad).subspan(kSmpDataOffset, kSmpDataSize);
  }
  PortInfo port_info(const Path& path, std::uint32_t port = 0) {
    return PortInfo::parse(data(send_request(smp(path, kGet, attribute::kPortInfo, port)).value()))
        .value();
  }
  unsigned set(const Path& path, std::uint16_t attribute, std::uint32_t modifier,
               const SmpData& value) {
    return status(send_request(smp(path, kSet, attribute, modifier, value)).value());
  }
  unsigned set(const Path& path, const PortInfo& info, std::uint32_t port = 0) {
    SmpData value{};
    info.emit(value);
    return set(path, attribute::kPortInfo, port, value);
  }
  /// PortInfo without a change of state.
  PortInfo wanted(Lid lid) {
    PortInfo info;
    info.lid = lid;
    info.sm_lid = kManagerLid;
    info.sm_sl = ServiceLevel(2);
    info.neighbor_mtu = 3;
    return info;
  }
  PortInfo wanted(Lid lid, PortState state) {
    PortInfo info = wanted(lid);
    info.port_state = static_cast<std::uint8_t>(state);
    return info;
  }
  void bring_up() {
    ASSERT_EQ(set(kSelf, wanted(kManagerLid)), 0U);
    ASSERT_EQ(set(kSwitch, wanted(kSwitchAt)), 0U);
    ASSERT_EQ(set(kHost, wanted(kHostLid)), 0U);
    for (const auto state : {PortState::armed, PortState::active}) {
      ASSERT_EQ(set(kSelf, wanted(kManagerLid, state)), 0U);
      ASSERT_EQ(set(kHost, wanted(kHostLid, state)), 0U);
    }
    SmpData block;
    block.fill(255);
    block[kManagerLid.value()] = 2;
    block[kSwitchAt.value()] = 0;
    block[kHostLid.value()] = 3;
    ASSERT_EQ(set(kSwitch, smp_attribute::kLinearForwardingTable, 0, block), 0U);
    (void)subnet.take_changes();
  }
  const PortAttributes& port(NodeIndex node) { return subnet.node(node)->port; }
  /// A request for the counters of a port.
  static MadPacket counters(Lid from, Lid to, std::uint8_t number) {
    MadHeader header;
    header.management_class = ipoib::wire::mgmt_class::kPerf;
    header.class_version = 1;
    header.method = kGet;
    header.attribute_id = attribute::kPortCounters;
    MadPacket packet;
    packet.slid = from;
    packet.dlid = to;
    packet.pkey = ipoib::kDefaultPKey;
    packet.qkey = ipoib::wire::kGsiQKey;
    packet.source = packet.destination = Qpn(1);
    header.emit(packet.mad);
    packet.mad[65] = number;
    return packet;
  }

  const Path kSelf{};
  const Path kSwitch{1};
  const Path kHost{1, 3};
  Subnet subnet;
  NodeIndex manager;
  NodeIndex host;
};

TEST_F(SmaSet, HasPowerOnState) {
  for (const auto node : {manager, host}) {
    EXPECT_EQ(port(node).state, PortState::init);
    EXPECT_EQ(port(node).lid, Lid());
    EXPECT_EQ(port(node).sm_lid, Lid());
    EXPECT_EQ(port(node).pkeys[0], ipoib::kDefaultPKey);
    EXPECT_FALSE(port(node).pkeys[1].is_valid());
  }
  EXPECT_EQ(subnet.node(0)->name, kSwitchName);
  EXPECT_TRUE(subnet.take_changes().nodes[kSubnetNode]) << "the switch";
  EXPECT_EQ(port_info(kSwitch, 0).lid, Lid());
  EXPECT_EQ(port_info(kSwitch, 1).port_state, 1) << "not connected";
  EXPECT_EQ(port_info(kSwitch, 2).port_state, 2);
  EXPECT_EQ(port_info(kHost).capability_mask, 0x0200'0848U);
  EXPECT_EQ(port_info(kSwitch, 2).gid_prefix, 0U) << "only port 0 has GIDs";
  EXPECT_EQ(port_info(kSwitch, 2).guid_capability, 0);
  EXPECT_TRUE(subnet.groups().empty());
  auto config = external_sm_config();
  config.mtu = 5;
  Subnet large(config);
  EXPECT_EQ(large.node(large.add_hca("a").value())->port.mtu, 5);
}

TEST_F(SmaSet, ResponseReturnsWithoutLids) {
  const auto response = send_request(smp(kHost, kGet, attribute::kPortInfo)).value();
  const auto route = MadRoute::of(MadHeader::parse(response.mad)->transaction_id);
  EXPECT_EQ(route.node, manager);
}

TEST_F(SmaSet, SetPortInfoConfiguresAPort) {
  PortInfo info = wanted(kHostLid);
  info.gid_prefix = 0xfec0'0000'0000'0000;
  info.sm_sl = ServiceLevel(3);
  info.neighbor_mtu = 2;
  info.client_reregister = true;
  ASSERT_EQ(set(kHost, info, 1), 0U);
  EXPECT_EQ(port(host).lid, kHostLid);
  EXPECT_EQ(port(host).sm_lid, kManagerLid);
  EXPECT_EQ(port(host).gid_prefix, 0xfec0'0000'0000'0000U);
  EXPECT_EQ(port(host).sm_sl, ServiceLevel(3));
  EXPECT_EQ(port(host).mtu, 2);
  EXPECT_EQ(port(host).reregister_count, 1U);
  EXPECT_EQ(port(host).state, PortState::init);
  EXPECT_EQ(port_info(kHost).lid, kHostLid);
  const auto changes = subnet.take_changes();
  EXPECT_TRUE(changes.nodes[host]);
  info.lmc = 2;
  info.lid = Lid(6);
  EXPECT_EQ(set(kHost, info, 1), kInvalidField) << "not a multiple of 4";
  info.lid = Lid(8);
  EXPECT_EQ(set(kHost, info, 1), 0U);
  EXPECT_EQ(port(host).lmc, 2);
}

TEST_F(SmaSet, CountersOfViolationsAreOfAPortAndResetByZero) {
  std::map<std::pair<NodeIndex, CheckedKey>, std::uint64_t> packets;
  KeyViolationSource source;
  source.packets = [&](NodeIndex node, CheckedKey key) { return packets[{node, key}]; };
  source.reset = [&](NodeIndex node, CheckedKey key) { packets[{node, key}] = 0; };
  Subnet counting(external_sm_config(), {.key_violations = source});
  const auto self = counting.add_hca("manager").value();
  const auto other = counting.add_hca("host").value();
  const auto ask = [&](const MadPacket& request) {
    counting.receive(request, kStart);
    return PortInfo::parse(data(counting.take_outgoing().at(0))).value();
  };
  packets = {{{self, CheckedKey::pkey}, 1},
             {{other, CheckedKey::pkey}, 65'536},
             {{other, CheckedKey::qkey}, 7}};
  EXPECT_EQ(ask(smp(kSelf, kGet, attribute::kPortInfo)).pkey_violations, 1U);
  EXPECT_EQ(ask(smp(kSelf, kGet, attribute::kPortInfo)).qkey_violations, 0U);
  auto info = ask(smp(kHost, kGet, attribute::kPortInfo));
  EXPECT_EQ(info.pkey_violations, 65'535U) << "it stops there";
  EXPECT_EQ(info.qkey_violations, 7U);

  info = wanted(kHostLid);
  info.qkey_violations = 3;
  SmpData value{};
  info.emit(value);
  info = ask(smp(kHost, kSet, attribute::kPortInfo, 0, value));
  EXPECT_EQ(info.pkey_violations, 0U);
  EXPECT_EQ(info.qkey_violations, 7U) << "only 0 is written";
  EXPECT_EQ(ask(smp(kSelf, kGet, attribute::kPortInfo)).pkey_violations, 1U);
}

TEST_F(SmaSet, PortInfoWithAnInvalidValueIsRefusedAsAWhole) {
  const auto refused = [&](auto&& spoil) {
    PortInfo info = wanted(kHostLid);
    spoil(info);
    EXPECT_EQ(set(kHost, info), kInvalidField);
    EXPECT_EQ(port(host).lid, Lid());
  };
  refused([](PortInfo& info) { info.lid = Lid(); });
  refused([](PortInfo& info) { info.lid = Lid(0xc000); });
  refused([](PortInfo& info) { info.sm_lid = Lid(); });
  refused([](PortInfo& info) { info.neighbor_mtu = 0; });
  refused([](PortInfo& info) { info.neighbor_mtu = 4; });  // the maximum is 1024
  refused([](PortInfo& info) { info.port_state = 2; });
  refused([](PortInfo& info) { info.port_state = 4; });  // requires ARMED
  refused([](PortInfo& info) { info.port_state = 9; });
  refused([](PortInfo& info) { info.physical_state = 7; });
  refused([](PortInfo& info) { info.operational_vls = 5; });
  EXPECT_EQ(set(kHost, wanted(kHostLid), 2), kInvalidField) << "an HCA has one port";
  auto checking = wanted(kHostLid);
  checking.enforces_inbound = true;
  EXPECT_EQ(set(kSwitch, checking, 200), kInvalidField);
  EXPECT_FALSE(subnet.switches()[0].ports[200].filter.inbound);
  auto of_switch = wanted(kSwitchAt);
  of_switch.neighbor_mtu = 0;
  EXPECT_EQ(set(kSwitch, of_switch), 0U) << "its port 0 has no link";
}

TEST_F(SmaSet, ReadOnlyAttributesAreRefused) {
  EXPECT_EQ(port_info(kHost).lid, Lid());
  EXPECT_EQ(subnet.counters().answered, 1U);
  EXPECT_EQ(subnet.counters().passed_on, 0U);
  EXPECT_EQ(subnet.counters().refused, 0U);
  EXPECT_EQ(set(kHost, 0x0010, 0, {}), kUnsupported) << "NodeDescription";
  EXPECT_EQ(subnet.counters().refused, 1U);
  EXPECT_EQ(set(kHost, 0x0011, 0, {}), kUnsupported) << "NodeInfo";
  EXPECT_EQ(set(kHost, smp_attribute::kSwitchInfo, 0, {}), kUnsupported);
  EXPECT_EQ(set(kHost, smp_attribute::kLinearForwardingTable, 0, {}), kUnsupported);
  EXPECT_EQ(set(kSwitch, smp_attribute::kLinearForwardingTable, 0x300, {}), kInvalidField);
  EXPECT_EQ(set(kSwitch, smp_attribute::kMulticastForwardingTable, 32, {}), kInvalidField);
  EXPECT_EQ(set(kHost, smp_attribute::kPKeyTable, 1, {}), kInvalidField);
  EXPECT_EQ(set(kSwitch, smp_attribute::kSlToVlMapping, 254, {}), 0U) << "its last port";
  EXPECT_EQ(set(kSwitch, smp_attribute::kSlToVlMapping, 255, {}), kInvalidField);
  SmpData info{};
  ipoib::store_be(&info[6], std::uint16_t{0xc000});
  EXPECT_EQ(set(kSwitch, smp_attribute::kSwitchInfo, 0, info), kInvalidField);
}

TEST_F(SmaSet, NoResponseWithoutTheMKey) {
  constexpr std::uint64_t kKey = 0x1234'5678'9abc'def0;
  const auto with_key = [](MadPacket packet) {
    ipoib::store_be(&packet.mad[24], kKey);
    return packet;
  };
  PortInfo info = wanted(kHostLid);
  info.m_key = kKey;
  info.m_key_protection = 1;
  ASSERT_EQ(set(kHost, info), 0U);
  EXPECT_EQ(port_info(kHost).m_key, 0U) << "the key is hidden";
  const auto shown = send_request(with_key(smp(kHost, kGet, attribute::kPortInfo))).value();
  EXPECT_EQ(PortInfo::parse(data(shown))->m_key, kKey);

  info.m_key_protection = 2;
  SmpData value{};
  info.emit(value);
  EXPECT_FALSE(send_request(smp(kHost, kSet, attribute::kPortInfo, 0, value)));
  EXPECT_TRUE(send_request(with_key(smp(kHost, kSet, attribute::kPortInfo, 0, value))));
  EXPECT_FALSE(send_request(smp(kHost, kGet, attribute::kPortInfo)));
  EXPECT_TRUE(send_request(with_key(smp(kHost, kGet, attribute::kPortInfo))));
  EXPECT_EQ(subnet.counters().drop_m_key, 2U);
  EXPECT_EQ(subnet.counters().drop_destination, 0U);
  EXPECT_TRUE(send_request(smp(kSwitch, kGet, attribute::kPortInfo)))
      << "each port has its own M_Key";
}

TEST_F(SmaSet, BothEndsOfACableShareOneState) {
  EXPECT_EQ(set(kHost, wanted(kHostLid, PortState::armed)), 0U);
  EXPECT_EQ(set(kSwitch, wanted(Lid(), PortState::armed), 3), 0U) << "already in this state";
  EXPECT_EQ(set(kSwitch, wanted(Lid(), PortState::active), 3), 0U);
  EXPECT_EQ(port(host).state, PortState::active);
  EXPECT_EQ(set(kHost, wanted(kHostLid, PortState::down)), 0U);
  EXPECT_EQ(port(host).state, PortState::init) << "the link is retrained";
  PortInfo disabled = wanted(Lid());
  disabled.physical_state = 3;
  EXPECT_EQ(set(kSwitch, disabled, 3), 0U);
  EXPECT_EQ(port(host).state, PortState::down);
  EXPECT_FALSE(send_request(smp(kHost, kGet, attribute::kPortInfo)));
  PortInfo enabled = wanted(Lid());
  enabled.physical_state = 2;
  EXPECT_EQ(set(kSwitch, enabled, 3), 0U);
  EXPECT_EQ(port(host).state, PortState::init);
  EXPECT_EQ(set(kSwitch, wanted(Lid(), PortState::armed), 30), kInvalidField) << "no cable";
}

TEST_F(SmaSet, SetPKeyTable) {
  SmpData table{};
  ipoib::store_be(&table[0], std::uint16_t{0xffff});
  ipoib::store_be(&table[10], std::uint16_t{0x0012});
  ASSERT_EQ(set(kHost, smp_attribute::kPKeyTable, 0, table), 0U);
  EXPECT_EQ(port(host).pkeys[5], PKey(0x0012));
  const auto read = send_request(smp(kHost, kGet, smp_attribute::kPKeyTable)).value();
  EXPECT_TRUE(std::ranges::equal(data(read), table));
}

TEST_F(SmaSet, UnicastFollowsTheForwardingTable) {
  bring_up();
  EXPECT_EQ(subnet.route(manager, kHostLid), host);
  EXPECT_FALSE(subnet.route(manager, kSwitchAt)) << "it ends at the switch";
  EXPECT_FALSE(subnet.route(manager, Lid(4)));
  SmpData block;
  block.fill(255);
  block[kHostLid.value()] = 1;  // not connected
  block[4] = 3;
  ASSERT_EQ(set(kSwitch, smp_attribute::kLinearForwardingTable, 0, block), 0U);
  EXPECT_FALSE(subnet.route(manager, kHostLid));
  EXPECT_EQ(subnet.route(manager, Lid(4)), host);
  const auto changes = subnet.take_changes();
  ASSERT_EQ(changes.switches.size(), 1U);
  EXPECT_EQ(changes.switches[0].routes, LidBlocks(1));
  const auto read = send_request(smp(kSwitch, kGet, smp_attribute::kLinearForwardingTable)).value();
  EXPECT_EQ(data(read)[4], 3);
  EXPECT_EQ(data(read)[3], 1);
}

TEST_F(SmaSet, MulticastFollowsTheForwardingTable) {
  SmpData block{};
  ipoib::store_be(&block[2], std::uint16_t{1U << 2 | 1U << 3 | 1});
  ASSERT_EQ(set(kSwitch, smp_attribute::kMulticastForwardingTable, 1, block), 0U);
  const Lid mlid(0xc000 + 33);
  EXPECT_EQ(subnet.receivers(manager, mlid), NodeSet().set(manager).set(host));
  EXPECT_EQ(subnet.forwarding(mlid).receivers, NodeSet().set(manager).set(host));
  EXPECT_TRUE(subnet.take_changes().switches[0].groups[33 / kBlockGroups]);
  // Another position of the block: ports 240 to 255.
  const auto exits = [&] { return subnet.switches()[0].groups.at(33); };
  ASSERT_EQ(set(kSwitch, smp_attribute::kMulticastForwardingTable, 15U << 28 | 1, block), 0U);
  EXPECT_EQ(exits(), PortSet().set(2 - 1).set(3 - 1).set(240 - 1).set(242 - 1).set(243 - 1));
  ASSERT_EQ(set(kSwitch, smp_attribute::kMulticastForwardingTable, 1, {}), 0U);
  EXPECT_EQ(exits(), PortSet().set(240 - 1).set(242 - 1).set(243 - 1));
  EXPECT_TRUE(subnet.receivers(manager, mlid).none()) << "nothing is connected there";
  const auto read =
      send_request(smp(kSwitch, kGet, smp_attribute::kMulticastForwardingTable, 15U << 28 | 1))
          .value();
  EXPECT_TRUE(std::ranges::equal(data(read), block));
}

TEST_F(SmaSet, AnotherLidIsAChangeOfItsNode) {
  bring_up();
  ASSERT_EQ(set(kSwitch, wanted(Lid(9))), 0U);
  EXPECT_EQ(subnet.take_changes().nodes, NodeSet().set(kSubnetNode));
  ASSERT_EQ(set(kHost, wanted(Lid(7))), 0U);
  EXPECT_EQ(subnet.take_changes().nodes, NodeSet().set(host));
  EXPECT_EQ(subnet.node_at(Lid(7)), host);
  EXPECT_FALSE(subnet.node_at(kHostLid));
}

TEST_F(SmaSet, SwitchInfoReportsPortStateChange) {
  constexpr std::uint8_t kChanged = 4;
  const auto last_octet = [&] {
    return data(send_request(smp(kSwitch, kGet, smp_attribute::kSwitchInfo)).value())[11];
  };
  EXPECT_NE(last_octet() & kChanged, 0);
  SmpData info{};
  ipoib::store_be(&info[6], std::uint16_t{5});
  info[8] = 1;
  info[9] = 2;
  info[10] = 3;
  info[11] = 18 << 3 | kChanged;
  EXPECT_EQ(set(kSwitch, smp_attribute::kSwitchInfo, 0, info), 0U);
  EXPECT_EQ(last_octet(), 18 << 3);
  const auto shown = send_request(smp(kSwitch, kGet, smp_attribute::kSwitchInfo)).value();
  const auto octets = data(shown);
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&octets[4]), kMaxGroups) << "MulticastFDBCap";
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&octets[6]), 5) << "LinearFDBTop";
  EXPECT_EQ(std::vector(octets.begin() + 8, octets.begin() + 11),
            (std::vector<std::uint8_t>{1, 2, 3}))
      << "the default ports";
  ASSERT_TRUE(subnet.set_port_state(host, PortState::down));
  EXPECT_EQ(port_info(kSwitch, 3).port_state, 1);
  EXPECT_EQ(last_octet(), 18 << 3 | kChanged);
  EXPECT_EQ(set(kSwitch, smp_attribute::kSwitchInfo, 0, info), 0U);
  ASSERT_TRUE(subnet.remove_hca(host));
  EXPECT_EQ(last_octet(), 18 << 3 | kChanged);
}

// Traps.

TEST_F(SmaSet, NoTrapWithoutAnSm) {
  subnet.on_time(kStart);
  EXPECT_TRUE(subnet.take_forwarded_mads().empty());
  EXPECT_EQ(subnet.next_deadline(), ipoib::kNever);
}

TEST_F(SmaSet, TrapIsRepeatedUntilRepressed) {
  bring_up();
  subnet.on_time(kStart);
  (void)subnet.take_forwarded_mads();
  ASSERT_TRUE(subnet.add_hca("late"));
  EXPECT_EQ(subnet.next_deadline(), ipoib::TimePoint());
  subnet.on_time(kStart);
  const auto first = subnet.take_forwarded_mads();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].to, manager);
  EXPECT_EQ(first[0].packet.dlid, kManagerLid);
  EXPECT_EQ(first[0].packet.slid, kSwitchAt);
  EXPECT_EQ(first[0].packet.sl, ServiceLevel(2));
  const auto header = MadHeader::parse(first[0].packet.mad).value();
  EXPECT_EQ(header.class_version, kSmpClassVersion);
  EXPECT_EQ(header.method, smp_method::kTrap);
  EXPECT_EQ(header.attribute_id, attribute::kNotice);
  const auto notice = data(first[0].packet);
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&notice[4]), 128);
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&notice[10]), kSwitchAt.value());
  EXPECT_EQ(subnet.next_deadline(), kStart + kTrapInterval);
  subnet.on_time(kStart + kTrapInterval);
  const auto second = subnet.take_forwarded_mads();
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].packet.mad, first[0].packet.mad);

  MadPacket heard = second[0].packet;
  heard.mad[3] = smp_method::kTrapRepress;
  subnet.receive(heard, kStart);
  EXPECT_EQ(subnet.next_deadline(), ipoib::kNever);
  EXPECT_EQ(subnet.counters().report_acknowledged, 1U);
  subnet.receive(heard, kStart);
  EXPECT_EQ(subnet.counters().drop_response, 1U);
  EXPECT_EQ(subnet.counters().drop_malformed, 0U);
  EXPECT_EQ(subnet.counters().drop_source, 0U);
  ASSERT_EQ(set(kHost, wanted(kHostLid)), 0U);
  EXPECT_EQ(subnet.next_deadline(), ipoib::kNever) << "its state has not changed";
  ASSERT_EQ(set(kHost, wanted(kHostLid, PortState::down)), 0U);
  EXPECT_EQ(subnet.next_deadline(), ipoib::TimePoint()) << "the link is trained again";
  subnet.on_time(kStart);
  const auto next = subnet.take_forwarded_mads();
  ASSERT_EQ(next.size(), 1U);
  EXPECT_NE(MadHeader::parse(next[0].packet.mad)->transaction_id, header.transaction_id);
}

TEST_F(SmaSet, MadsForTheSmAreForwarded) {
  EXPECT_FALSE(send_request(smp({1, 2}, kGet, smp_attribute::kSmInfo)));
  const auto passed = subnet.take_forwarded_mads();
  ASSERT_EQ(passed.size(), 1U);
  EXPECT_EQ(passed[0].to, manager);
  EXPECT_EQ(passed[0].packet.mad[6], 3) << "the hop pointer is after the last hop";
  EXPECT_EQ(passed[0].packet.mad[192 + 1], 2) << "the entry port of the switch";
  EXPECT_EQ(passed[0].packet.mad[192 + 2], 1);
  EXPECT_EQ(subnet.counters().passed_on, 1U);
  EXPECT_FALSE(send_request(smp(kHost, kGet, smp_attribute::kSmInfo)));
  EXPECT_EQ(subnet.take_forwarded_mads().at(0).to, host);
  EXPECT_EQ(subnet.counters().report_acknowledged, 0U);
  EXPECT_EQ(status(send_request(smp(kSwitch, kGet, smp_attribute::kSmInfo)).value()),
            kInvalidField);
}

TEST_F(SmaSet, PortInfoHasIsSmOfARunningSm) {
  Subnet with_manager(external_sm_config(),
                      {.is_manager = [&](NodeIndex node) { return node == manager; }});
  ASSERT_EQ(with_manager.add_hca("sm").value(), manager);
  ASSERT_EQ(with_manager.add_hca("a").value(), host);
  const auto says_so = [&](const Path& path) {
    with_manager.receive(smp(path, kGet, attribute::kPortInfo), kStart);
    const auto info = PortInfo::parse(data(with_manager.take_outgoing().at(0))).value();
    return (info.capability_mask & kCapabilityIsSm) != 0;
  };
  EXPECT_TRUE(says_so(kSelf));
  EXPECT_FALSE(says_so(kSwitch));
  EXPECT_FALSE(says_so(kHost));
}

TEST_F(SmaSet, UnknownSenderIsDropped) {
  auto packet = smp(kSelf, kGet, attribute::kPortInfo);
  auto header = MadHeader::parse(packet.mad).value();
  header.transaction_id = std::uint64_t{MadRoute{500, 1, 1, 1}.high_half()} << 32;
  header.emit(packet.mad);
  EXPECT_FALSE(send_request(packet));
  EXPECT_EQ(subnet.counters().drop_source, 1U);
  EXPECT_EQ(subnet.counters().drop_m_key, 0U);
}

// Changes that the SM did not make.

TEST_F(SmaSet, ReconnectedPortComesUpInInit) {
  bring_up();
  ASSERT_TRUE(subnet.set_port_state(host, PortState::active)) << "already up";
  EXPECT_EQ(port(host).state, PortState::active);
  ASSERT_TRUE(subnet.set_port_state(host, PortState::down));
  ASSERT_TRUE(subnet.set_port_state(host, PortState::active));
  EXPECT_EQ(port(host).state, PortState::init);
  EXPECT_EQ(port(host).lid, kHostLid) << "the LID is kept";
  ASSERT_TRUE(subnet.set_failed(host, true));
  EXPECT_EQ(port(host).state, PortState::down);
  ASSERT_TRUE(subnet.set_failed(host, false));
  EXPECT_EQ(port(host).state, PortState::init);
}

TEST_F(SmaSet, PerformanceRequestsFollowTheForwardingTable) {
  bring_up();
  for (const auto& [lid, number] : {std::pair(kHostLid, 1), std::pair(kSwitchAt, 0),
                                    std::pair(kSwitchAt, 1), std::pair(kSwitchAt, 3)}) {
    const auto response =
        send_request(counters(kManagerLid, lid, static_cast<std::uint8_t>(number)));
    ASSERT_TRUE(response) << lid.value() << " port " << number;
    EXPECT_EQ(status(*response), 0U);
  }
  EXPECT_EQ(status(send_request(counters(kManagerLid, kSwitchAt, 200)).value()), kInvalidField);
}

TEST_F(SmaSet, RouteToAMissingNodeIsHarmless) {
  bring_up();
  EXPECT_FALSE(send_request(counters(kSwitchAt, kHostLid, 1))) << "the switch is no requester";
  EXPECT_EQ(subnet.counters().drop_source, 1U);
  ASSERT_TRUE(subnet.remove_hca(host));
  EXPECT_TRUE(subnet.switches().exit(0, kHostLid)) << "the table is unchanged";
  EXPECT_FALSE(subnet.route(manager, kHostLid));
  EXPECT_FALSE(send_request(counters(kManagerLid, kHostLid, 1)));
  EXPECT_EQ(subnet.counters().drop_destination, 1U);
  EXPECT_FALSE(send_request(counters(kHostLid, kSwitchAt, 1)));
  EXPECT_EQ(subnet.counters().drop_source, 2U);
}

TEST_F(SmaSet, SettersOfSmDecisionsAreRefused) {
  EXPECT_EQ(subnet.set_lid(host, Lid(9)).error().code, EOPNOTSUPP);
  EXPECT_EQ(subnet.set_lid(host, Lid(9)).error().message,
            "an external subnet manager (--sm none) decides that: change its configuration");
  EXPECT_EQ(subnet.set_mtu(host, 3).error().code, EOPNOTSUPP);
  EXPECT_EQ(subnet.set_membership(host, PKey(0x12), Membership::full).error().code, EOPNOTSUPP);
  EXPECT_EQ(subnet.move_pkey(host, PKey(0xffff), 2).error().code, EOPNOTSUPP);
  EXPECT_EQ(subnet.set_port_state(host, PortState::armed).error().code, EOPNOTSUPP);
  EXPECT_EQ(subnet.restart_sm(kStart).error().code, EOPNOTSUPP);
  EXPECT_EQ(subnet.remove_hca(0).error().code, EINVAL);
}

TEST_F(SmaSet, SwitchPortsAreBounded) {
  for (std::size_t i = 3; i < kMaxNumberedPort; ++i) {
    ASSERT_TRUE(subnet.add_hca("n" + std::to_string(i)));
  }
  const auto more = subnet.add_hca("more");
  EXPECT_EQ(more.error().code, ENOSPC);
  EXPECT_NE(more.error().message.find("--sm own"), std::string::npos);
  EXPECT_NE(more.error().message.find("it has 253 nodes"), std::string::npos);
  auto config = external_sm_config();
  config.topology.emplace().switches = {{"one", "", Guid(), 200}, {"other", "", Guid(), 200}};
  Subnet of_two(config);
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(of_two.add_hca("n" + std::to_string(i))) << i;
}

TEST_F(SmaSet, NewProcessKeepsTheConfiguration) {
  bring_up();
  SmpData block{};
  ipoib::store_be(&block[0], std::uint16_t{1U << 2 | 1U << 3});
  ASSERT_EQ(set(kSwitch, smp_attribute::kMulticastForwardingTable, 0, block), 0U);
  Subnet after(external_sm_config());
  auto snapshot = snapshot_of(subnet);
  snapshot.nodes.push_back({9, Node{"", {}}});
  after.adopt(snapshot, kStart);
  for (const NodeIndex node : {NodeIndex{0}, manager, host}) {
    EXPECT_EQ(after.node(node)->port, subnet.node(node)->port);
  }
  EXPECT_EQ(after.route(manager, kHostLid), host);
  EXPECT_EQ(after.forwarding(Lid(0xc000)), subnet.forwarding(Lid(0xc000)));
  const auto changes = after.take_changes();
  ASSERT_EQ(changes.switches.size(), 1U);
  EXPECT_TRUE(changes.switches[0].routes.all());
  EXPECT_EQ(changes.nodes.count(), 4U) << "also one that cannot be adopted";
}

// Several switches.

SubnetConfig external_tree() {
  SubnetConfig config = external_sm_config();
  config.topology = test::two_level_tree();
  return config;
}

/// The SM is on host-1, the host is host-3 at the other leaf.
class SmaSetTree : public SmaSet {
 protected:
  SmaSetTree() : SmaSet(external_tree(), "host-1", "host-3") {}

  /// Brings up the way from the SM to the host over spine-1, with LIDs and routes to and fro.
  void bring_up_tree() {
    ASSERT_EQ(set(kSelf, wanted(kManagerLid)), 0U);
    ASSERT_EQ(set(kFarHost, wanted(kHostLid)), 0U);
    for (const auto& [path, lid] : kSwitches) ASSERT_EQ(set(path, wanted(lid)), 0U);
    for (const auto state : {PortState::armed, PortState::active}) {
      ASSERT_EQ(set(kSelf, wanted(kManagerLid, state)), 0U);
      ASSERT_EQ(set({1}, wanted(Lid(), state), 3), 0U);
      ASSERT_EQ(set({1, 3}, wanted(Lid(), state), 2), 0U);
      ASSERT_EQ(set(kFarHost, wanted(kHostLid, state)), 0U);
    }
    const std::array<std::pair<SwitchPort, SwitchPort>, 3> exits{{{1, 3}, {1, 2}, {3, 1}}};
    for (std::size_t i = 0; i < exits.size(); ++i) {
      SmpData block;
      block.fill(255);
      block[kManagerLid.value()] = static_cast<std::uint8_t>(exits[i].first);
      block[kHostLid.value()] = static_cast<std::uint8_t>(exits[i].second);
      block[kSwitches[i].second.value()] = 0;
      ASSERT_EQ(set(kSwitches[i].first, smp_attribute::kLinearForwardingTable, 0, block), 0U);
    }
    subnet.on_time(kStart);
    (void)subnet.take_forwarded_mads();
  }
  unsigned port_state(const Path& path, std::uint32_t number) {
    return port_info(path, number).port_state;
  }

  const Path kFarHost{1, 3, 2, 1};
  /// leaf-1, spine-1, leaf-2
  const std::vector<std::pair<Path, Lid>> kSwitches{
      {{1}, Lid(10)}, {{1, 3}, Lid(11)}, {{1, 3, 2}, Lid(12)}};
};

TEST_F(SmaSetTree, DirectedRoutesPassSwitches) {
  const auto read = send_request(smp(kFarHost, kGet, attribute::kNodeInfo)).value();
  EXPECT_EQ(ipoib::wire::NodeInfo::parse(data(read))->port_guid, port(host).port_guid);
  const std::vector<std::uint8_t> way_back(read.mad.begin() + 193, read.mad.begin() + 197);
  EXPECT_EQ(way_back, (std::vector<std::uint8_t>{1, 1, 3, 1})) << "the entry ports";
  for (const auto& [path, lid] : kSwitches) {
    const auto info = ipoib::wire::NodeInfo::parse(
        data(send_request(smp(path, kGet, attribute::kNodeInfo)).value()));
    EXPECT_EQ(info->type, ipoib::wire::NodeInfo::kSwitch);
    EXPECT_EQ(info->ports, 4);
  }
  EXPECT_FALSE(send_request(smp({1, 5}, kGet, attribute::kNodeInfo))) << "there is no port 5";
  EXPECT_FALSE(send_request(smp({1, 3, 3}, kGet, attribute::kNodeInfo))) << "no cable";
}

TEST_F(SmaSetTree, BothEndsOfACableShareItsState) {
  ASSERT_TRUE(subnet.set_cable({"leaf-1", 3}, {}, CableSettings{.width = 8, .speed = 1}));
  EXPECT_EQ(port_info({1, 3}, 1).link_width_active, 8);
  EXPECT_EQ(port_info({1, 3}, 1).link_speed_active, 1);
  EXPECT_EQ(port_state({1}, 3), 2U);
  ASSERT_EQ(set({1}, wanted(Lid(), PortState::armed), 3), 0U);
  EXPECT_EQ(port_state({1, 3}, 1), 3U);
  auto active = wanted(Lid(), PortState::active);
  active.neighbor_mtu = 2;
  ASSERT_EQ(set({1, 3}, active, 1), 0U);
  EXPECT_EQ(port_state({1}, 3), 4U);
  EXPECT_EQ(port_info({1}, 3).neighbor_mtu, 2);
  EXPECT_EQ(port_state({1}, 4), 2U) << "another cable";
}

TEST_F(SmaSetTree, PacketsFollowTheTablesOfEachSwitch) {
  bring_up_tree();
  EXPECT_EQ(subnet.route(manager, kHostLid), host);
  EXPECT_EQ(subnet.route(host, kManagerLid), manager);
  auto by_lid = smp(kSelf, kGet, attribute::kNodeInfo);
  by_lid.mad[1] = ipoib::wire::mgmt_class::kSubnLid;
  by_lid.dlid = kHostLid;
  const auto there = send_request(by_lid).value();
  EXPECT_EQ(ipoib::wire::NodeInfo::parse(data(there))->port_guid, port(host).port_guid);
  by_lid.dlid = Lid(11);
  EXPECT_FALSE(send_request(by_lid)) << "leaf-1 has no route to it";

  SmpData block;
  block.fill(255);
  ASSERT_EQ(set({1, 3}, smp_attribute::kLinearForwardingTable, 0, block), 0U);
  EXPECT_FALSE(subnet.route(manager, kHostLid));
  by_lid.dlid = kHostLid;
  EXPECT_FALSE(send_request(by_lid));
}

TEST_F(SmaSetTree, BothSwitchesReportACableThatFails) {
  bring_up_tree();
  ASSERT_TRUE(subnet.set_cable({"leaf-1", 3}, {}, CableState::down));
  EXPECT_FALSE(subnet.route(manager, kHostLid));
  EXPECT_FALSE(subnet.switches().exit(2, Lid(12))) << "only the SM writes routes";
  subnet.on_time(kStart);
  const auto traps = subnet.take_forwarded_mads();
  ASSERT_EQ(traps.size(), 2U);
  EXPECT_EQ(traps[0].packet.slid, Lid(10));
  EXPECT_EQ(traps[1].packet.slid, Lid(11));
  EXPECT_NE(MadHeader::parse(traps[0].packet.mad)->transaction_id,
            MadHeader::parse(traps[1].packet.mad)->transaction_id);
  for (const auto& trap : traps) {
    EXPECT_EQ(trap.to, manager);
    MadPacket heard = trap.packet;
    heard.mad[3] = smp_method::kTrapRepress;
    subnet.receive(heard, kStart);
  }
  EXPECT_EQ(subnet.counters().report_acknowledged, 2U);
  EXPECT_EQ(subnet.next_deadline(), ipoib::kNever);
  ASSERT_TRUE(subnet.set_cable({"leaf-1", 3}, {}, CableState::up));
  EXPECT_EQ(port_state({1}, 3), 2U) << "the SM has to bring it up";
}

TEST_F(SmaSetTree, ASwitchThatLostItsPowerHasLostItsTables) {
  bring_up_tree();
  SmpData info{};
  ipoib::store_be(&info[6], std::uint16_t{5});
  ASSERT_EQ(set({1, 3}, smp_attribute::kSwitchInfo, 0, info), 0U);
  ASSERT_TRUE(subnet.set_switch("spine-1", SwitchState::reset));
  EXPECT_EQ(subnet.switches()[2].settings.linear_top, 0);
  EXPECT_FALSE(subnet.switches().exit(2, kHostLid));
  EXPECT_EQ(port_info({1, 3}).lid, Lid());
  EXPECT_EQ(port_state({1}, 3), 2U);
}

TEST_F(SmaSetTree, CountersOfACableAreThoseOfItsPorts) {
  Subnet counted(external_tree(), {.cables = [](SwitchIndex at, SwitchPort number) {
                   PerformanceCounters counters;
                   counters.transmit_packets = at * 100U + number;
                   counters.transmit_data = at * 10U + number;
                   counters.transmit_discards = 7;
                   counters.transmit_constraints = 5;
                   counters.receive_constraints = 300;
                   counters.receive_errors = 11;
                   return counters;
                 }});
  const auto request = [&](const MadPacket& packet) {
    counted.receive(packet, kStart);
    return counted.take_outgoing();
  };
  ASSERT_FALSE(request(smp(kSelf, kGet, attribute::kNodeInfo)).empty());
  const auto set_lid = [&](const Path& path, Lid lid, PortState state) {
    SmpData value{};
    wanted(lid, state).emit(value);
    ASSERT_EQ(status(request(smp(path, kSet, attribute::kPortInfo, 0, value)).at(0)), 0U);
  };
  set_lid(kSelf, kManagerLid, PortState::armed);
  set_lid(kSelf, kManagerLid, PortState::active);
  set_lid({1}, Lid(10), PortState::armed);
  const auto response = request(counters(kManagerLid, Lid(10), 3)).at(0);
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&response.mad[64 + 32]), 3U) << "sent by leaf-1";
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&response.mad[64 + 36]), 201U) << "sent by spine-1";
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&response.mad[64 + 24]), 3U);
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&response.mad[64 + 28]), 21U);
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&response.mad[64 + 14]), 7U);
  EXPECT_EQ(response.mad[64 + 16], 5U);
  EXPECT_EQ(response.mad[64 + 17], 255U);
  EXPECT_EQ(response.mad[64 + 7], 0U) << "LinkDowned";
  ASSERT_TRUE(counted.set_cable({"leaf-1", 3}, {}, CableState::flap));
  EXPECT_EQ(request(counters(kManagerLid, Lid(10), 3)).at(0).mad[64 + 7], 1U);
  const auto to_host = request(counters(kManagerLid, Lid(10), 2)).at(0);
  EXPECT_EQ(to_host.mad[64 + 17], 255U) << "a port to a host drops packets, too";
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&to_host.mad[64 + 8]), 11U);
  ASSERT_TRUE(counted.set_cable({"host-2", 0}, {}, CableState::flap));
  ASSERT_TRUE(counted.set_cable({"host-2", 0}, {}, CableState::down));
  EXPECT_EQ(request(counters(kManagerLid, Lid(10), 2)).at(0).mad[64 + 7], 2U);
}

TEST_F(SmaSetTree, ALinkThatIsTrainedAgainHasBeenDown) {
  bring_up_tree();
  ASSERT_EQ(subnet.switches()[0].ports[3].links_lost, 0U);
  ASSERT_EQ(set({1}, wanted(Lid(), PortState::down), 3), 0U);
  EXPECT_EQ(port_state({1}, 3), 2U);
  EXPECT_EQ(subnet.switches()[0].ports[3].links_lost, 1U);
  EXPECT_EQ(subnet.switches()[2].ports[1].links_lost, 1U) << "the other end";
  subnet.on_time(kStart);
  EXPECT_EQ(subnet.take_forwarded_mads().size(), 2U) << "both switches report it";
  ASSERT_EQ(set({1}, wanted(Lid(), PortState::down), 1), 0U);
  EXPECT_EQ(subnet.switches()[0].ports[1].links_lost, 1U) << "the port of the SM's host";
  subnet.on_time(kStart);
  (void)subnet.take_forwarded_mads();
  auto disabled = wanted(Lid(20));
  disabled.physical_state = 3;
  ASSERT_EQ(set({1, 3, 2, 2}, disabled), 0U);
  subnet.on_time(kStart);
  const auto traps = subnet.take_forwarded_mads();
  ASSERT_EQ(traps.size(), 1U);
  EXPECT_EQ(traps[0].packet.slid, Lid(12)) << "the switch of host-4";
}

TEST_F(SmaSetTree, PortsOfSwitchesCheckPKeys) {
  const auto switch_info = send_request(smp({1}, kGet, smp_attribute::kSwitchInfo)).value();
  const auto info = data(switch_info);
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&info[14]), kPKeyTableSize) << "PartitionEnforcementCap";
  EXPECT_EQ(info[16], 0xc0) << "inbound and outbound";

  auto filter = wanted(Lid());
  filter.enforces_outbound = true;
  ASSERT_EQ(set({1, 3, 2}, filter, 1), 0U);
  subnet.on_time(kStart);  // nobody counts violations here
  EXPECT_TRUE(port_info({1, 3, 2}, 1).enforces_outbound);
  EXPECT_FALSE(port_info({1, 3, 2}, 1).enforces_inbound);
  EXPECT_FALSE(port_info(kFarHost).enforces_outbound);
  SmpData table{};
  ipoib::store_be(&table[62], std::uint16_t{0x8012});
  ASSERT_EQ(set({1, 3, 2}, smp_attribute::kPKeyTable, 1U << 16, table), 0U);
  const auto read = send_request(smp({1, 3, 2}, kGet, smp_attribute::kPKeyTable, 1U << 16)).value();
  EXPECT_TRUE(std::ranges::equal(data(read), table));
  const auto other =
      send_request(smp({1, 3, 2}, kGet, smp_attribute::kPKeyTable, 2U << 16)).value();
  EXPECT_TRUE(std::ranges::equal(data(other), SmpData{}));
  ASSERT_EQ(set({1}, smp_attribute::kPKeyTable, 1U << 16, table), 0U);
  EXPECT_EQ(subnet.switches()[0].ports[1].filter.pkeys[31], PKey(0x8012));
  EXPECT_NE(subnet.switches()[0].node.port.pkeys[31], PKey(0x8012)) << "that is of port 0";
  EXPECT_EQ(set({1, 3, 2}, smp_attribute::kPKeyTable, 5U << 16, table), kInvalidField);
  EXPECT_EQ(set({1, 3, 2}, smp_attribute::kPKeyTable, 1U << 16 | 1, table), kInvalidField);
  EXPECT_EQ(subnet.switches().peer(1, 1).checks, kPKeyCheck);
  EXPECT_EQ(subnet.node(host)->checks, kNoChecks) << "what it sends passes";

  filter.enforces_outbound = false;
  filter.enforces_inbound = true;
  ASSERT_EQ(set({1, 3, 2}, filter, 1), 0U);
  EXPECT_TRUE(port_info({1, 3, 2}, 1).enforces_inbound);
  EXPECT_EQ(subnet.switches().peer(1, 1).checks, kNoChecks);
  EXPECT_EQ(subnet.node(host)->checks, kPKeyCheck);
  ASSERT_EQ(set({1, 3}, filter, 1), 0U);
  EXPECT_EQ(subnet.switches().peer(0, 3).checks, kPKeyCheck) << "what leaf-1 sends to spine-1";
  EXPECT_EQ(subnet.switches().filters().size(), 2U);
  EXPECT_EQ(subnet.switches().peer(2, 1).checks, kNoChecks);

  Subnet after(external_tree());
  after.adopt(snapshot_of(subnet), kStart);
  EXPECT_EQ(after.switches()[1].ports[1].filter, subnet.switches()[1].ports[1].filter);
  EXPECT_EQ(after.node(host)->checks, kPKeyCheck);
  EXPECT_EQ(after.switches().peer(0, 3).checks, kPKeyCheck);
  EXPECT_EQ(after.switches().checks(), kPKeyCheck);
  const auto neighbour = subnet.find("host-4").value();
  ASSERT_EQ(set({1, 3, 2}, filter, 2), 0U);
  ASSERT_EQ(set({1, 3, 2}, smp_attribute::kPKeyTable, 2U << 16, table), 0U);
  EXPECT_EQ(subnet.node(neighbour)->checks, kPKeyCheck);
  ASSERT_TRUE(subnet.set_switch("leaf-2", SwitchState::absent));
  for (const auto node : {host, neighbour}) {
    EXPECT_EQ(subnet.node(node)->checks, kNoChecks) << "the switch has lost its power";
  }
}

TEST_F(SmaSetTree, ASwitchReportsPacketsWithAWrongPKey) {
  std::uint64_t dropped = 3;  // before this process
  Qpn destination(0x2050);
  PKeyViolations violations{[&](const Attachment& at) { return at.port == 1 ? dropped : 0; },
                            [&](const Attachment&) {
                              return PacketHeaders{kHostLid,        kManagerLid, PKey(0x8012),
                                                   ServiceLevel(3), Qpn(0x1040), destination};
                            }};
  Subnet checking(external_tree(), {.violations = violations});
  const auto set_on = [&](const Path& path, const PortInfo& info, std::uint32_t number) {
    SmpData value{};
    info.emit(value);
    checking.receive(smp(path, kSet, attribute::kPortInfo, number, value), kStart);
    EXPECT_EQ(status(checking.take_outgoing().at(0)), 0U);
  };
  set_on(kSelf, wanted(kManagerLid), 0);
  set_on({1}, wanted(Lid(10)), 0);
  EXPECT_EQ(checking.next_deadline(), ipoib::kNever);
  auto filter = wanted(Lid());
  filter.enforces_inbound = true;
  set_on({1}, filter, 1);
  checking.on_time(kStart);
  EXPECT_TRUE(checking.take_forwarded_mads().empty());
  EXPECT_EQ(checking.next_deadline(), kStart + kTrapInterval);

  dropped += 5;
  checking.on_time(kStart + kTrapInterval);
  const auto traps = checking.take_forwarded_mads();
  ASSERT_EQ(traps.size(), 1U);
  EXPECT_EQ(traps[0].to, manager);
  const auto notice = data(traps[0].packet);
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&notice[0]), 0x8200'0002U) << "security, switch";
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&notice[4]), 259U);
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&notice[6]), 10U) << "issuer";
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&notice[10]), 0x3fU) << "valid fields";
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&notice[12]), kHostLid.value());
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&notice[14]), kManagerLid.value());
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&notice[16]), 0x8012U);
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&notice[18]), 0x3000'1040U) << "SL and first QP";
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&notice[22]), 0x2050U);
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&notice[58]), 10U) << "LID of the switch";
  EXPECT_EQ(notice[60], 1U) << "port";

  dropped += 5;
  checking.on_time(kStart + 2 * kTrapInterval);
  const auto again = checking.take_forwarded_mads();
  ASSERT_EQ(again.size(), 1U) << "one in an interval";
  EXPECT_EQ(again[0].packet.mad, traps[0].packet.mad) << "the same transaction";

  dropped += 5;
  destination = Qpn();
  checking.on_time(kStart + 3 * kTrapInterval);
  MadPacket heard = checking.take_forwarded_mads().at(0).packet;
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&data(heard)[10]), 0x0fU) << "without QPs";
  heard.mad[3] = smp_method::kTrapRepress;
  checking.receive(heard, kStart + 3 * kTrapInterval);
  EXPECT_EQ(checking.counters().report_acknowledged, 1U);
  checking.on_time(kStart + 4 * kTrapInterval);
  EXPECT_TRUE(checking.take_forwarded_mads().empty());
  filter.enforces_inbound = false;
  set_on({1}, filter, 1);
  EXPECT_EQ(checking.next_deadline(), ipoib::kNever);
}

/// Two HCAs that report packets with a wrong key, `sm` and `a`; the first one is the SM's.
class KeyViolationTraps : public SmaSet {
 protected:
  KeyViolationTraps() { set_lids(); }
  void set_lids() {
    for (const auto& [path, lid] : {std::pair(kSelf, kManagerLid), std::pair(kHost, kHostLid)}) {
      SmpData value{};
      wanted(lid).emit(value);
      reporting.receive(smp(path, kSet, attribute::kPortInfo, 0, value), kStart);
    }
    (void)reporting.take_outgoing();
  }
  /// The traps that are sent when the counters are looked at the next time.
  std::vector<ForwardedMad> look() {
    now += kTrapInterval;
    reporting.on_time(now);
    return reporting.take_forwarded_mads();
  }
  void repress(MadPacket trap) {
    trap.mad[3] = smp_method::kTrapRepress;
    reporting.receive(trap, now);
  }
  static unsigned number_of(const ForwardedMad& trap) {
    return ipoib::load_be<std::uint16_t>(&data(trap.packet)[4]);
  }

  std::map<std::pair<NodeIndex, CheckedKey>, std::uint64_t> packets{{{2, CheckedKey::qkey}, 3}};
  std::optional<KeyViolation> last{KeyViolation{kHostLid, kManagerLid, 0x1234'5678, ServiceLevel(3),
                                                Qpn(0x1040), Qpn(0x2050), Gid(1, Guid(2)),
                                                Gid(3, Guid(4))}};
  KeyViolationSource source{[this](NodeIndex node, CheckedKey key) {
                              return packets[{node, key}];
                            },
                            [this](NodeIndex, CheckedKey) { return last; },
                            [this](NodeIndex node, CheckedKey key) {
                              packets[{node, key}] = 0;
                            }};
  Subnet reporting{external_sm_config(), {.key_violations = source}};
  NodeIndex one = reporting.add_hca("sm").value();
  NodeIndex two = reporting.add_hca("a").value();
  ipoib::TimePoint now = kStart;
};

TEST_F(KeyViolationTraps, AnHcaReportsAPacketWithAWrongQKey) {
  ASSERT_EQ(two, 2);
  EXPECT_TRUE(look().empty()) << "they were dropped before this process";
  ++packets[{two, CheckedKey::qkey}];
  const auto traps = look();
  ASSERT_EQ(traps.size(), 1U);
  EXPECT_EQ(traps[0].to, one);
  EXPECT_EQ(traps[0].packet.slid, kHostLid);
  EXPECT_EQ(traps[0].packet.dlid, kManagerLid);
  const auto notice = data(traps[0].packet);
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&notice[0]), 0x8200'0001U) << "generic, security, CA";
  EXPECT_EQ(number_of(traps[0]), 258U);
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&notice[6]), kHostLid.value()) << "issuer";
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&notice[8]), 0U) << "toggle, count, reserved";
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&notice[12]), kHostLid.value());
  EXPECT_EQ(ipoib::load_be<std::uint16_t>(&notice[14]), kManagerLid.value());
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&notice[16]), 0x1234'5678U);
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&notice[20]), 0x3000'1040U) << "SL and first QP";
  EXPECT_EQ(ipoib::load_be<std::uint32_t>(&notice[24]), 0x2050U);
  EXPECT_TRUE(std::ranges::equal(notice.subspan(28, 16), last->sgid.bytes()));
  EXPECT_TRUE(std::ranges::equal(notice.subspan(44, 16), last->dgid.bytes()));
}

TEST_F(KeyViolationTraps, EachIsRepeatedUntilTheManagerHasIt) {
  (void)look();
  ++packets[{two, CheckedKey::qkey}];
  const auto first = look();
  ASSERT_EQ(first.size(), 1U);
  ++packets[{two, CheckedKey::qkey}];
  ++packets[{two, CheckedKey::pkey}];
  ++packets[{one, CheckedKey::pkey}];
  const auto traps = look();
  ASSERT_EQ(traps.size(), 3U);
  EXPECT_EQ(number_of(traps[0]), 257U);
  EXPECT_EQ(traps[0].packet.slid, kManagerLid);
  EXPECT_EQ(number_of(traps[1]), 257U);
  EXPECT_EQ(traps[1].packet.slid, kHostLid);
  EXPECT_EQ(traps[2].packet.mad, first[0].packet.mad) << "the same transaction";
  repress(traps[1].packet);
  repress(traps[2].packet);
  EXPECT_EQ(reporting.counters().report_acknowledged, 2U);
  const auto left = look();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].packet.mad, traps[0].packet.mad);
  repress(left[0].packet);
  EXPECT_TRUE(look().empty());
  repress(left[0].packet);
  EXPECT_EQ(reporting.counters().report_acknowledged, 3U) << "not again";
}

TEST_F(KeyViolationTraps, ThoseOfARemovedHcaEnd) {
  (void)look();
  ++packets[{two, CheckedKey::qkey}];
  ASSERT_EQ(look().size(), 1U);
  ASSERT_TRUE(reporting.remove_hca(two));
  EXPECT_TRUE(look().empty());
  ASSERT_EQ(reporting.add_hca("b").value(), two);
  set_lids();
  EXPECT_TRUE(look().empty()) << "the next HCA has not dropped it";
}

TEST_F(KeyViolationTraps, ManyPacketsAreOneTrapInAnInterval) {
  (void)look();
  packets[{two, CheckedKey::pkey}] += 1000;
  const auto traps = look();
  ASSERT_EQ(traps.size(), 1U);
  repress(traps[0].packet);
  packets[{two, CheckedKey::pkey}] += 1000;
  reporting.on_time(now + kTrapInterval / 2);
  EXPECT_TRUE(reporting.take_forwarded_mads().empty());
  EXPECT_EQ(look().size(), 1U);
}

TEST_F(KeyViolationTraps, AnUnknownPacketIsReportedWhenItIsKnown) {
  (void)look();
  ++packets[{two, CheckedKey::pkey}];
  const auto known = std::exchange(last, std::nullopt);
  EXPECT_TRUE(look().empty());
  last = known;
  EXPECT_EQ(look().size(), 1U);
}

TEST_F(KeyViolationTraps, AResetIsNoViolation) {
  (void)look();
  packets[{two, CheckedKey::qkey}] = 0;
  EXPECT_TRUE(look().empty());
  ++packets[{two, CheckedKey::qkey}];
  EXPECT_EQ(look().size(), 1U);
}

TEST_F(KeyViolationTraps, AnHcaThatComesAgainStartsAnew) {
  ++packets[{two, CheckedKey::pkey}];
  (void)look();
  ASSERT_TRUE(reporting.remove_hca(two));
  packets.clear();
  EXPECT_TRUE(look().empty());
  ASSERT_EQ(reporting.add_hca("b").value(), two);
  ++packets[{two, CheckedKey::pkey}];
  EXPECT_TRUE(look().empty()) << "it has no SM yet";
}

/// Cables whose ends, leaf-1[3] and spine-1[1], have thresholds of 8.
class LinkErrors : public SmaSetTree {
 protected:
  LinkErrors() {
    bring_up_tree();
    auto info = wanted(Lid());
    info.tuning.local_physical_errors = info.tuning.overrun_errors = 8;
    EXPECT_EQ(set({1}, info, 3), 0U);
    EXPECT_EQ(set({1, 3}, info, 1), 0U);
  }
  /// What the SM gets at that time: trap number, LID and port. It hears all of it.
  std::vector<std::array<unsigned, 3>> traps(ipoib::TimePoint now, Subnet& of) {
    std::vector<std::array<unsigned, 3>> found;
    of.on_time(now);
    for (const auto& [to, packet] : of.take_forwarded_mads()) {
      EXPECT_EQ(to, manager);
      const auto notice = data(packet);
      const unsigned number = ipoib::load_be<std::uint16_t>(&notice[4]);
      MadPacket heard = packet;
      heard.mad[3] = smp_method::kTrapRepress;
      of.receive(heard, now);
      EXPECT_EQ(ipoib::load_be<std::uint32_t>(&notice[0]), 0x8100'0002U) << "urgent, switch";
      if (number == 128) continue;
      const unsigned lid = ipoib::load_be<std::uint16_t>(&notice[12]);
      EXPECT_EQ(ipoib::load_be<std::uint64_t>(&notice[6]), std::uint64_t{lid} << 48 | lid)
          << "the issuer is the switch";
      found.push_back({number, lid, notice[14]});
    }
    return found;
  }
  std::uint8_t counter(Lid of, std::uint8_t port, std::size_t offset) {
    return send_request(counters(kManagerLid, of, port)).value().mad[64 + offset];
  }

  const CableEnd kLeaf{"leaf-1", 3};
  using Traps = std::vector<std::array<unsigned, 3>>;
};

TEST_F(LinkErrors, OverrunsBeyondTheThresholdAreReportedByBothEnds) {
  ASSERT_TRUE(subnet.set_cable(kLeaf, {}, CableSettings{.overruns = 8}));
  EXPECT_EQ(traps(kStart, subnet), Traps{});
  EXPECT_EQ(counter(Lid(10), 3, 19), 0U);
  ASSERT_TRUE(subnet.set_cable(kLeaf, {}, CableSettings{.overruns = 9}));
  EXPECT_EQ(traps(kStart, subnet), (Traps{{130, 10, 3}, {130, 11, 1}}));
  EXPECT_EQ(counter(Lid(10), 3, 19), 0x01U) << "ExcessiveBufferOverrunErrors";
  EXPECT_EQ(traps(kStart + 2 * kTrapInterval, subnet), Traps{}) << "the SM has heard it";
}

TEST_F(LinkErrors, ALinkWithoutUpdatesOfFlowControlRecovers) {
  ASSERT_TRUE(subnet.set_cable(kLeaf, {}, CableState::stall));
  EXPECT_EQ(traps(kStart, subnet), (Traps{{131, 10, 3}, {131, 11, 1}}));
  EXPECT_EQ(counter(Lid(11), 1, 6), 1U) << "LinkErrorRecovery";
  EXPECT_EQ(counter(Lid(11), 1, 7), 0U) << "LinkDowned";
  EXPECT_EQ(port_state({1}, 3), 4U);
}

TEST_F(LinkErrors, PortsOfASwitchReportOneAfterTheOther) {
  ASSERT_EQ(set({1}, wanted(Lid(), PortState::armed), 4), 0U);
  ASSERT_TRUE(subnet.set_cable(kLeaf, {}, CableState::stall));
  ASSERT_TRUE(subnet.set_cable(kLeaf, {}, CableState::stall));
  ASSERT_TRUE(subnet.set_cable({"leaf-1", 1}, {}, CableState::stall)) << "to the host of the SM";
  ASSERT_TRUE(subnet.set_cable({"leaf-1", 4}, {}, CableState::stall));
  EXPECT_EQ(traps(kStart, subnet)[0], (Traps::value_type{131, 10, 3}));
  EXPECT_EQ(traps(kStart, subnet), (Traps{{131, 10, 1}}));
  EXPECT_EQ(traps(kStart, subnet), (Traps{{131, 10, 4}}));
  EXPECT_EQ(traps(kStart, subnet), Traps{});
}

TEST_F(LinkErrors, ALinkThatIsDownHasNone) {
  ASSERT_TRUE(subnet.set_cable(kLeaf, {}, CableState::down));
  EXPECT_EQ(subnet.set_cable(kLeaf, {}, CableState::stall).error().code, EHOSTDOWN);
  EXPECT_EQ(subnet.set_cable(kLeaf, {}, CableState::stall).error().message,
            "the link of the cable is down: set the cable up before");
  EXPECT_EQ(subnet.set_cable(kLeaf, {}, CableSettings{.overruns = 9}).error().code, EHOSTDOWN);
}

TEST_F(LinkErrors, AnHcaThatComesAgainHasNoErrorsOfBefore) {
  std::map<NodeIndex, PerformanceCounters> nodes;
  PerformanceCounters at_switch;
  Subnet counted(external_tree(), {.counters = [&](NodeIndex node) { return nodes[node]; },
                                   .cables = [&](SwitchIndex, SwitchPort) { return at_switch; }});
  const auto errors = [&] { return counted.switches()[0].ports[2].link_errors[0]; };
  ASSERT_TRUE(counted.set_cable({"host-2"}, {}, CableSettings{.loss = 5000}));
  const NodeIndex other = counted.find("host-2").value();
  ipoib::TimePoint now = kStart;
  const auto look = [&](std::uint64_t packets, std::uint64_t with_errors) {
    nodes[other].transmit_packets = packets;
    at_switch.receive_errors = with_errors;
    counted.on_time(now += kTrapInterval);
    return errors();
  };
  EXPECT_EQ(look(1000, 500), 0U);
  ASSERT_TRUE(counted.remove_hca(other));
  EXPECT_EQ(look(0, 7), 0U);
  ASSERT_EQ(counted.add_hca("host-2").value(), other);
  EXPECT_EQ(look(0, 0), 0U);
  EXPECT_EQ(look(1, 1), 1U);
}

/// Errors count up, packets without errors down (IBA 7.12.2).
TEST_F(LinkErrors, MorePacketsWithErrorsThanTheThresholdAreReported) {
  std::uint64_t packets = 1000;
  std::uint64_t errors = 500;  // before the fault
  Subnet counted(external_tree(), {.cables = [&](SwitchIndex at, SwitchPort number) {
                   PerformanceCounters of;
                   if (at == 2 && number == 1) of.transmit_packets = packets;
                   if (at == 0 && number == 3) of.receive_errors = errors;
                   return of;
                 }});
  const auto set_on = [&](const Path& path, const PortInfo& info, std::uint32_t number) {
    SmpData value{};
    info.emit(value);
    counted.receive(smp(path, kSet, attribute::kPortInfo, number, value), kStart);
    EXPECT_EQ(status(counted.take_outgoing().at(0)), 0U);
  };
  set_on(kSelf, wanted(kManagerLid), 0);
  set_on({1}, wanted(Lid(10)), 0);
  auto info = wanted(Lid());
  info.tuning.local_physical_errors = 8;
  set_on({1}, info, 3);
  EXPECT_EQ(counted.next_deadline(), ipoib::kNever);
  ASSERT_TRUE(counted.set_cable(kLeaf, {}, CableSettings{.loss = 5000}));
  ipoib::TimePoint now = kStart;
  const auto next = [&](std::uint64_t right, std::uint64_t wrong) {
    packets += right + wrong;
    errors += wrong;
    now += kTrapInterval;
    return traps(now, counted);
  };
  EXPECT_EQ(traps(now, counted), Traps{});
  EXPECT_EQ(next(0, 8), Traps{}) << "as many as the threshold";
  EXPECT_EQ(next(3, 3), Traps{});
  EXPECT_EQ(next(100, 0), Traps{});
  EXPECT_EQ(next(0, 8), Traps{}) << "the earlier ones are forgotten";
  EXPECT_EQ(next(1, 2), (Traps{{129, 10, 3}}));
  EXPECT_EQ(next(0, 8), Traps{}) << "it counts from 0 again";
  EXPECT_EQ(next(0, 1), (Traps{{129, 10, 3}}));
  EXPECT_EQ(counted.switches()[0].ports[3].link_errors[0], 2U);
  EXPECT_EQ(counted.switches()[2].ports[1].link_errors[0], 0U) << "nothing is lost there";
  ASSERT_TRUE(counted.set_cable(kLeaf, {}, CableSettings{.loss = 0}));
  EXPECT_EQ(next(0, 50), Traps{});
  EXPECT_EQ(counted.next_deadline(), ipoib::kNever);
  ASSERT_TRUE(counted.set_cable({"spine-1", 1}, {}, CableSettings{.loss = 5000}))
      << "by its other end";
  EXPECT_EQ(next(0, 9), (Traps{{129, 10, 3}}));
}

TEST_F(SmaSetTree, TablesOfLanesAreKept) {
  SmpData written{};
  written[0] = 0x77;
  written[7] = 0x12;
  constexpr std::uint32_t kFrom3To4 = 3U << 8 | 4;
  ASSERT_EQ(set({1}, smp_attribute::kSlToVlMapping, kFrom3To4, written), 0U);
  const auto read = [&](const Path& path, std::uint16_t attribute, std::uint32_t modifier) {
    const auto response = send_request(smp(path, kGet, attribute, modifier)).value();
    EXPECT_EQ(status(response), 0U);
    SmpData value{};
    std::ranges::copy(data(response), value.begin());
    return value;
  };
  EXPECT_EQ(read({1}, smp_attribute::kSlToVlMapping, kFrom3To4), written);
  EXPECT_EQ(read({1}, smp_attribute::kSlToVlMapping, 4U << 8 | 2)[0], 0x01) << "SL 1 has VL 1";
  for (std::uint32_t in = 0; in <= 4; ++in) {
    for (std::uint32_t out = 1; out <= 4; ++out) {
      written[1] = static_cast<std::uint8_t>(in << 4 | out);
      ASSERT_EQ(set({1}, smp_attribute::kSlToVlMapping, in << 8 | out, written), 0U);
    }
  }
  for (std::uint32_t in = 0; in <= 4; ++in) {
    for (std::uint32_t out = 1; out <= 4; ++out) {
      EXPECT_EQ(read({1}, smp_attribute::kSlToVlMapping, in << 8 | out)[1], in << 4 | out);
    }
  }
  written[63] = 9;
  constexpr std::uint32_t kHigh = 3U << 16;
  ASSERT_EQ(set({1}, smp_attribute::kVlArbitration, kHigh | 4, written), 0U);
  EXPECT_EQ(read({1}, smp_attribute::kVlArbitration, kHigh | 4), written);
  EXPECT_EQ(read({1}, smp_attribute::kVlArbitration, kHigh | 3), SmpData{});
  ASSERT_EQ(set(kFarHost, smp_attribute::kVlArbitration, kHigh | 1, written), 0U);
  EXPECT_EQ(read(kFarHost, smp_attribute::kVlArbitration, kHigh | 1), written);
  for (const unsigned other : {5U, 0x10U, 5U << 8, 0x10U << 8}) {
    EXPECT_EQ(set({1}, smp_attribute::kSlToVlMapping, other, written), kInvalidField) << "no port";
  }
  EXPECT_EQ(set({1}, smp_attribute::kVlArbitration, 1, written), kInvalidField) << "no block";
  EXPECT_EQ(set({1}, smp_attribute::kVlArbitration, 5U << 16 | 1, written), kInvalidField);
  EXPECT_EQ(status(send_request(smp({1}, kGet, smp_attribute::kVlArbitration, 1)).value()),
            kInvalidField);
}

TEST_F(SmaSetTree, LanesInUseAreThoseOfThePort) {
  auto lanes = wanted(Lid());
  lanes.operational_vls = 4;
  ASSERT_EQ(set({1}, lanes, 3), 0U);
  EXPECT_EQ(port_info({1}, 3).operational_vls, 4);
  EXPECT_EQ(port_info({1}, 3).vl_capability, 4);
  EXPECT_EQ(port_info({1, 3}, 1).operational_vls, 1) << "the other end has its own";
  lanes.operational_vls = 0;
  ASSERT_EQ(set({1}, lanes, 3), 0U);
  EXPECT_EQ(port_info({1}, 3).operational_vls, 4) << "0 is no change";
  lanes.operational_vls = 5;
  EXPECT_EQ(set({1}, lanes, 3), kInvalidField);
  lanes.lid = kManagerLid;
  EXPECT_EQ(set(kSelf, lanes), kInvalidField);
  for (const unsigned number : {4U, 2U, 1U, 0U}) {
    lanes.operational_vls = static_cast<std::uint8_t>(number);
    ASSERT_EQ(set(kSelf, lanes), 0U);
    EXPECT_EQ(port(manager).operational_vls, std::max(number, 1U)) << "0 is no change";
    EXPECT_EQ(port_info(kSelf).operational_vls, std::max(number, 1U));
  }
}

TEST_F(SmaSetTree, WhatAnSmWritesAboutAPortIsReadAgain) {
  auto info = wanted(kManagerLid);
  info.tuning = {60, 1, 9, 7, 18, 20, 8, 5};
  for (const auto& [path, number] : {std::pair(kSelf, 1U), std::pair(Path{1}, 0U), {Path{1}, 3U}}) {
    ASSERT_EQ(set(path, info, number), 0U);
    EXPECT_EQ(port_info(path, number).tuning, info.tuning) << number;
  }
  EXPECT_EQ(port_info({1}, 4).tuning, PortInfo::Tuning{}) << "another port";
  info.tuning.link_down_default = 0;
  ASSERT_EQ(set({1}, info, 3), 0U);
  EXPECT_EQ(port_info({1}, 3).tuning.link_down_default, 1) << "0 is no change";
  ASSERT_TRUE(subnet.set_switch("leaf-1", SwitchState::reset));
  EXPECT_EQ(port_info({1}, 3).tuning, PortInfo::Tuning{}) << "after power-on";
  EXPECT_EQ(port_info({1}, 0).tuning, kUsualTuning);
}

TEST_F(SmaSetTree, PortsTellThatTheyHaveTablesOfLanes) {
  EXPECT_EQ(port_info(kSelf).vl_arbitration_low_cap, LaneTables::kArbitrationEntries);
  EXPECT_EQ(port_info({1}, 3).vl_arbitration_high_cap, LaneTables::kArbitrationEntries);
  EXPECT_EQ(port_info({1}, 0).vl_arbitration_high_cap, 0) << "the port of the switch itself";
  EXPECT_EQ(port_info({1}, 0).vl_arbitration_low_cap, 0);
  for (const Path& path : {kSelf, Path{1}}) {
    EXPECT_NE(port_info(path).capability_mask & kCapabilitySlMapping, 0U);
  }
  EXPECT_NE(port_info({1}).capability_mask & kCapabilityTrap, 0U);
  EXPECT_NE(port_info(kSelf).capability_mask & kCapabilityTrap, 0U);
}

TEST_F(SmaSetTree, NewProcessKeepsTheSwitches) {
  bring_up_tree();
  Subnet after(external_tree());
  after.adopt(snapshot_of(subnet), kStart);
  EXPECT_EQ(after.route(manager, kHostLid), host);
  for (SwitchIndex i = 0; i < subnet.switches().size(); ++i) {
    EXPECT_EQ(after.switches()[i].node.port, subnet.switches()[i].node.port);
  }
  EXPECT_EQ(after.switches().peer(0, 3).state, PortState::active);
  EXPECT_EQ(after.switches().peer(0, 4).state, PortState::init);
}

}  // namespace
}  // namespace softib::subnet
