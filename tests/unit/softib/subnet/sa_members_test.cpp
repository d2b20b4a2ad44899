// Expected values are the responses of OpenSM 3.3.23 to the same requests, and the rules of IBA
// 15.2.5.17.
#include "sa_client.hpp"

namespace softib::subnet {
namespace {

using ipoib::wire::McMemberRecord;
using ipoib::wire::SaStatus;
namespace attribute = ipoib::wire::attribute;
namespace method = ipoib::wire::method;

/// An IPv4 group of the default partition's link.
const Gid kGroup = ipoib::wire::multicast_gid(ipoib::Ipv4Address(0xe0010203), ipoib::kDefaultPKey);

class SaMembers : public ::testing::Test {
 protected:
  SaMembers() : SaMembers(SubnetConfig{}) {}
  explicit SaMembers(SubnetConfig config) : subnet(std::move(config)) {}

  SaReply set(SaClient& from, const McMemberRecord& record, std::uint64_t mask) {
    const auto reply = from.send_request(method::kSet, attribute::kMcMemberRecord, mask, record);
    EXPECT_TRUE(reply.has_value());
    EXPECT_EQ(reply->header.mad.method, method::kGetResp);
    return reply.value_or(SaReply{});
  }
  SaStatus join(SaClient& from, const Gid& mgid, std::uint8_t state = 1) {
    return set(from, member::record(mgid, from.gid(), state), member::kJoin).status();
  }
  SaStatus create(SaClient& from, const Gid& mgid, std::uint8_t state = 1) {
    return set(from, member::record(mgid, from.gid(), state), member::kCreate).status();
  }
  SaStatus leave(SaClient& from, const Gid& mgid, std::uint8_t state = 1) {
    const auto reply = from.send_request(method::kDelete, attribute::kMcMemberRecord, member::kJoin,
                                         member::record(mgid, from.gid(), state));
    EXPECT_TRUE(reply.has_value());
    EXPECT_EQ(reply->header.mad.method, method::kDeleteResp);
    return reply->status();
  }
  std::vector<McMemberRecord> table(SaClient& from, std::uint64_t mask = 0,
                                    const McMemberRecord& record = {}) {
    const auto reply =
        from.send_request(method::kGetTable, attribute::kMcMemberRecord, mask, record);
    EXPECT_TRUE(reply.has_value());
    return reply->records<McMemberRecord>();
  }
  bool exists(const Gid& mgid) {
    const auto groups = subnet.groups();
    return std::any_of(groups.begin(), groups.end(),
                       [&](const auto& group) { return group.mgid == mgid; });
  }

