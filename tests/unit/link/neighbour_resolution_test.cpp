#include "link/neighbour_resolution.hpp"

#include <gmock/gmock.h>

#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// The neighbours of a link, in place of those of the fixture.
class NeighbourResolutionTest : public ObjectFixture {
 protected:
  NeighbourResolutionTest() { all.set_source({kOwnGid, 0}); }
  ~NeighbourResolutionTest() override { all.clear(); }

  /// Adds an entry with an address, whose path is not requested yet.
  void add(const IpAddress& address, const HwAddress& hardware = kPeerHw) {
    ASSERT_TRUE(all.set_permanent(address, hardware, now));
  }
  [[nodiscard]] std::vector<IpAddress> listed(std::size_t page_size) {
    std::vector<IpAddress> addresses;
    for (std::optional<NeighbourCursor> next = NeighbourCursor{}; next;) {
      const auto page = all.list(*next, page_size, now);
      EXPECT_LE(page.entries.size(), page_size);
      for (const auto& entry : page.entries) addresses.push_back(entry.address);
      next = page.next;
    }
    return addresses;
  }
  [[nodiscard]] static SavedNeighbour saved(std::uint32_t address) {
    return {.address = Ipv4Address(address),
            .hardware = kPeerHw,
            .path = {.attributes = {.dlid = Lid(7), .sl = {}}, .mtu = 2048},
            .reachable_for = 10s};
  }

  NeighbourResolution all{{config, kOwn, host, groups.broadcast(), multicast, handles, pool, pool,
                           parking, out, ids, random, *silent_logger()},
                          kHashKey};
};

TEST_F(NeighbourResolutionTest, AnAddressThatTheHostGetsIsNoNeighbourAnyMore) {
  const Ipv4Address broadcast(0x0a2d00ff);
  const Ipv4Address own(0x0a2d0001);
  for (const IpAddress& address : {IpAddress(own), IpAddress(broadcast), IpAddress(kPeer)}) {
    add(address);
  }
  view.addresses.push_back({own, 24});
  (void)host.update(view);
  all.on_host_changed();
  EXPECT_FALSE(all.has(own));
  EXPECT_FALSE(all.has(broadcast));
  EXPECT_TRUE(all.has(kPeer));
}

TEST_F(NeighbourResolutionTest, ListsEachNeighbourOnce) {
  const Ipv4Address pinned(0x0a2c0005);
  const Ipv4Address both(0x0a2c0006);
  add(kPeer);
  add(Ipv4Address(0x0a2c0003));
  ASSERT_TRUE(all.pin(pinned, kPeerHw.gid));
  ASSERT_EQ(all.restore(std::vector{saved(0x0a2c0006)}, now), 1U);
  ASSERT_TRUE(all.pin(both, kPeerHw.gid));
  for (std::size_t page_size : {1, 2, 10}) {
    EXPECT_THAT(listed(page_size),
                testing::UnorderedElementsAre(IpAddress(kPeer), IpAddress(Ipv4Address(0x0a2c0003)),
                                              IpAddress(pinned), IpAddress(both)));
  }
  EXPECT_EQ(all.get(pinned, now)->state, NeighbourState::pinned);
  EXPECT_EQ(all.get(both, now)->pinned, kPeerHw.gid);
  EXPECT_EQ(all.size(), 3U) << "a pin has no entry";
}

TEST_F(NeighbourResolutionTest, RefusesAnEntryThatHasNoRoomForItsPath) {
  config.limits.paths = 1;
  NeighbourResolution few{{config, kOwn, host, groups.broadcast(), multicast, handles, pool, pool,
                           parking, out, ids, random, *silent_logger()},
                          kHashKey};
  few.set_source({kOwnGid, 0});
  ASSERT_TRUE(few.set_permanent(kPeer, kPeerHw, now));
  EXPECT_EQ(few.set_permanent(Ipv4Address(0x0a2c0003), hardware(0x23, 3), now).error().message,
            "10.44.0.3: the table of paths is full: delete entries, or raise --neighbours");
  EXPECT_TRUE(few.set_permanent(Ipv4Address(0x0a2c0003), kPeerHw, now)) << "of the same port";
  few.clear();
}

TEST_F(NeighbourResolutionTest, RequestsThePathOfAnAddressThatIsUsed) {
  EXPECT_FALSE(all.use_path(kPeer, now)) << "no entry";
  add(kPeer);
  EXPECT_EQ(all.use_path(kPeer, now), PathTable::Condition::pending);
  const auto requests = path_requests();
  ASSERT_THAT(requests, SizeIs(1));
  const auto record = path_record(requests[0].record.dgid, 7);
  EXPECT_FALSE(all.on_response({wire::SaRequestId(9999), record}, now));
  EXPECT_TRUE(all.on_response({requests[0].id, record}, now));
  EXPECT_EQ(all.use_path(kPeer, now), PathTable::Condition::usable);
  all.invalidate_paths("a test");
  forget();
  (void)all.use_path(kPeer, now);
  EXPECT_THAT(path_requests(), SizeIs(1));
}

