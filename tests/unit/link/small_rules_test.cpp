// Rules of which each is one line in the source: spreads, limits, and what is remembered or not.
#include <gmock/gmock.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include <array>
#include <set>

#include "link/announcer.hpp"
#include "link/nd_input.hpp"
#include "tests/unit/link/link_fixture.hpp"
#include "tests/unit/link/neighbour_fixture.hpp"

namespace ipoib::link {
namespace {

using ::testing::ElementsAre;
using PathRules = ObjectFixture;

/// Paths that were requested together are not requested again together.
TEST_F(PathRules, RefreshesAreSpread) {
  constexpr std::uint64_t kPaths = 50;
  for (std::uint64_t guid = 100; guid < 100 + kPaths; ++guid) prepare_path(port_gid(guid));
  const TimePoint begin = now;
  std::set<TimePoint> refreshes;
  while (paths.next_deadline() < begin + 2 * config.path.refresh) {
    now = paths.next_deadline();
    refreshes.insert(now);
    paths.tick(now);
  }
  EXPECT_GT(refreshes.size(), kPaths / 2);
  EXPECT_GE(*refreshes.begin() - begin, config.path.refresh * 3 / 4);
  EXPECT_LT(*refreshes.begin() - begin, config.path.refresh);
  EXPECT_GT(*refreshes.rbegin() - begin, config.path.refresh);
  EXPECT_LE(*refreshes.rbegin() - begin, config.path.refresh * 5 / 4);
}

/// A path that fails is remembered beyond its pause, also without a user.
TEST_F(PathRules, PausesGrowIfThePathIsUnusedMeanwhile) {
  const auto fail = [this] {
    const PathRef user = paths.acquire(kPeerHw.gid);
    EXPECT_EQ(paths.use(*user, now), PathTable::Condition::pending);
    refuse(path_requests().at(0));
    forget();
    const TimePoint began = now;
    while (paths.use(*user, now) == PathTable::Condition::failed) now += 100ms;
    refuse(path_requests().at(0));
    forget();
    return now - began;
  };
  const Duration first = fail();
  // The second pause, and a while after it.
  const TimePoint end = now + config.path.negative.last;
  while (paths.next_deadline() <= end) {
    now = paths.next_deadline();
    paths.tick(now);
  }
  now = end;
  EXPECT_GT(fail(), 2 * first);
}

TEST_F(PathRules, APathThatIsUsedAgainIsNotEvicted) {
  config.limits.paths = 1;
  prepare_path(kPeerHw.gid);
  kept.clear();
  const PathRef again = paths.acquire(kPeerHw.gid);
  ASSERT_TRUE(again);
  EXPECT_FALSE(paths.acquire(kNewPeerHw.gid));
  EXPECT_NE(paths.find(kPeerHw.gid), nullptr);
  EXPECT_EQ(count(Counter::paths_evicted), 0U);
}

class NeighbourRules : public NeighbourStates {};

/// Neighbours that were confirmed together do not have to be confirmed again together.
TEST_F(NeighbourRules, ConfirmationsEndAtDifferentTimes) {
  constexpr std::uint32_t kNeighbours = 50;
  prepare_path(kPeerHw.gid);
  for (std::uint32_t i = 0; i < kNeighbours; ++i) {
    HwAddress address = kPeerHw;
    address.qpn = Qpn(100 + i);
    neighbours.address(*neighbours.create(Ipv4Address(0x0a2c0010 + i), Purpose::packet), address,
                       Evidence::confirmed, now);
  }
  const TimePoint begin = now;
  const Duration reachable = config.ageing.reachable;
  std::set<TimePoint> ends;
  while (neighbours.next_deadline() <= begin + 2 * reachable) {
    now = neighbours.next_deadline();
    ends.insert(now);
    neighbours.tick(now);
  }
  EXPECT_GT(ends.size(), kNeighbours / 2);
  EXPECT_GE(*ends.begin() - begin, reachable / 2);
  EXPECT_LT(*ends.begin() - begin, reachable);
}

TEST_F(NeighbourRules, WithheldRepetitionsAreCounted) {
  while (solicitor.admit_repetition(now)) EXPECT_EQ(count(Counter::solicitations_withheld), 0U);
  EXPECT_EQ(count(Counter::solicitations_withheld), 1U);
  EXPECT_FALSE(solicitor.admit_repetition(now));
  EXPECT_EQ(count(Counter::solicitations_withheld), 2U);
}

using SourceRules = LinkFixture;

class InputRules : public LinkFixture {
 protected:
  void SetUp() override {
    silent_logger()->sinks().push_back(lines);
    bring_up();
  }
  void TearDown() override { std::erase(silent_logger()->sinks(), lines); }
  [[nodiscard]] std::size_t warnings_with(std::string_view words) const {
    const auto all = lines->last_formatted();
    return static_cast<std::size_t>(std::ranges::count_if(all, [words](const std::string& line) {
      return line.find("warning") != line.npos && line.find(words) != line.npos;
    }));
  }