  Subnet subnet;
  SaClient a{subnet, "a"};
  SaClient b{subnet, "b"};
};

TEST_F(SaMembers, FullMemberJoinsTheBroadcastGroupByFourComponents) {
  const auto reply = set(a, member::record(broadcast(), a.gid()), member::kJoin);
  ASSERT_EQ(reply.status(), SaStatus::ok);
  const auto record = McMemberRecord::parse(reply.data);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->mlid, Lid(0xc000));
  EXPECT_EQ(record->qkey, QKey(0x0b1b));
  EXPECT_EQ(record->mtu, 4);
  EXPECT_EQ(record->mtu_selector, ipoib::wire::Selector::exactly);
  EXPECT_EQ(record->rate, 3);
  EXPECT_EQ(record->rate_selector, ipoib::wire::Selector::exactly);
  EXPECT_EQ(record->scope, 2);
  EXPECT_EQ(record->join_state, 1);
  EXPECT_EQ(record->pkey, ipoib::kDefaultPKey);
  // The bytes of MTU, rate, and scope with join state, from a capture.
  EXPECT_EQ(reply.data[38], 0x84);
  EXPECT_EQ(reply.data[42], 0x83);
  EXPECT_EQ(reply.data[48], 0x21);
}

TEST_F(SaMembers, FullMemberCreatesAGroupWithTheNextMlid) {
  const auto reply = set(a, member::record(kGroup, a.gid()), member::kCreate);
  ASSERT_EQ(reply.status(), SaStatus::ok);
  EXPECT_EQ(McMemberRecord::parse(reply.data)->mlid, Lid(0xc001));
  EXPECT_TRUE(exists(kGroup));
}

TEST_F(SaMembers, AGroupIsShownWithItsParametersAndMembers) {
  auto wanted = member::record(*Gid::parse("ff12::77"), a.gid());
  wanted.sl = ServiceLevel(3);
  ASSERT_EQ(set(a, wanted, member::kCreate).status(), SaStatus::ok);
  const auto shown = subnet.groups().back();
  EXPECT_EQ(shown.mgid, wanted.mgid);
  EXPECT_EQ(shown.mlid, Lid(0xc001));
  EXPECT_EQ(shown.pkey, ipoib::kDefaultPKey);
  EXPECT_EQ(shown.qkey, QKey(0x0b1b));
  EXPECT_EQ(shown.mtu, 4);
  EXPECT_EQ(shown.rate, 3);
  EXPECT_EQ(shown.sl, ServiceLevel(3));
  EXPECT_FALSE(shown.permanent);
  ASSERT_EQ(shown.members.size(), 1U);
  EXPECT_EQ(shown.members[0].node, a.index());
  EXPECT_EQ(shown.members[0].join_state, 1);
  EXPECT_TRUE(shown.receivers[a.index()]);
}

TEST_F(SaMembers, SendOnlyNonMemberCannotCreateAGroup) {
  EXPECT_EQ(create(a, kGroup, McMemberRecord::kSendOnlyNonMember), SaStatus::request_invalid);
  EXPECT_EQ(create(a, kGroup, McMemberRecord::kNonMember), SaStatus::request_invalid);
  EXPECT_FALSE(exists(kGroup));
}

TEST_F(SaMembers, SendOnlyFullMemberCreatesAGroupAndReceivesNothing) {
  EXPECT_EQ(create(a, kGroup, McMemberRecord::kSendOnlyFullMember), SaStatus::ok);
  ASSERT_TRUE(exists(kGroup));
  EXPECT_TRUE(subnet.forwarding(Lid(0xc001)).receivers.none());
}

TEST_F(SaMembers, CreationRequiresItsComponents) {
  EXPECT_EQ(join(a, kGroup), SaStatus::insufficient_components);
  for (const auto needed :
       {McMemberRecord::kQKey, McMemberRecord::kTrafficClass, McMemberRecord::kPKey,
        McMemberRecord::kFlowLabel, McMemberRecord::kSl}) {
    const auto reply = set(a, member::record(kGroup, a.gid()), member::kCreate & ~needed);
    EXPECT_EQ(reply.status(), SaStatus::insufficient_components) << needed;
  }
  EXPECT_FALSE(exists(kGroup));
}

TEST_F(SaMembers, JoinRequiresMgidPortGidAndJoinState) {
  for (const auto needed :
       {McMemberRecord::kMgid, McMemberRecord::kPortGid, McMemberRecord::kJoinState}) {
    const auto reply = set(a, member::record(broadcast(), a.gid()), member::kJoin & ~needed);
    EXPECT_EQ(reply.status(), SaStatus::insufficient_components) << needed;
  }
}

TEST_F(SaMembers, PKeyMissingOnThePortIsRefused) {
  auto record = member::record(kGroup, a.gid());
  record.pkey = PKey(0x9234);
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
  record.mgid = Gid::parse("ff12:a01c::1").value();
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
}

TEST_F(SaMembers, GroupMtuAboveThePortMtuIsRefused) {
  auto record = member::record(Gid::parse("ff12:a01c::1").value(), a.gid());
  record.mtu = 5;
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
  record.mtu = 4;
  record.rate = 10;  // 120 Gb/s on a port of 40
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
}

TEST_F(SaMembers, InvalidValuesAreRefused) {
  auto record = member::record(kGroup, a.gid());
  record.mtu = 6;
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
  record.mtu = 4;
  record.rate = 1;
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
  record.pkey = PKey(0x8000);
  EXPECT_EQ(set(a, record, member::kJoin).status(), SaStatus::request_invalid);
}

TEST_F(SaMembers, SecondLeaveIsRefused) {
  ASSERT_EQ(join(a, broadcast()), SaStatus::ok);
  EXPECT_EQ(leave(a, broadcast()), SaStatus::ok);
  EXPECT_EQ(leave(a, broadcast()), SaStatus::request_invalid);
}

TEST_F(SaMembers, PortGidMustBeOfThisSubnet) {
  auto record = member::record(broadcast(), a.gid());
  record.port_gid = Gid(0xfec0'0000'0000'0000, a.gid().guid());
  EXPECT_EQ(set(a, record, member::kJoin).status(), SaStatus::invalid_gid);
  record.port_gid = Gid(Gid::kLinkLocalPrefix, ipoib::Guid(0x1234));
  EXPECT_EQ(set(a, record, member::kJoin).status(), SaStatus::request_invalid);
}

TEST_F(SaMembers, ParametersMustMatchTheGroup) {
  auto record = member::record(broadcast(), a.gid());
  record.qkey = QKey(0x80000000);
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
  record = member::record(broadcast(), a.gid());
  record.mtu = 3;
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
  record = member::record(broadcast(), a.gid());
  record.sl = ServiceLevel(1);
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
  record = member::record(broadcast(), a.gid());
  record.hop_limit = 7;
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
  record = member::record(broadcast(), a.gid());
  record.traffic_class = 0x20;
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
  record = member::record(broadcast(), a.gid(), 0);
  EXPECT_EQ(set(a, record, member::kJoin).status(), SaStatus::request_invalid);
}

TEST_F(SaMembers, SelectorsOfAJoin) {
  using ipoib::wire::Selector;
  auto record = member::record(broadcast(), a.gid());
  record.mtu_selector = Selector::greater;
  record.mtu = 3;
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::ok);
  record.mtu = 4;
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
  record.mtu_selector = Selector::less;
  record.mtu = 5;
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::ok);
  record.rate_selector = Selector::less;
  record.rate = 5;  // 5 Gb/s: a larger code, but a lower rate
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
}