TEST_F(NeighbourResolutionTest, RepliesToRequestsAndProbes) {
  wire::Arp request;
  request.operation = wire::ArpOperation::request;
  request.sender_hardware = kPeerHw;
  request.target_protocol = Ipv4Address(0x0a2c0001);
  all.reply_to_arp(request, now);
  ASSERT_THAT(sent_arp(), SizeIs(1));
  EXPECT_EQ(sent_arp()[0].to, kMulticastQpn) << "a probe has no sender address";
  forget();
  request.sender_protocol = Ipv4Address(0x0a2cffff);
  view.addresses = {{Ipv4Address(0x0a2c0001), 16}};
  (void)host.update(view);
  all.reply_to_arp(request, now);
  EXPECT_THAT(out.sends, IsEmpty()) << "the sender is a broadcast address";
  EXPECT_FALSE(all.has(request.sender_protocol));
}

TEST_F(NeighbourResolutionTest, AnnouncesUntilTheLinkGoesDown) {
  all.announce(now);
  all.tick(now);
  EXPECT_THAT(sent_arp(), SizeIs(1));
  EXPECT_NE(all.next_deadline(), kNever);
  add(kPeer);
  EXPECT_EQ(all.restore(std::vector{saved(0x0a2c0005)}, now), 1U);
  all.go_down(now);
  EXPECT_EQ(all.get(Ipv4Address(0x0a2c0005), now)->state, NeighbourState::stale);
  forget();
  now += 1h;
  all.tick(now);
  EXPECT_THAT(sent_arp(), IsEmpty());
}

TEST_F(NeighbourResolutionTest, AChangeOfAPinIsReported) {
  ASSERT_TRUE(all.pin(kPeer, kPeerHw.gid));
  EXPECT_TRUE(out.changes.empty()) << "nobody watches";
  EXPECT_TRUE(all.remove(kPeer));
  out.changes.watch({.neighbours = true});
  ASSERT_TRUE(all.pin(kPeer, kPeerHw.gid));
  EXPECT_TRUE(all.remove(kPeer));
  EXPECT_FALSE(all.remove(kPeer));
  const auto page = out.changes.take(10, now);
  ASSERT_THAT(page.changes, SizeIs(2));
  EXPECT_EQ(std::get<NeighbourChange>(page.changes[0]).kind, NeighbourChange::Kind::created);
  EXPECT_EQ(std::get<NeighbourChange>(page.changes[1]).kind, NeighbourChange::Kind::removed);
}

TEST_F(NeighbourResolutionTest, RestoresOnlyWhatIsValidHere) {
  ASSERT_TRUE(all.pin(Ipv4Address(0x0a2c0007), port_gid(99)));
  auto other_index = saved(0x0a2c0008);
  other_index.path.attributes.hop_limit = 1;
  other_index.path.attributes.sgid_index = 5;
  auto no_mtu = saved(0x0a2c0009);
  no_mtu.path.mtu = 1;
  EXPECT_EQ(all.restore(std::vector{saved(0x0a2c0001), saved(0x0a2c0007), other_index, no_mtu,
                                    saved(0x0a2c000a)},
                        now),
            1U);
  EXPECT_THAT(listed(10),
              ElementsAre(IpAddress(Ipv4Address(0x0a2c000a)), IpAddress(Ipv4Address(0x0a2c0007))));
}

TEST_F(NeighbourResolutionTest, SaysWhyAnAddressCannotBeSet) {
  const Gid group = Gid::parse("ff12:401b:ffff::ffff:ffff").value();
  const auto nobody = Ipv4Address(0);
  const auto why_not_set = [&](const IpAddress& address, const HwAddress& hardware) {
    const auto set = all.set_permanent(address, hardware, now);
    return set ? std::string() : set.error().message;
  };
  const auto why_not_pinned = [&](const IpAddress& address, const Gid& gid) {
    const auto pinned = all.pin(address, gid);
    return pinned ? std::string() : pinned.error().message;
  };
  EXPECT_EQ(why_not_set(nobody, kPeerHw), "0.0.0.0: no neighbour can have this address");
  EXPECT_EQ(why_not_pinned(nobody, kPeerHw.gid), "0.0.0.0: no neighbour can have this address");
  EXPECT_THAT(why_not_set(kPeer, {0, Qpn(1), group}),
              HasSubstr(": not the address of a queue pair of a port"));
  EXPECT_EQ(why_not_pinned(kPeer, group), group.to_string() + ": not the GID of a port");
}

}  // namespace
}  // namespace ipoib::link