  std::shared_ptr<spdlog::sinks::ringbuffer_sink_st> lines =
      std::make_shared<spdlog::sinks::ringbuffer_sink_st>(512);
};

TEST_F(InputRules, AnArpReplyIsNoProbe) {
  wire::Arp reply = arp_from_peer(wire::ArpOperation::reply);
  reply.sender_protocol = Ipv4Address{};
  receive_arp(reply, broadcast());
  EXPECT_TRUE(sent_arp().empty());
  EXPECT_EQ(count(Counter::drop_bad_arp_sender), 1U);
  EXPECT_EQ(count(Counter::arp_ignored), 0U);
}

TEST_F(InputRules, DuplicateAddressesAreLoggedOnceInTenSeconds) {
  wire::Arp claim = arp_from_peer(wire::ArpOperation::request);
  claim.sender_protocol = kOwnIp;
  const auto receive_some = [&] {
    for (int i = 0; i < 5; ++i) receive_arp(claim, broadcast());
  };
  receive_some();
  EXPECT_EQ(warnings_with("duplicate address"), 1U);
  tick_to(now + 10s - 1ms);
  receive_some();
  EXPECT_EQ(warnings_with("duplicate address"), 1U);
  tick_to(now + 1ms);
  receive_some();
  EXPECT_EQ(warnings_with("duplicate address"), 2U);
  EXPECT_EQ(count(Counter::drop_duplicate_address), 15U);
}

TEST_F(InputRules, ASecondDuplicateAddressIsLoggedToo) {
  const Ipv4Address second(0x0a2c0009);
  view.addresses.push_back({second, 24});
  link->on_host_changed(view, now);
  wire::Arp claim = arp_from_peer(wire::ArpOperation::request);
  for (const Ipv4Address address : {kOwnIp, second, kOwnIp, second}) {
    claim.sender_protocol = address;
    receive_arp(claim, broadcast());
  }
  EXPECT_EQ(warnings_with("duplicate address: " + kOwnIp.to_string()), 1U);
  EXPECT_EQ(warnings_with("duplicate address: " + second.to_string()), 1U);
}

/// Also if messages that claim another queue pair than their sender's are accepted.
TEST_F(SourceRules, AnotherQueuePairDoesNotInvalidateThePath) {
  config.strict_arp = false;
  bring_up();
  resolve_peer();
  const auto receive_from = [this](Qpn qpn) {
    Incoming incoming = datagram(arp_frame(arp_from_peer(wire::ArpOperation::request)));
    incoming.source_qpn = qpn;
    incoming.source_lid = Lid(9);
    receive(std::move(incoming));
  };
  receive_from(Qpn(kPeerHw.qpn.value() + 1));
  EXPECT_EQ(count(Counter::path_lid_mismatches), 0U);
  receive_from(kPeerHw.qpn);
  EXPECT_EQ(count(Counter::path_lid_mismatches), 1U);
}

TEST_F(InputRules, MembershipReportsOfTheHostAnnounceNewGroups) {
  Frame packet = ip_packet(Ipv4Address(0xe0000016), kOwnIp);
  send(std::move(packet));
  EXPECT_TRUE(emitted<HostGroupsChanged>().empty()) << "no report";
  Frame report = ip_packet(Ipv4Address(0xe0000016), kOwnIp);
  report.bytes()[9] = 2;  // IGMP
  send(std::move(report));
  EXPECT_EQ(emitted<HostGroupsChanged>().size(), 1U);
}

TEST_F(InputRules, UnsolicitedDiscoveryWithoutALinkLayerAddressSaysNothing) {
  HostAddresses host;
  view.addresses = {{*Ipv6Address::parse("fe80::1"), 64}};
  (void)host.update(view);
  wire::NdMessage message;
  message.type = wire::NdType::neighbour_solicitation;
  message.source = *Ipv6Address::parse("fe80::2");
  message.target = *Ipv6Address::parse("fe80::1");
  EXPECT_FALSE(neighbour_update(message, host, link->hardware_address()));
  message.source_link_layer = kPeerHw;
  EXPECT_TRUE(neighbour_update(message, host, link->hardware_address()));
  message = {};
  message.type = wire::NdType::neighbour_advertisement;
  message.target = *Ipv6Address::parse("fe80::2");
  EXPECT_FALSE(neighbour_update(message, host, link->hardware_address()));
  message.is_solicited = true;
  EXPECT_TRUE(neighbour_update(message, host, link->hardware_address()))
      << "it confirms the address that is known";
}

TEST_F(InputRules, ShutDownLeavesSendOnlyGroups) {
  const Ipv4Address group(0xe1010101);
  send(ip_packet(group, kOwnIp));
  grant_joins();
  forget();
  link->shut_down(now);
  const auto leaves = emitted<LeaveRequest>();
  EXPECT_TRUE(std::ranges::any_of(leaves, [&](const LeaveRequest& leave) {
    return leave.record.mgid == wire::multicast_gid(group, kDefaultPKey) &&
           leave.record.join_state == wire::McMemberRecord::kSendOnlyNonMember;
  }));
  link.reset();
}

TEST(AddressRules, ABroadcastAddressEndsWithItsPrefix) {
  HostView view;
  HostAddresses host;
  view.addresses = {{Ipv4Address(0x0a2c0001), 24}};
  (void)host.update(view);
  ASSERT_TRUE(host.is_broadcast(Ipv4Address(0x0a2c00ff)));
  view.addresses = {{Ipv4Address(0x0a2c0001), 16}};
  (void)host.update(view);
  EXPECT_FALSE(host.is_broadcast(Ipv4Address(0x0a2c00ff)));
  EXPECT_TRUE(host.is_broadcast(Ipv4Address(0x0a2cffff)));
}

TEST(ParkingRules, BytesAreReturnedToTheBudget) {
  FramePool pool(4, 64);
  Counters counters;
  ParkingBudget budget{
      .bytes_per_neighbour = 1 << 20, .first_packets = 4, .frames = 4, .bytes = 1 << 20};
  {
    ParkedFrames parked(budget);
    parked.park(pool.take(), Purpose::packet, counters);
    parked.park(pool.take(), Purpose::packet, counters);
    EXPECT_EQ(budget.bytes_used, 128U) << "the memory that they occupy";
    (void)parked.take();
    EXPECT_EQ(budget.bytes_used, 0U);
    parked.park(pool.take(), Purpose::packet, counters);
    EXPECT_EQ(budget.bytes_used, 64U);
    parked.drop(Counter::drop_link_down, counters);
    EXPECT_EQ(budget.bytes_used, 0U);
    parked.park(pool.take(), Purpose::packet, counters);
  }
  EXPECT_EQ(budget.bytes_used, 0U);
}

class AnnouncerRules : public ObjectFixture {};

TEST_F(AnnouncerRules, AnAddressIsAnnouncedOnceAtATime) {
  Announcer announcer{config, host, arp, nd, out};
  const Ipv4Address own(0x0a2c0001);
  announcer.start(own, now);
  announcer.start(own, now);
  for (TimePoint next = announcer.next_deadline(); next != kNever;
       next = announcer.next_deadline()) {
    now = next;
    announcer.tick(now);
  }
  EXPECT_EQ(sent_arp().size(), config.ageing.announcements);
}

// --- Groups --------------------------------------------------------------------------------------

class GroupRules : public ObjectFixture {
 protected:
  [[nodiscard]] JoinRequest take_join() {
    const auto joins = emitted<JoinRequest>();
    EXPECT_EQ(joins.size(), 1U);
    forget();
    return joins.empty() ? JoinRequest{} : joins.front();
  }
  void refuse_join(Group& group, wire::SaStatus status) {
    EXPECT_FALSE(group.on_response({take_join().id, SaFailure(status)}, now));
  }
  void grant_join(Group& group) {
    EXPECT_TRUE(group.on_response({take_join().id, group_record(group.mgid())}, now));
  }
  void reach_deadline_of(Group& group) {
    now = group.next_deadline();
    group.tick(now);
  }
  /// The lookup of a membership check is answered with this record.
  std::uint64_t losses_after_finding(const wire::McMemberRecord& record) {
    Group group{membership, GroupRole::broadcast};
    group.start();
    grant_join(group);
    reach_deadline_of(group);
    const auto lookups = emitted<LookupRequest>();
    EXPECT_EQ(lookups.size(), 1U);
    EXPECT_FALSE(group.on_response({lookups.at(0).id, record}, now));
    const auto losses = count(Counter::memberships_lost);
    forget();
    return losses;
  }
};

TEST_F(GroupRules, SilenceCountsFromTheStartOfTheLink) {
  Group group{membership, GroupRole::broadcast};
  group.set_silence(4s);
  group.start();
  grant_join(group);
  group.on_heard(now);
  EXPECT_LE(group.next_deadline(), now + 5s);
  group.on_lost();
  forget();
  group.start();
  grant_join(group);
  EXPECT_GE(group.next_deadline(), now + config.membership_check * 3 / 4)
      << "no other port has been heard on this link";
}

TEST_F(GroupRules, BroadcastAfterALongSilenceStartsAShortPause) {
  const Duration silence = config.silence_check;
  groups.on_broadcast_heard(Lid(3), now);
  const TimePoint heard = now;
  while (now < heard + 1h) {  // until the checks are as rare as they become
    now = groups.next_deadline();
    groups.tick(now);
    for (const auto& lookup : emitted<LookupRequest>()) {
      forget();
      (void)groups.on_response({lookup.id, SaFailure(wire::SaStatus::no_records)}, now);
    }
    for (const auto& join : emitted<JoinRequest>()) {
      forget();
      (void)groups.on_response({join.id, group_record(join.record.mgid)}, now);
    }
  }
  ASSERT_GT(groups.next_deadline(), now + 2 * silence);
  groups.on_broadcast_heard(Lid(3), now);
  EXPECT_LE(groups.next_deadline(), now + silence * 5 / 4);
}

TEST_F(GroupRules, AReportDoesNotEndTheBackOff) {
  Group group{membership, GroupRole::multicast, wire::multicast_gid(kAllNodes, kDefaultPKey)};
  group.start();
  for (int i = 0; i < 3; ++i) {
    refuse_join(group, wire::SaStatus::request_denied);
    if (i < 2) reach_deadline_of(group);
  }
  group.on_notice(group.mgid());
  refuse_join(group, wire::SaStatus::request_denied);
  EXPECT_GE(group.next_deadline() - now, config.join_backoff.after(4) * 3 / 4);
}

TEST_F(GroupRules, AGroupIsSettledOnceItHasBeenRefused) {
  Group group{membership, GroupRole::all_nodes, wire::multicast_gid(kAllNodes, kDefaultPKey)};
  EXPECT_FALSE(group.is_settled());
  group.start();
  EXPECT_FALSE(group.is_settled());
  refuse_join(group, wire::SaStatus::request_denied);
  EXPECT_TRUE(group.is_settled());
  reach_deadline_of(group);
  EXPECT_TRUE(group.is_settled()) << "while it is retried, too";
  grant_join(group);
  EXPECT_TRUE(group.is_settled());
}

TEST_F(GroupRules, OnlyADisclosedStateOfThisPortIsALoss) {
  wire::McMemberRecord found = group_record(wire::broadcast_gid(kDefaultPKey));
  found.port_gid = kOwn.gid;
  found.join_state = 0;
  EXPECT_EQ(losses_after_finding(found), 0U) << "the SA does not disclose it";
  found.join_state = wire::McMemberRecord::kSendOnlyNonMember;
  EXPECT_EQ(losses_after_finding(found), 1U);
  found.port_gid = kPeerHw.gid;
  EXPECT_EQ(losses_after_finding(found), 0U) << "of another port";
}

TEST_F(GroupRules, AGroupThatCannotBeUsedIsLeft) {
  Group group{membership, GroupRole::broadcast};
  group.start();
  handles.refuses = true;
  const auto join = take_join();
  EXPECT_FALSE(group.on_response({join.id, group_record(group.mgid())}, now));
  EXPECT_EQ(emitted<LeaveRequest>().size(), 1U);
  EXPECT_EQ(count(Counter::address_handle_refusals), 1U);
}

TEST_F(GroupRules, AGroupWithAnInvalidMtuIsNotJoined) {
  for (const std::uint8_t mtu : {std::uint8_t{0}, std::uint8_t{6}}) {
    Group group{membership, GroupRole::broadcast};
    group.start();
    wire::McMemberRecord record = group_record(group.mgid());
    record.mtu = mtu;
    EXPECT_FALSE(group.on_response({take_join().id, record}, now)) << int{mtu};
    EXPECT_EQ(group.record(), nullptr);
    forget();
  }
}

TEST_F(GroupRules, ChecksOfGroupsThatWereJoinedTogetherAreSpread) {
  constexpr std::uint32_t kGroups = 30;
  std::set<TimePoint> checks;
  for (std::uint32_t i = 0; i < kGroups; ++i) {
    Group group{membership, GroupRole::multicast,
                wire::multicast_gid(Ipv4Address(0xef000000 + i), kDefaultPKey)};
    group.start();
    grant_join(group);
    checks.insert(group.next_deadline());
    EXPECT_GE(group.next_deadline() - now, config.membership_check * 3 / 4);
    EXPECT_LE(group.next_deadline() - now, config.membership_check * 5 / 4);
  }
  EXPECT_GT(checks.size(), kGroups / 2);
}

TEST_F(GroupRules, AMissingGroupIsCreatedIfTheSaHasNoRecordOfIt) {
  config.scopes = {2};
  Group group{membership, GroupRole::broadcast};
  group.set_creation(group_record(Gid{}));
  group.start();
  refuse_join(group, wire::SaStatus::no_records);
  const auto creating = take_join();
  EXPECT_NE(creating.components & wire::McMemberRecord::kQKey, 0U);
}

TEST_F(GroupRules, JoinsAreCountedAndAreThoseOfAFullMember) {
  config.pkey = PKey(0x0012);  // of a limited member
  parameters = group_record(Gid{});
  parameters->pkey = config.pkey;
  parameters->proxy_join = true;
  Group group{membership, GroupRole::multicast, wire::multicast_gid(kAllNodes, config.pkey)};
  group.start();
  EXPECT_EQ(count(Counter::join_requests), 1U);
  const auto join = take_join();
  EXPECT_EQ(join.record.pkey, PKey(0x8012)) << "RFC 4391, 4: the full-membership P_Key";
  EXPECT_FALSE(
      group.on_response({join.id, SaFailure(wire::SaStatus::insufficient_components)}, now));
  EXPECT_EQ(count(Counter::join_requests), 1U);
  const auto creating = take_join();
  EXPECT_EQ(creating.record.pkey, PKey(0x8012));
  EXPECT_FALSE(creating.record.proxy_join);
  EXPECT_NE(creating.components & wire::McMemberRecord::kQKey, 0U);
}

TEST_F(GroupRules, DatagramsToAGroupHaveItsGlobalRoute) {
  Group group{membership, GroupRole::broadcast};
  group.start();
  wire::McMemberRecord record = group_record(group.mgid());
  record.flow_label = 0x12345;
  record.hop_limit = 9;
  record.traffic_class = 5;
  EXPECT_TRUE(group.on_response({take_join().id, record}, now));
  ASSERT_FALSE(handles.made.empty());
  const auto& route = handles.made.back().global;
  ASSERT_TRUE(route);
  EXPECT_EQ(route->flow_label, 0x12345U);
  EXPECT_EQ(route->hop_limit, 9);
  EXPECT_EQ(route->traffic_class, 5);
}

TEST_F(GroupRules, EachMembershipOfTheTableIsChecked) {
  groups.on_lost();
  forget();
  groups.join_broadcast(std::nullopt);
  EXPECT_EQ(groups.next_deadline(), kNever);
  const auto join = take_join();
  ASSERT_NE(groups.on_response({join.id, group_record(join.record.mgid)}, now), nullptr);
  EXPECT_LE(groups.next_deadline(), now + config.membership_check * 5 / 4);
}

TEST_F(GroupRules, AReportOfAnotherScopeEndsThePauseOfTheBroadcastGroup) {
  groups.on_lost();
  forget();
  groups.join_broadcast(std::nullopt);
  const auto join = take_join();
  (void)groups.on_response({join.id, SaFailure(wire::SaStatus::request_denied)}, now);
  forget();
  const Gid other = wire::broadcast_gid(kDefaultPKey, config.scopes.back());
  ASSERT_NE(other, groups.broadcast().mgid());
  groups.on_notice(other);
  EXPECT_EQ(take_join().record.mgid, other);
}

TEST_F(GroupRules, MissingSendOnlyGroupsAreRetriedAtDifferentTimes) {
  constexpr std::uint32_t kGroups = 30;
  std::set<TimePoint> retries;
  for (std::uint32_t i = 0; i < kGroups; ++i) {
    FailureCount failures;
    SendGroup group{membership, parking, failures,
                    wire::multicast_gid(Ipv4Address(0xef000000 + i), kDefaultPKey)};
    (void)group.on_packet(packet(), now);
    group.on_turn();
    (void)group.on_response(SaFailure(wire::SaStatus::request_invalid), now);
    retries.insert(group.next_deadline());
  }
  EXPECT_GT(retries.size(), kGroups / 2);
}

TEST_F(GroupRules, AWaitingSendOnlyGroupIsJoinedWhenAnotherOneHasBeen) {
  config.limits.group_requests = 1;
  for (const std::uint32_t number : {1U, 2U}) {
    const Gid mgid = wire::multicast_gid(Ipv4Address(0xef000000 + number), kDefaultPKey);
    send_groups.send(mgid, packet(), now);
  }
  const auto first = take_join();
  ASSERT_TRUE(send_groups.on_response({first.id, group_record(first.record.mgid, 0xc001)}, now));
  const auto joins = emitted<JoinRequest>();
  ASSERT_EQ(joins.size(), 1U);
  EXPECT_NE(joins[0].record.mgid, first.record.mgid);
}

class HostGroupRules : public LinkFixture {};

TEST_F(HostGroupRules, TheLinkDoesNotWaitForGroupsOfTheHost) {
  view.groups = {Ipv4Address(0xe1010101)};
  make();
  link->on_port(port, now);
  const Gid of_host = wire::multicast_gid(Ipv4Address(0xe1010101), kDefaultPKey);
  bool has_asked = false;
  for (auto joins = take<JoinRequest>(); !joins.empty(); joins = take<JoinRequest>()) {
    for (const JoinRequest& join : joins) {
      has_asked |= join.record.mgid == of_host;
      if (join.record.mgid == of_host) continue;
      link->on_response({join.id, group_record(join.record.mgid, mlid_of(join.record.mgid))}, now);
    }
  }
  EXPECT_TRUE(has_asked);
  EXPECT_EQ(link->state(), LinkState::up);
}

TEST_F(HostGroupRules, GroupsOfTheHostAreLimited) {
  config.limits.host_groups = 2;
  view.groups = {Ipv4Address(0xe1010101), Ipv4Address(0xe1010102), Ipv4Address(0xe1010103)};
  make();
  link->on_port(port, now);
  EXPECT_EQ(count(Counter::host_groups_left_out), 1U);
  std::set<Gid> joined;
  for (auto joins = take<JoinRequest>(); !joins.empty(); joins = take<JoinRequest>()) {
    for (const JoinRequest& join : joins) {
      joined.insert(join.record.mgid);
      link->on_response({join.id, group_record(join.record.mgid, mlid_of(join.record.mgid))}, now);
    }
  }
  EXPECT_TRUE(joined.contains(wire::multicast_gid(Ipv4Address(0xe1010102), kDefaultPKey)));
  EXPECT_FALSE(joined.contains(wire::multicast_gid(Ipv4Address(0xe1010103), kDefaultPKey)));
}

/// A program replaces its groups again and again.
TEST_F(HostGroupRules, JoinsOfTheHostAreLimited) {
  constexpr std::uint32_t kGroups = 4;
  std::uint32_t next = 0xe1010101;
  config.limits.host_groups = kGroups;
  config.limits.host_joins = 10;
  const auto replace_groups = [&] {
    view.groups.clear();
    while (view.groups.size() < kGroups) view.groups.emplace_back(Ipv4Address(next++));
    if (link) link->on_host_changed(view, now);
  };
  const auto joins = [&] {
    std::size_t count = 0;
    for (const auto& join : take<JoinRequest>()) {
      count += wire::ipv4_group(join.record.mgid) >= Ipv4Address(0xe1010101) ? 1U : 0U;
    }
    return count;
  };
  bring_up();
  (void)take<JoinRequest>();
  replace_groups();
  EXPECT_EQ(joins(), kGroups) << "as many at once";
  for (int i = 0; i < 10; ++i) replace_groups();
  EXPECT_EQ(joins(), 0U);
  tick_to(now + 250ms);
  EXPECT_EQ(joins(), 2U);
  for (int i = 0; i < 10; ++i) replace_groups();
  tick_to(now + 1s);
  EXPECT_EQ(joins(), 4U) << "then there is one for each that waits";
  tick_to(now + 1s);
  EXPECT_EQ(joins(), 0U);
}

/// The documents have many of them.
TEST(Config, HasTheTimesAndLimitsOfTheDocuments) {
  const Config config;
  const Ageing& ageing = config.ageing;
  EXPECT_THAT(
      (std::array{ageing.reachable, ageing.delay, ageing.retransmit, ageing.negative,
                  ageing.gateway_probe, ageing.idle, ageing.lock_time, ageing.announce_interval}),
      ElementsAre(30s, 5s, 1s, 5s, 30s, 20min, 1s, 2s));
  EXPECT_THAT((std::array{ageing.unicast_probes, ageing.broadcast_probes, ageing.announcements}),
              ElementsAre(3, 3, 2));
  EXPECT_THAT(
      (std::array{config.path.refresh, config.path.mismatch_interval, config.membership_check,
                  config.silence_check, config.silence_check_per_lid, config.send_only_idle,
                  config.missing_group, config.route_wait, config.route_wait_unknown}),
      ElementsAre(15min, 5s, 2min, 5s, 40ms, 4min, 5s, 5ms, 1s));
  EXPECT_THAT(config.scopes, ElementsAre(2, 5, 8, 14));
  EXPECT_TRUE(config.dhcp_rewrite && config.strict_arp);
  const Limits& limits = config.limits;
  EXPECT_THAT((std::array{limits.neighbours, limits.unresolved, limits.parked_bytes_per_neighbour,
                          limits.parked_first, limits.parked, limits.parked_bytes,
                          limits.parked_replies, limits.unrouted, limits.unrouted_bytes,
                          limits.pins, limits.paths, limits.path_requests, limits.pending}),
              ElementsAre(16384, 2048, 212'992, 16, 512, 3 << 20, 128, 64, 512 << 10, 65536, 16384,
                          16, 512));
  EXPECT_THAT((std::array{limits.host_groups, limits.station_groups, limits.send_groups,
                          limits.routed_groups, limits.group_requests, limits.announcements}),
              ElementsAre(480, 416, 1024, 1024, 16, 1024));
  EXPECT_EQ(limits.host_joins, 100U);
  EXPECT_THAT((std::array{limits.paths_per_source, limits.solicitations, limits.arp_reply_checks,
                          limits.station_requests, limits.icmp_errors}),
              ElementsAre(20, 1000, 500, 500, 1000));
}

TEST(IcmpRules, AMessageThatDoesNotFitIntoTheFrameIsNotSent) {
  FramePool small(2, 48);
  Config config;
  HostAddresses host;
  Output out;
  IcmpErrors icmp{config, host, out};
  for (FramePool* const pool : {&small}) {
    Frame frame = pool->take();
    frame.window(0, wire::kEncapsulationSize + 40);
    std::ranges::fill(frame.bytes(), std::uint8_t{0});
    wire::emit_encapsulation(wire::EtherType::ipv4, frame.bytes().data());
    const auto ip = frame.bytes().subspan(wire::kEncapsulationSize);
    ip[0] = 0x45;
    ip[3] = 40;
    ip[8] = 64;
    ip[9] = 17;
    std::ranges::copy(Ipv4Address(0x0a2c0001).bytes(), ip.begin() + 12);
    std::ranges::copy(Ipv4Address(0x0a2c0002).bytes(), ip.begin() + 16);
    icmp.unreachable(std::move(frame), Counter::drop_neighbour_failed, TimePoint{1h});
  }
  EXPECT_TRUE(out.to_host.empty());
  EXPECT_EQ(out.counters[Counter::unreachable_answers], 0U);
  EXPECT_EQ(out.counters[Counter::drop_neighbour_failed], 1U);
  EXPECT_EQ(small.available(), small.capacity());
}

}  // namespace
}  // namespace ipoib::link