/// The ports have an MTU of 2048 bytes (4) and 40 Gb/s (7). A new group gets what the request
/// permits and they can.
TEST_F(SaMembers, SelectorsOfANewGroup) {
  using ipoib::wire::Selector;
  struct Row {
    Selector selector;
    std::uint8_t mtu, given_mtu, rate, given_rate;  ///< 0: refused
  };
  for (const auto& row : {Row{Selector::exactly, 3, 3, 3, 3}, Row{Selector::greater, 3, 4, 3, 7},
                          Row{Selector::greater, 4, 0, 7, 0}, Row{Selector::less, 5, 4, 8, 7},
                          Row{Selector::less, 4, 3, 7, 4}, Row{Selector::less, 1, 0, 2, 0},
                          Row{Selector::largest, 1, 4, 2, 7}}) {
    SCOPED_TRACE(testing::Message() << int(row.selector) << ' ' << int(row.mtu));
    auto wanted = member::record(Gid(), a.gid());
    wanted.mtu_selector = wanted.rate_selector = row.selector;
    wanted.mtu = row.mtu;
    wanted.rate = row.rate;
    constexpr auto kMtu = McMemberRecord::kMtuSelector | McMemberRecord::kMtu;
    constexpr auto kRate = McMemberRecord::kRateSelector | McMemberRecord::kRate;
    const auto by_mtu = set(a, wanted, member::kCreate & ~kRate);
    const auto by_rate = set(a, wanted, member::kCreate & ~kMtu);
    ASSERT_EQ(by_mtu.status(), row.given_mtu != 0 ? SaStatus::ok : SaStatus::request_invalid);
    ASSERT_EQ(by_rate.status(), row.given_rate != 0 ? SaStatus::ok : SaStatus::request_invalid);
    if (row.given_mtu == 0) continue;
    const auto one = McMemberRecord::parse(by_mtu.data);
    const auto other = McMemberRecord::parse(by_rate.data);
    EXPECT_EQ(one->mtu, row.given_mtu);
    EXPECT_EQ(one->rate, 7) << "that of the port";
    EXPECT_EQ(other->mtu, 4) << "that of the port";
    EXPECT_EQ(other->rate, row.given_rate);
    EXPECT_EQ(one->mtu_selector, Selector::exactly);
    EXPECT_EQ(other->rate_selector, Selector::exactly);
    EXPECT_EQ(one->lifetime, 18);
  }
}

