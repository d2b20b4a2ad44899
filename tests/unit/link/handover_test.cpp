// A link saves its cache, and another one takes it over.
#include <gmock/gmock.h>

#include <set>

#include "tests/unit/link/link_fixture.hpp"
#include "wire/mgid.hpp"

namespace ipoib::link {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class HandoverTest : public LinkFixture {
 protected:
  static constexpr Ipv4Address kGroup{0xef010203};

  [[nodiscard]] SavedPage saved() const { return link->save({}, 100, now); }
  /// The next daemon's link.
  void succeed() {
    link->shut_down(now);
    link.reset();
    bring_up();
  }
  [[nodiscard]] static SavedNeighbour neighbour(IpAddress address = kPeer) {
    return {.address = address,
            .hardware = kPeerHw,
            .path = {.attributes = {.dlid = Lid(7), .sl = {}}, .mtu = 2048},
            .reachable_for = 10s};
  }
  [[nodiscard]] std::size_t restore(std::vector<SavedNeighbour> neighbours) {
    SavedPage page;
    page.neighbours = std::move(neighbours);
    return link->restore(page, now);
  }
  [[nodiscard]] static Gid group() { return wire::multicast_gid(kGroup, kDefaultPKey); }
};

TEST_F(HandoverTest, PacketsGoOnAtOnce) {
  bring_up();
  resolve_peer();
  send(kPeer);
  const auto uses = link->get(kPeer, now)->uses;
  const auto page = saved();
  ASSERT_THAT(page.neighbours, SizeIs(1));
  EXPECT_EQ(page.mtu, 2044U);
  EXPECT_FALSE(page.next);
  succeed();
  EXPECT_EQ(link->restore(page, now), 1U);
  EXPECT_THAT(link->sends(), IsEmpty()) << "peers would learn the new queue pair";
  EXPECT_THAT(link->events(), IsEmpty());
  EXPECT_EQ(state_of(kPeer), "reachable");
  EXPECT_EQ(link->get(kPeer, now)->uses, uses);
  send(kPeer);
  ASSERT_THAT(link->sends(), SizeIs(1)) << "neither ARP nor the SA is needed";
  EXPECT_EQ(link->sends()[0].qpn, kPeerHw.qpn);
  EXPECT_THAT(emitted<PathRequest>(), SizeIs(1)) << "the path may be outdated";
}

TEST_F(HandoverTest, AReachableNeighbourStaysSoNoLongerThanBefore) {
  bring_up();
  auto long_ago = neighbour();
  long_ago.reachable_for = 2s;
  EXPECT_EQ(restore({long_ago}), 1U);
  tick_to(now + 1900ms);
  EXPECT_EQ(state_of(kPeer), "reachable");
  tick_to(now + 200ms);
  EXPECT_EQ(state_of(kPeer), "stale");
  auto for_ever = neighbour(Ipv4Address(0x0a2c0003));
  for_ever.reachable_for = 24h;
  EXPECT_EQ(restore({for_ever}), 1U);
  tick_to(now + 46s);
  EXPECT_EQ(state_of(Ipv4Address(0x0a2c0003)), "stale");
}

TEST_F(HandoverTest, ANeighbourThatWasBeingProbedIsStale) {
  bring_up();
  resolve_peer();
  tick_to(now + 46s);
  send(kPeer);
  tick_to(now + 6s);
  ASSERT_EQ(state_of(kPeer), "probing");
  const auto page = saved();
  ASSERT_THAT(page.neighbours, SizeIs(1));
  EXPECT_EQ(page.neighbours[0].reachable_for, std::nullopt);
  EXPECT_EQ(page.neighbours[0].used, 6s);
  succeed();
  EXPECT_EQ(link->restore(page, now), 1U);
  EXPECT_EQ(state_of(kPeer), "stale");
  EXPECT_EQ(link->get(kPeer, now)->used, 6s);
  EXPECT_EQ(link->get(kPeer, now)->path->lifetime, kUnknownLifetime);
}

TEST_F(HandoverTest, SavesOnlyNeighboursWithAPath) {
  bring_up();
  send(kPeer);
  EXPECT_THAT(saved().neighbours, IsEmpty()) << "incomplete";
  receive_arp(arp_from_peer(wire::ArpOperation::reply));
  EXPECT_THAT(saved().neighbours, IsEmpty()) << "resolving";
  grant_paths();
  EXPECT_THAT(saved().neighbours, SizeIs(1));
}

TEST_F(HandoverTest, SavesInPages) {
  bring_up();
  std::vector<SavedNeighbour> many;
  for (std::uint32_t i = 2; i < 12; ++i) many.push_back(neighbour(Ipv4Address(0x0a2c0000 + i)));
  ASSERT_EQ(restore(many), 10U);
  std::set<IpAddress> found;
  std::optional<NeighbourCursor> next = NeighbourCursor{};
  int pages = 0;
  while (next) {
    ASSERT_LT(++pages, 20);
    const auto page = link->save(*next, 3, now);
    EXPECT_LE(page.neighbours.size(), 3U);
    for (const auto& each : page.neighbours) found.insert(each.address);
    next = page.next;
  }
  EXPECT_THAT(found, SizeIs(10));
}

TEST_F(HandoverTest, NothingIsRestoredWhileTheLinkIsDown) {
  make();
  EXPECT_EQ(restore({neighbour()}), 0U);
  EXPECT_EQ(link->neighbour_count(), 0U);
}

TEST_F(HandoverTest, InvalidNeighboursAreIgnored) {
  bring_up();
  const auto with = [](auto&& change) {
    auto one = neighbour();
    change(one);
    return one;
  };
  using N = SavedNeighbour;
  const std::vector<N> invalid{
      with([](N& n) { n.address = Ipv4Address(0xe0000001); }),
      with([](N& n) { n.address = kOwnIp; }),
      with([](N& n) { n.hardware.gid = Gid(); }),
      with([](N& n) { n.hardware.gid = group(); }),
      with([](N& n) { n.hardware.qpn = kMulticastQpn; }),
      with([](N& n) { n.path.mtu = 1000; }),
      with([](N& n) { n.path.attributes.sl = ServiceLevel(16); }),
      with([](N& n) { n.path.attributes.flow_label = 1U << 20; }),
      with([](N& n) { n.path.attributes.source_path_bits = 1; }),
      with([](N& n) { n.path.attributes.hop_limit = 1, n.path.attributes.sgid_index = 1; }),
  };
  for (std::size_t i = 0; i < invalid.size(); ++i) EXPECT_EQ(restore({invalid[i]}), 0U) << i;
  EXPECT_EQ(restore({neighbour()}), 1U);
}

TEST_F(HandoverTest, APortThatNeedsGlobalRoutesTakesNoPathWithoutOne) {
  port.grh_required = true;
  bring_up();
  EXPECT_EQ(restore({neighbour()}), 0U);
}

TEST_F(HandoverTest, PinsAndPermanentEntriesTakePrecedence) {
  bring_up();
  ASSERT_TRUE(link->pin(kPeer, port_gid(9)));
  EXPECT_EQ(restore({neighbour()}), 0U);
  ASSERT_TRUE(link->set_permanent(kPeer, hardware(0x44, 9), now));
  EXPECT_EQ(restore({neighbour()}), 0U);
  EXPECT_EQ(link->get(kPeer, now)->hardware, hardware(0x44, 9));
}

TEST_F(HandoverTest, APermanentEntryHasItsPathAtOnce) {
  bring_up();
  ASSERT_TRUE(link->set_permanent(kPeer, kPeerHw, now));
  EXPECT_EQ(restore({neighbour()}), 0U) << "no new entry";
  send(kPeer);
  EXPECT_THAT(link->sends(), SizeIs(1));
}

TEST_F(HandoverTest, EvictsNothing) {
  config.limits.neighbours = 16;
  config.limits.paths = 17;
  bring_up();
  std::vector<SavedNeighbour> many;
  for (std::uint32_t i = 2; i < 40; ++i) many.push_back(neighbour(Ipv4Address(0x0a2c0000 + i)));
  EXPECT_EQ(restore(many), 16U);
  EXPECT_EQ(count(Counter::neighbours_evicted), 0U);
}

TEST_F(HandoverTest, SendOnlyGroupsAreJoinedBeforeTheFirstPacket) {
  bring_up();
  send(kGroup);
  grant_joins();
  const auto page = saved();
  EXPECT_THAT(page.send_groups, ElementsAre(group()));
  EXPECT_THAT(link->save(NeighbourCursor{1}, 100, now).send_groups, IsEmpty()) << "only once";
  succeed();
  EXPECT_TRUE(link->is_settled());
  EXPECT_EQ(link->restore(page, now), 0U);
  EXPECT_FALSE(link->is_settled());
  const auto joins = emitted<JoinRequest>();
  ASSERT_THAT(joins, SizeIs(1));
  EXPECT_EQ(joins[0].record.mgid, group());
  EXPECT_EQ(joins[0].record.join_state, wire::McMemberRecord::kSendOnlyNonMember);
  grant_joins();
  EXPECT_TRUE(link->is_settled());
  forget();
  send(kGroup);
  EXPECT_THAT(link->sends(), SizeIs(1));
}

TEST_F(HandoverTest, GroupsOfOtherLinksAreIgnored) {
  config.limits.send_groups = 1;
  bring_up();
  SavedPage page;
  page.send_groups = {wire::multicast_gid(kGroup, PKey(0x8001)),
                      wire::multicast_gid(kGroup, kDefaultPKey, 5),
                      *Gid::parse("ff12:a01b:ffff::16"), *Gid::parse("ff02:401b:ffff::16")};
  EXPECT_EQ(link->restore(page, now), 0U);
  EXPECT_THAT(emitted<JoinRequest>(), IsEmpty());
  page.send_groups = {group(), wire::multicast_gid(Ipv4Address(0xef010204), kDefaultPKey)};
  (void)link->restore(page, now);
  EXPECT_THAT(emitted<JoinRequest>(), SizeIs(1)) << "none is evicted";
}

TEST_F(HandoverTest, IsSettledWhenItsGroupsAreJoinedOrRefused) {
  view.groups = {kGroup};
  make();
  EXPECT_TRUE(link->is_settled()) << "the port is down";
  link->on_port(port, now);
  EXPECT_FALSE(link->is_settled());
  auto joins = take<JoinRequest>();
  link->on_response({joins.at(0).id, group_record(broadcast())}, now);
  joins = take<JoinRequest>();
  ASSERT_THAT(joins, SizeIs(3)) << "the all-nodes groups, and that of the host";
  for (const auto& join : joins) {
    EXPECT_FALSE(link->is_settled());
    if (join.record.mgid == group()) continue;
    link->on_response({join.id, group_record(join.record.mgid, 0xc001)}, now);
  }
  EXPECT_EQ(link->state(), LinkState::up);
  EXPECT_FALSE(link->is_settled()) << "the host would miss packets";
  forget();
  for (const auto& join : joins) {
    if (join.record.mgid == group())
      link->on_response({join.id, SaFailure(wire::SaStatus::no_resources)}, now);
  }
  EXPECT_TRUE(link->is_settled()) << "it is tried again later";
}

TEST_F(HandoverTest, AnnouncesItsAddressesOnRequest) {
  make();
  link->announce(now);
  EXPECT_EQ(link->next_deadline(), kNever) << "it is down";
  link.reset();
  bring_up();
  tick_to(now + 10s);
  forget();
  link->announce(now);
  link->tick(now);
  ASSERT_THAT(sent_arp(), SizeIs(1));
  EXPECT_EQ(sent_arp()[0].sender_hardware.qpn, kOwnQpn);
}

}  // namespace
}  // namespace ipoib::link
