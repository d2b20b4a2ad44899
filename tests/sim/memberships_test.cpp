// Memberships that other programs, the SA or the operator of the subnet change (RFC 4391, 5 and
// 10).
#include "link/group_table.hpp"
#include "sa/request.hpp"
#include "tests/sim/sim_fixture.hpp"
#include "wire/mgid.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::sim {
namespace {

using wire::McMemberRecord;

class Memberships : public Sim {
 protected:
  using Sim::Sim;

  static constexpr Ipv4Address kGroup{0xef010203};
  static constexpr Ipv4Address kOther{0xef010204};

  [[nodiscard]] static Gid mgid_of(const IpAddress& group) {
    return std::visit([](const auto& any) { return wire::multicast_gid(any, kDefaultPKey); },
                      group);
  }
  [[nodiscard]] Gid broadcast() const { return wire::broadcast_gid(kDefaultPKey, scope); }
  [[nodiscard]] std::optional<softib::subnet::GroupView> find(const Gid& mgid) {
    const auto groups = world.subnet().groups();
    const auto at = std::ranges::find(groups, mgid, &softib::subnet::GroupView::mgid);
    return at == groups.end() ? std::nullopt : std::optional(*at);
  }
  /// JoinState of a host; 0: not a member.
  [[nodiscard]] std::uint8_t join_state(const Gid& mgid, const Host& host) {
    const auto group = find(mgid);
    if (!group) return 0;
    const auto at = std::ranges::find(group->members, host.node(),
                                      [](const auto& member) { return member.node; });
    return at == group->members.end() ? std::uint8_t{0} : at->join_state;
  }
  void join(Host& host, const IpAddress& group) {
    host.set_groups({group});
    ASSERT_TRUE(world.run_until(
        [&] { return join_state(mgid_of(group), host) == McMemberRecord::kFullMember; }, 5s));
  }
  /// A request of another program on the port of that node; it ignores the response.
  void request_from(softib::NodeIndex node, const wire::SaQuery& query) {
    const softib::PortAttributes port = world.subnet().node(node)->port;
    softib::MadPacket packet;
    packet.slid = port.lid;
    packet.dlid = port.sm_lid;
    packet.pkey = kDefaultPKey;
    packet.source = packet.destination = wire::kGsiQpn;
    packet.qkey = wire::kGsiQKey;
    std::ranges::copy(sa::request_mad(query, 7), packet.mad.begin());
    world.subnet().receive(packet, world.now());
    world.publish();
  }
  [[nodiscard]] Gid port_gid(softib::NodeIndex node) {
    return world.subnet().node(node)->port.gid();
  }
  void leave_beside(const Host& host, const Gid& mgid, std::uint8_t states) {
    request_from(host.node(), wire::leave_query(mgid, port_gid(host.node()), states));
  }
  [[nodiscard]] bool arrives(Host& from, const IpAddress& group, Host& to, Duration within = 1s) {
    const std::size_t before = to.received();
    std::visit([&](const auto& any) { from.send(any); }, group);
    return world.run_until([&] { return to.received() > before; }, within);
  }
  std::uint8_t scope = wire::kLinkLocalScope;  ///< of the broadcast group