TEST_F(SaMembers, IpoibGroupRequiresItsBroadcastGroup) {
  const Gid lonely = ipoib::wire::multicast_gid(ipoib::Ipv4Address(0xe0000001), PKey(0x8012));
  EXPECT_EQ(create(a, lonely), SaStatus::request_invalid);
  auto record = member::record(kGroup, a.gid());
  record.qkey = QKey(0x1234);  // differs from the broadcast group
  EXPECT_EQ(set(a, record, member::kCreate).status(), SaStatus::request_invalid);
}

TEST_F(SaMembers, ReservedMgidsAreRefused) {
  EXPECT_EQ(create(a, Gid::parse("ff32:1::1").value()), SaStatus::request_invalid);
  EXPECT_EQ(create(a, Gid::parse("ff12:a01b::1").value()), SaStatus::request_invalid);
  EXPECT_EQ(create(a, Gid::parse("fe80::1").value()), SaStatus::request_invalid);
  EXPECT_EQ(create(a, Gid::parse("fe00::1").value()), SaStatus::request_invalid);
}

TEST_F(SaMembers, SaChoosesAMissingMgid) {
  const auto first = set(a, member::record(Gid(), a.gid()), member::kCreate);
  const auto second = set(a, member::record(Gid(), a.gid()), member::kCreate);
  ASSERT_EQ(first.status(), SaStatus::ok);
  ASSERT_EQ(second.status(), SaStatus::ok);
  const auto one = McMemberRecord::parse(first.data);
  const auto other = McMemberRecord::parse(second.data);
  EXPECT_TRUE(one->mgid.to_string().starts_with("ff12:a01b:"));
  EXPECT_NE(one->mgid, other->mgid);
  auto wanted = member::record(Gid(), a.gid());
  wanted.scope = 5;
  const auto third = set(a, wanted, member::kCreate | McMemberRecord::kScope);
  EXPECT_TRUE(McMemberRecord::parse(third.data)->mgid.to_string().starts_with("ff15:a01b:"));
  EXPECT_EQ(McMemberRecord::parse(third.data)->scope, 5);
}

TEST_F(SaMembers, JoinStatesOfAPortAreAddedAndRemovedSeparately) {
  ASSERT_EQ(create(b, kGroup), SaStatus::ok);
  ASSERT_EQ(join(a, kGroup), SaStatus::ok);
  const auto reply =
      set(a, member::record(kGroup, a.gid(), McMemberRecord::kSendOnlyNonMember), member::kJoin);
  EXPECT_EQ(McMemberRecord::parse(reply.data)->join_state, 5);
  EXPECT_EQ(leave(a, kGroup, McMemberRecord::kNonMember), SaStatus::request_invalid);
  EXPECT_EQ(leave(a, kGroup, 7), SaStatus::request_invalid);
  const auto left = a.send_request(method::kDelete, attribute::kMcMemberRecord, member::kJoin,
                                   member::record(kGroup, a.gid()));
  EXPECT_EQ(left->status(), SaStatus::ok);
  EXPECT_EQ(McMemberRecord::parse(left->data)->join_state, 4) << "what is left";
  EXPECT_EQ(McMemberRecord::parse(left->data)->scope, kGroup.bytes()[1] & 0xf);
  EXPECT_FALSE(subnet.forwarding(Lid(0xc001)).receivers[a.index()]);
  EXPECT_EQ(leave(a, kGroup, McMemberRecord::kSendOnlyNonMember), SaStatus::ok);
  EXPECT_EQ(leave(a, kGroup, McMemberRecord::kSendOnlyNonMember), SaStatus::request_invalid);
}

TEST_F(SaMembers, GroupEndsWithItsLastFullMember) {
  ASSERT_EQ(create(a, kGroup), SaStatus::ok);
  ASSERT_EQ(join(b, kGroup, McMemberRecord::kSendOnlyNonMember), SaStatus::ok);
  EXPECT_EQ(leave(a, kGroup), SaStatus::ok);
  EXPECT_FALSE(exists(kGroup));
  EXPECT_EQ(leave(b, kGroup, McMemberRecord::kSendOnlyNonMember), SaStatus::request_invalid);
  EXPECT_TRUE(subnet.forwarding(Lid(0xc001)).mgid.is_zero());
}

TEST_F(SaMembers, PermanentGroupStays) {
  EXPECT_TRUE(subnet.take_changes().groups[0]) << "it is published without members";
  ASSERT_EQ(join(a, broadcast()), SaStatus::ok);
  ASSERT_EQ(join(b, broadcast(), McMemberRecord::kNonMember), SaStatus::ok);
  EXPECT_EQ(leave(a, broadcast()), SaStatus::ok);
  EXPECT_TRUE(exists(broadcast()));
  EXPECT_TRUE(subnet.forwarding(Lid(0xc000)).receivers.none());
}

TEST_F(SaMembers, PortThatGoesDownLeavesAllGroups) {
  ASSERT_EQ(join(a, broadcast()), SaStatus::ok);
  ASSERT_EQ(create(a, kGroup), SaStatus::ok);
  ASSERT_TRUE(subnet.set_port_state(a.index(), PortState::down));
  EXPECT_FALSE(exists(kGroup));
  EXPECT_TRUE(subnet.forwarding(Lid(0xc000)).receivers.none());
}

TEST_F(SaMembers, OnlyThePortItselfMayChangeItsMembership) {
  ASSERT_EQ(join(a, broadcast()), SaStatus::ok);
  const auto of_a = member::record(broadcast(), a.gid());
  EXPECT_EQ(set(b, of_a, member::kJoin).status(), SaStatus::request_invalid);
  const auto reply =
      b.send_request(method::kDelete, attribute::kMcMemberRecord, member::kJoin, of_a);
  EXPECT_EQ(reply->status(), SaStatus::request_invalid);
}

TEST_F(SaMembers, AnyPortInThePartitionMayChangeAProxyMembership) {
  const auto of_a = member::record(broadcast(), a.gid());
  ASSERT_EQ(set(b, of_a, member::kJoin).status(), SaStatus::ok);
  EXPECT_TRUE(subnet.forwarding(Lid(0xc000)).receivers[a.index()]);
  SaClient c(subnet, "c");
  const auto reply =
      c.send_request(method::kDelete, attribute::kMcMemberRecord, member::kJoin, of_a);
  EXPECT_EQ(reply->status(), SaStatus::ok);
}

TEST_F(SaMembers, OnlyTrustedRequestsSeeMembers) {
  ASSERT_EQ(join(a, broadcast()), SaStatus::ok);
  ASSERT_EQ(join(b, broadcast(), McMemberRecord::kNonMember), SaStatus::ok);
  auto records = table(a);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_TRUE(records[0].port_gid.is_zero());
  EXPECT_EQ(records[0].join_state, 0);
  const auto member = member::record(broadcast(), a.gid());
  EXPECT_EQ(table(a, McMemberRecord::kJoinState, member).size(), 1U) << "as if a full member's";

  a.trust(true);
  records = table(a);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].port_gid, a.gid());
  EXPECT_EQ(records[0].join_state, 1);
  EXPECT_EQ(records[1].port_gid, b.gid());
  EXPECT_EQ(records[1].join_state, 2);
}