  /// Sends a packet to the group every second until one arrives.
  [[nodiscard]] bool arrives_within(Duration limit, Host& from, const IpAddress& group, Host& to) {
    for (const TimePoint end = world.now() + limit; world.now() < end;) {
      if (arrives(from, group, to)) return true;
    }
    return false;
  }
};

// --- Other programs on the port ------------------------------------------------------------------

TEST_F(Memberships, LostFullMemberBitIsRestored) {
  two_hosts();
  join(b(), kGroup);
  world.run_for(1s);
  const Gid mgid = mgid_of(kGroup);
  // Another program joins to send, and then leaves as a full member.
  request_from(b().node(), wire::join_query(mgid, port_gid(b().node()), kDefaultPKey,
                                            McMemberRecord::kSendOnlyFullMember));
  leave_beside(b(), mgid, McMemberRecord::kFullMember);
  ASSERT_EQ(join_state(mgid, b()), McMemberRecord::kSendOnlyFullMember);
  EXPECT_FALSE(arrives(a(), kGroup, b()));
  EXPECT_TRUE(arrives_within(config.membership_check * 5 / 4 + 5s, a(), kGroup, b()));
  EXPECT_NE(join_state(mgid, b()) & McMemberRecord::kFullMember, 0);
}

TEST_F(Memberships, LeftSendOnlyGroupInUseIsJoinedAgain) {
  two_hosts();
  join(b(), kGroup);
  ASSERT_TRUE(arrives(a(), kGroup, b()));
  leave_beside(a(), mgid_of(kGroup), McMemberRecord::kSendOnlyNonMember);
  ASSERT_EQ(join_state(mgid_of(kGroup), a()), 0);
  (void)arrives_within(config.membership_check * 5 / 4 + 5s, a(), kOther, b());
  for (int i = 0; i < 60; ++i) {
    EXPECT_TRUE(arrives(a(), kGroup, b()));
    world.run_for(config.membership_check / 30);
  }
  EXPECT_EQ(join_state(mgid_of(kGroup), a()), McMemberRecord::kSendOnlyNonMember);
}

TEST_F(Memberships, SenderFollowsAGroupToAnotherLidWithoutReports) {
  HostOptions without_reports = options(1);
  without_reports.takes_reports = false;
  add(without_reports);
  add(2);
  add(3);
  bring_up();
  join(b(), kGroup);
  ASSERT_TRUE(arrives(a(), kGroup, b()));
  const Lid before = find(mgid_of(kGroup))->mlid;
  b().set_groups({});
  world.run_for(1s);
  ASSERT_FALSE(find(mgid_of(kGroup)));
  join(*hosts[2], kOther);
  ASSERT_EQ(find(mgid_of(kOther))->mlid, before);
  join(b(), kGroup);
  EXPECT_FALSE(arrives(a(), kGroup, b())) << "the old LID";
  EXPECT_TRUE(arrives_within(config.membership_check * 5 / 4 + 5s, a(), kGroup, b()));
}

TEST_F(Memberships, LeaveOfTheBroadcastGroupIsNoticedWithinSeconds) {
  two_hosts();
  for (int i = 1; i <= 3; ++i) {
    a().send(Ipv4Address(0xffffffff));
    world.run_for(1s);
    leave_beside(b(), broadcast(), McMemberRecord::kFullMember);
    ASSERT_EQ(join_state(broadcast(), b()), 0);
    EXPECT_TRUE(world.run_until(
        [&] { return join_state(broadcast(), b()) == McMemberRecord::kFullMember; }, 10s));
    EXPECT_EQ(b().count(Counter::memberships_lost), static_cast<std::uint64_t>(i));
  }
  EXPECT_EQ(b().tun().carrier_changes, 1U) << "the link stays up";
}

TEST_F(Memberships, ChecksOfAnIdleLinkAreRare) {
  add_many(10);
  bring_up();
  world.run_for(1h);
  const auto requests = [this] {
    std::uint64_t sum = 0;
    for (const auto& host : hosts) sum += host->sa_counters().requests;
    return sum;
  };
  const auto before = requests();
  world.run_for(1h);
  // A lookup and a join each: of two groups, and of the broadcast group after silence.
  const auto checks =
      2 * (1h / (config.membership_check * 3 / 4)) + 1h / (6 * config.silence_check * 3 / 4);
  EXPECT_LE(requests() - before, hosts.size() * 2 * static_cast<std::uint64_t>(checks));
}

TEST_F(Memberships, BroadcastsSaveRequests) {
  two_hosts();
  const auto before = b().sa_counters().requests;
  for (int i = 0; i < 60; ++i) {
    a().send(Ipv4Address(0xffffffff));
    world.run_for(1s);
  }
  EXPECT_EQ(b().sa_counters().requests, before);
}

// --- Parameters of the broadcast group -----------------------------------------------------------

/// The broadcast group is created by a port that the test uses as an operator would.
class WithOperator : public Memberships {
 protected:
  WithOperator() : Memberships(without_group()) {
    manager = world.subnet().add_hca("manager").value();
    create_broadcast_group();
  }
  static softib::subnet::SubnetConfig without_group() {
    softib::subnet::SubnetConfig subnet;
    subnet.mtu = 5;
    subnet.partitions.front().broadcast_group = false;
    return subnet;
  }
  void create_broadcast_group() {
    McMemberRecord record = parameters;
    record.mgid = broadcast();
    record.port_gid = port_gid(manager);
    record.pkey = kDefaultPKey;
    record.join_state = McMemberRecord::kFullMember;
    request_from(manager, wire::create_query(record));
    ASSERT_TRUE(find(broadcast()));
  }
  /// The SM restarts, with other parameters of the broadcast group.
  void change(const McMemberRecord& to) {
    parameters = to;
    (void)world.subnet().restart_sm(world.now());
    create_broadcast_group();
  }
  void expect_parameters(const Gid& mgid) {
    const auto group = find(mgid);
    ASSERT_TRUE(group) << mgid.to_string();
    EXPECT_EQ(group->qkey, parameters.qkey) << mgid.to_string();
    EXPECT_EQ(group->mtu, parameters.mtu) << mgid.to_string();
    EXPECT_EQ(group->sl, parameters.sl) << mgid.to_string();
    EXPECT_EQ(group->rate, parameters.rate) << mgid.to_string();
  }
  static McMemberRecord record_with(QKey qkey, std::uint8_t mtu, std::uint8_t sl) {
    McMemberRecord record;
    record.qkey = qkey;
    record.mtu = mtu;
    record.rate = 3;
    record.sl = ServiceLevel(sl);
    return record;
  }