TEST_F(SaMembers, FindsAMembershipByMgidAndPortGid) {
  ASSERT_EQ(join(a, broadcast()), SaStatus::ok);
  constexpr auto kMask = McMemberRecord::kMgid | McMemberRecord::kPortGid;
  const auto query = [&](SaClient& whose) {
    return a.send_request(method::kGet, attribute::kMcMemberRecord, kMask,
                          member::record(broadcast(), whose.gid()));
  };
  EXPECT_EQ(query(a)->status(), SaStatus::ok);
  EXPECT_EQ(query(b)->status(), SaStatus::no_records);
}

TEST_F(SaMembers, EachComponentOfAQuerySelects) {
  auto group = member::record(Gid::parse("ff15:a01c::1").value(), a.gid());
  group.sl = ServiceLevel(2);
  group.flow_label = 0x12345;
  group.hop_limit = 9;
  group.traffic_class = 0x20;
  const auto created = set(a, group, member::kCreate);
  ASSERT_EQ(created.status(), SaStatus::ok);
  const auto record = McMemberRecord::parse(created.data).value();
  a.trust(true);
  struct Row {
    std::uint64_t component;
    void (*change)(McMemberRecord&);
  };
  for (const auto& [component, change] :
       {Row{McMemberRecord::kMgid, [](auto& x) { x.mgid = Gid::parse("ff15:a01c::2").value(); }},
        Row{McMemberRecord::kPortGid, [](auto& x) { x.port_gid = Gid(Gid::kLinkLocalPrefix, {}); }},
        Row{McMemberRecord::kQKey, [](auto& x) { x.qkey = QKey(1); }},
        Row{McMemberRecord::kMlid, [](auto& x) { x.mlid = Lid(0xc000); }},
        Row{McMemberRecord::kMtuSelector | McMemberRecord::kMtu, [](auto& x) { x.mtu = 3; }},
        Row{McMemberRecord::kTrafficClass, [](auto& x) { x.traffic_class = 0; }},
        Row{McMemberRecord::kPKey, [](auto& x) { x.pkey = PKey(0x8012); }},
        Row{McMemberRecord::kRateSelector | McMemberRecord::kRate, [](auto& x) { x.rate = 2; }},
        Row{McMemberRecord::kSl, [](auto& x) { x.sl = ServiceLevel(0); }},
        Row{McMemberRecord::kFlowLabel, [](auto& x) { x.flow_label = 0; }},
        Row{McMemberRecord::kHopLimit, [](auto& x) { x.hop_limit = 0; }},
        Row{McMemberRecord::kScope, [](auto& x) { x.scope = 2; }},
        Row{McMemberRecord::kJoinState, [](auto& x) { x.join_state = 2; }},
        Row{McMemberRecord::kProxyJoin, [](auto& x) { x.proxy_join = true; }}}) {
    SCOPED_TRACE(component);
    EXPECT_EQ(table(a, component | McMemberRecord::kHopLimit, record).size(), 1U);
    auto other = record;
    change(other);
    EXPECT_TRUE(table(a, component | McMemberRecord::kHopLimit, other).empty());
  }
  auto other = record;
  other.mtu = 3;
  other.rate = 2;
  constexpr auto kWithoutSelectors = McMemberRecord::kMtu | McMemberRecord::kRate;
  EXPECT_EQ(table(a, kWithoutSelectors | McMemberRecord::kHopLimit, other).size(), 1U);
}

TEST_F(SaMembers, AJoinByProxyIsOneInTheResponseAndInTheTable) {
  auto record = member::record(broadcast(), a.gid());
  for (const bool is_proxy : {false, true}) {
    record.proxy_join = is_proxy;
    const auto reply = set(is_proxy ? b : a, record, member::kJoin | McMemberRecord::kProxyJoin);
    ASSERT_EQ(reply.status(), SaStatus::ok);
    EXPECT_EQ(McMemberRecord::parse(reply.data)->proxy_join, is_proxy);
    a.trust(true);
    const auto found = table(a, McMemberRecord::kPortGid, record);
    a.trust(false);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].proxy_join, is_proxy);
    if (is_proxy) continue;
    EXPECT_EQ(leave(a, broadcast()), SaStatus::ok);
  }
}