  softib::NodeIndex manager = 0;
  McMemberRecord parameters = record_with(QKey(0x0b1b), 4, 0);
};

TEST_F(WithOperator, RFC4391_10_NewParametersOfTheBroadcastGroupReachAllGroups) {
  for (std::uint32_t i = 1; i <= 3; ++i) {
    HostOptions with_ipv6 = options(i);
    with_ipv6.ipv6 = true;
    add(with_ipv6);
  }
  bring_up();
  b().set_groups({kGroup, b().ipv6().solicited_node()});
  world.run_for(1s);
  ASSERT_TRUE(arrives(a(), kGroup, b()));
  const McMemberRecord changes[]{
      record_with(QKey(0x80001234), 4, 0), record_with(QKey(0x80001234), 5, 0),
      record_with(QKey(0x80001234), 5, 3), record_with(QKey(0x0b1b), 4, 0)};
  for (const McMemberRecord& to : changes) {
    change(to);
    world.run_for(20s);
    EXPECT_TRUE(all_up());
    EXPECT_EQ(a().tun().mtu, wire::mtu_bytes(to.mtu) - 4);
    for (const IpAddress& group :
         {IpAddress(kGroup), IpAddress(kAllNodes), IpAddress(kAllNodesOfIpv6)}) {
      expect_parameters(mgid_of(group));
    }
    EXPECT_TRUE(arrives(a(), kGroup, b()));
    EXPECT_TRUE(arrives(a(), kAllNodes, b()));
    a().link().flush();
    a().send(b().ipv6());
    EXPECT_TRUE(world.run_until([&] { return b().received_from(a().ipv6()) > 0; }, 5s));
    for (const auto& host : hosts) host->tun().from_fabric.clear();
  }
}

TEST_F(WithOperator, RFC4391_10_GroupWithAnotherMtuIsNotUsed) {
  two_hosts();
  McMemberRecord other = record_with(parameters.qkey, 5, 0);
  other.mgid = mgid_of(kGroup);
  other.port_gid = port_gid(manager);
  other.pkey = kDefaultPKey;
  other.join_state = McMemberRecord::kFullMember;
  request_from(manager, wire::create_query(other));
  b().set_groups({kGroup});
  world.run_for(5s);
  EXPECT_GT(b().count(Counter::join_failures), 0U);
  EXPECT_EQ(join_state(mgid_of(kGroup), b()), 0) << "it must not keep that group alive";
  a().send(kGroup);
  EXPECT_TRUE(world.run_until([&] { return a().count(Counter::multicast_unheard) == 1; }, 1s));
  EXPECT_EQ(join_state(mgid_of(kGroup), a()), 0);
  request_from(manager, wire::leave_query(other.mgid, other.port_gid, other.join_state));
  EXPECT_TRUE(arrives_within(30s, a(), kGroup, b())) << "b has created it again";
  expect_parameters(mgid_of(kGroup));
}

TEST_F(WithOperator, RFC4391_4_1_BroadcastGroupIsFoundInALargerScope) {
  // A link whose broadcast group exists only in site scope, as another operator may choose.
  request_from(manager,
               wire::leave_query(broadcast(), port_gid(manager), McMemberRecord::kFullMember));
  ASSERT_FALSE(find(broadcast()));
  scope = 5;
  create_broadcast_group();
  two_hosts();
  EXPECT_EQ(join_state(broadcast(), a()), McMemberRecord::kFullMember);
  EXPECT_TRUE(reaches(a(), b()));
  b().set_groups({kGroup});
  world.run_for(1s);
  EXPECT_TRUE(find(wire::multicast_gid(kGroup, kDefaultPKey, 5)));
  EXPECT_TRUE(arrives(a(), kGroup, b()));
  for (const softib::subnet::GroupView& group : world.subnet().groups()) {
    EXPECT_EQ(wire::scope_of(group.mgid), 5) << group.mgid.to_string();
  }
}

// --- Bring-up ------------------------------------------------------------------------------------

TEST_F(Memberships, CarrierIsRaisedAfterTheJoinOfTheAllNodesGroups) {
  Host& host = add(1);
  bring_up();
  EXPECT_EQ(join_state(mgid_of(kAllNodes), host), McMemberRecord::kFullMember);
  EXPECT_EQ(join_state(mgid_of(kAllNodesOfIpv6), host), McMemberRecord::kFullMember);
}

TEST_F(Memberships, CarrierIsRaisedAlthoughAllNodesGroupsAreRefused) {
  world.mad_tap = [this](softib::MadPacket& packet) {
    auto header = *wire::SaHeader::parse(packet.mad);
    const auto record = McMemberRecord::parse(ConstBytes(packet.mad).subspan(wire::kSaHeaderSize));
    if (header.mad.attribute_id == wire::attribute::kMcMemberRecord && header.mad.is_response() &&
        record->mgid != broadcast()) {
      header.mad.status = static_cast<std::uint16_t>(wire::SaStatus::request_denied);
      header.emit(packet.mad);
    }
    return true;
  };
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
}

// --- Groups of different scopes ------------------------------------------------------------------

TEST_F(Memberships, RFC4391_10_RoutabilityIsThatOfThePacketNotOfTheFirstOne) {
  const Ipv6Address link_local = *Ipv6Address::parse("ff02::fb");
  const Ipv6Address site = *Ipv6Address::parse("ff05::fb");
  ASSERT_EQ(mgid_of(link_local), mgid_of(site)) << "one MGID";
  for (std::uint32_t i = 1; i <= 2; ++i) {
    HostOptions with_ipv6 = options(i);
    with_ipv6.ipv6 = true;
    add(with_ipv6);
  }
  bring_up();
  join(b(), *Ipv6Address::parse("ff02::2"));
  EXPECT_FALSE(arrives(a(), link_local, b()));
  EXPECT_EQ(a().count(Counter::multicast_unheard), 1U);
  EXPECT_TRUE(arrives(a(), site, b())) << "goes to the routers";
  EXPECT_FALSE(arrives(a(), link_local, b()));
  world.run_for(1min);
  EXPECT_TRUE(arrives(a(), site, b()));
  EXPECT_FALSE(arrives(a(), link_local, b())) << "nor after a packet that may leave the link";
}

}  // namespace
}  // namespace ipoib::sim