TEST_F(SaMembers, TooManyGroupsAreRefused) {
  Gid::Bytes bytes = Gid::parse("ff12:a01c::").value().bytes();
  for (std::size_t i = 1; i <= kMaxGroups / 2; ++i) {
    ipoib::store_be(bytes.data() + 12, static_cast<std::uint32_t>(i));
    ASSERT_EQ(create(a, Gid(bytes)), SaStatus::ok) << i;
  }
  EXPECT_EQ(create(a, kGroup), SaStatus::no_resources);
  EXPECT_EQ(create(b, kGroup), SaStatus::ok) << "another port has its share";
  EXPECT_EQ(join(a, kGroup), SaStatus::ok) << "it takes no other multicast LID";
}

/// Partition 0x7fff, and 0x0012 with MTU 4096 on ports with MTU 2048, as in the OpenSM run.
class SaMembersOfTwoPartitions : public SaMembers {
 protected:
  static SubnetConfig config() {
    SubnetConfig config;
    config.partitions = make_partitions({"0x0012=full,mtu=4096"}).value();
    return config;
  }
  SaMembersOfTwoPartitions() : SaMembers(config()) {}
};

TEST_F(SaMembersOfTwoPartitions, BroadcastGroupsAreCreatedAtStart) {
  const auto records = table(a);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].mgid.to_string(), "ff12:401b:ffff::ffff:ffff");
  EXPECT_EQ(records[0].mlid, Lid(0xc000));
  EXPECT_EQ(records[1].mgid.to_string(), "ff12:401b:8012::ffff:ffff");
  EXPECT_EQ(records[1].mlid, Lid(0xc001));
  EXPECT_EQ(records[1].mtu, 5);
}

TEST_F(SaMembersOfTwoPartitions, GroupBeyondThePortMtuIsRefused) {
  auto record = member::record(ipoib::wire::broadcast_gid(PKey(0x8012)), a.gid());
  record.pkey = PKey(0x8012);
  EXPECT_EQ(set(a, record, member::kJoin).status(), SaStatus::request_invalid);
}

TEST_F(SaMembersOfTwoPartitions, GroupsEndWithTheirPartition) {
  auto other = member::record(ipoib::wire::broadcast_gid(ipoib::kDefaultPKey), a.gid());
  ASSERT_EQ(set(a, other, member::kJoin).status(), SaStatus::ok);
  (void)subnet.take_changes();
  ASSERT_TRUE(subnet.delete_partition(PKey(0x12)));
  const auto records = table(a);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].pkey, ipoib::kDefaultPKey);
  EXPECT_TRUE(subnet.take_changes().groups[1]);
  EXPECT_TRUE(subnet.forwarding(Lid(0xc001)).mgid.is_zero());
  EXPECT_TRUE(subnet.forwarding(Lid(0xc000)).receivers[a.index()]) << "it is still a member";
}

TEST_F(SaMembersOfTwoPartitions, OnlyMembersOfThePartitionStayInAGroup) {
  auto record = member::record(Gid::parse("ff12:a01c::1").value(), a.gid());
  record.pkey = PKey(0x8012);
  ASSERT_EQ(set(a, record, member::kCreate).status(), SaStatus::ok);
  const Lid mlid = subnet.groups().back().mlid;
  EXPECT_FALSE(subnet.set_membership(99, PKey(0x12), Membership::full));
  ASSERT_TRUE(subnet.set_membership(a.index(), PKey(0x12), Membership::limited));
  EXPECT_TRUE(subnet.forwarding(mlid).receivers[a.index()]);
  ASSERT_TRUE(subnet.set_membership(a.index(), PKey(0x12), Membership::none));
  EXPECT_FALSE(subnet.forwarding(mlid).receivers[a.index()]);
}

TEST_F(SaMembersOfTwoPartitions, GroupsOfOtherPartitionsAreNotShown) {
  ASSERT_TRUE(subnet.set_membership(b.index(), PKey(0x8012), Membership::none));
  EXPECT_EQ(table(b).size(), 1U);
}

}  // namespace
}  // namespace softib::subnet
