// Somebody knows the secret key of the hash tables, and fills the two places of an address.
#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {
namespace {

class IndexCollisions : public ObjectFixture {
 protected:
  static constexpr std::size_t kPlaces = 2 * cache::Index::kWords;

  /// `count` keys, made of numbers, that have the same two buckets in a table of that limit.
  template <class Make>
  [[nodiscard]] static auto colliding(std::size_t limit, std::size_t count, Make&& make) {
    const cache::Index index(limit);
    std::vector<decltype(make(0U))> keys;
    for (std::uint32_t i = 1; keys.size() < count; ++i) {
      const std::uint64_t hash = KeyedHash(kHashKey)(make(i));
      if (index.first(hash) == 7 && index.second(hash) == 11) keys.push_back(make(i));
    }
    return keys;
  }
  [[nodiscard]] static std::vector<IpAddress> colliding_neighbours(std::size_t count) {
    return colliding(kLimit, count,
                     [](std::uint32_t i) { return IpAddress(Ipv4Address(0x0a2c'0000 + i)); });
  }

  static constexpr std::size_t kLimit = 256;
  Config small = [] {
    Config made;
    made.limits.neighbours = made.limits.paths = kLimit;
    return made;
  }();
  PathTable few_paths{{small, handles, out, ids, random, *silent_logger()}, kHashKey};
  NeighbourTable few{
      {small, few_paths, solicitor, icmp, pool, out, parking, statistics, random, *silent_logger()},
      kHashKey};
};

TEST_F(IndexCollisions, NewNeighbourEvictsAnUnusedOneInItsPlace) {
  few_paths.set_source({kOwnGid, 0});
  const auto keys = colliding_neighbours(kPlaces + 1);
  const PathRef path = few_paths.acquire(kPeerHw.gid);
  (void)few_paths.use(*path, now);
  (void)few_paths.on_response({path_requests().at(0).id, path_record(kPeerHw.gid, 7)}, now);
  for (std::size_t i = 0; i < kPlaces; ++i) {
    Neighbour* const made = few.create(keys[i], Purpose::packet);
    ASSERT_NE(made, nullptr) << i;
    few.address(*made, kPeerHw, i == 5 ? Evidence::unconfirmed : Evidence::confirmed, now);
    if (i != 5) few.packet(*made, packet(), now);
  }
  EXPECT_EQ(count(Counter::index_collisions), 0U);
  Neighbour* const made = few.create(keys.back(), Purpose::packet);
  ASSERT_NE(made, nullptr);
  few.address(*made, kPeerHw, Evidence::confirmed, now);
  EXPECT_EQ(count(Counter::index_collisions), 1U);
  EXPECT_EQ(count(Counter::neighbours_evicted), 1U);
  EXPECT_EQ(few.find(keys[5]), nullptr) << "the only one that the host has not used";
  EXPECT_EQ(few.size(), kPlaces);
  few.clear(Counter::drop_link_down);
}

TEST_F(IndexCollisions, NewNeighbourIsRefusedIfItsPlaceIsFullOfPermanentOnes) {
  const auto keys = colliding_neighbours(kPlaces + 1);
  for (std::size_t i = 0; i < kPlaces; ++i) {
    Neighbour* const made = few.create(keys[i], Purpose::packet);
    ASSERT_NE(made, nullptr) << i;
    few.set_permanent(*made, {kPeerHw, few_paths.acquire(kPeerHw.gid)}, now);
  }
  EXPECT_EQ(few.create(keys.back(), Purpose::packet), nullptr);
  EXPECT_EQ(count(Counter::index_collisions), 1U);
  EXPECT_EQ(count(Counter::neighbours_evicted), 0U);
  EXPECT_EQ(few.size(), kPlaces);
  const Ipv4Address other(0x0a2d'0001);
  Neighbour* const made = few.create(other, Purpose::packet);
  ASSERT_NE(made, nullptr) << "another address has another place";
  few.set_permanent(*made, {kPeerHw, few_paths.acquire(kPeerHw.gid)}, now);
  few.clear(Counter::drop_link_down);
}

/// Its frames wait for the address, so it is not evicted, although all others were used later.
TEST_F(IndexCollisions, NewNeighbourDoesNotEvictOneWithParkedFrames) {
  few_paths.set_source({kOwnGid, 0});
  const auto keys = colliding_neighbours(kPlaces + 1);
  const PathRef path = few_paths.acquire(kPeerHw.gid);
  (void)few_paths.use(*path, now);
  (void)few_paths.on_response({path_requests().at(0).id, path_record(kPeerHw.gid, 7)}, now);
  for (std::size_t i = 0; i < kPlaces; ++i) {
    Neighbour* const made = few.create(keys[i], Purpose::packet);
    ASSERT_NE(made, nullptr) << i;
    few.packet(*made, packet(), now);
    few.address(*made, i == 0 ? kNewPeerHw : kPeerHw, Evidence::confirmed, now);
    now += 1s;
  }
  ASSERT_EQ(few.find(keys[0])->state_name(), NeighbourState::resolving);
  Neighbour* const made = few.create(keys.back(), Purpose::packet);
  ASSERT_NE(made, nullptr);
  few.address(*made, kPeerHw, Evidence::confirmed, now);
  EXPECT_NE(few.find(keys[0]), nullptr);
  EXPECT_EQ(few.find(keys[1]), nullptr);
  few.clear(Counter::drop_link_down);
}

TEST_F(IndexCollisions, NewPathDoesNotEvictOneThatWaitsForItsTurn) {
  small.limits.path_requests = 1;
  few_paths.set_source({kOwnGid, 0});
  const auto keys =
      colliding(kLimit, kPlaces + 1, [](std::uint32_t i) { return port_gid(0x1000 + i); });
  std::vector<PathRef> users;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    users.push_back(few_paths.acquire(keys[i]));
    ASSERT_EQ(few_paths.use(*users.back(), now), PathTable::Condition::pending) << i;
  }
  ASSERT_EQ(path_requests().size(), 1U);
  EXPECT_FALSE(few_paths.acquire(keys.back()));
  EXPECT_EQ(count(Counter::paths_evicted), 0U);
  for (const Gid& key : std::span(keys).first(kPlaces)) EXPECT_NE(few_paths.find(key), nullptr);
}

TEST_F(IndexCollisions, NewPathEvictsAnUnusedOneInItsPlace) {
  few_paths.set_source({kOwnGid, 0});
  const auto keys =
      colliding(kLimit, kPlaces + 1, [](std::uint32_t i) { return port_gid(0x1000 + i); });
  std::vector<PathRef> users;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    users.push_back(few_paths.acquire(keys[i]));
    ASSERT_TRUE(users.back()) << i;
  }
  EXPECT_FALSE(few_paths.acquire(keys.back())) << "all are in use";
  (void)few_paths.use(*users[3], now);
  (void)few_paths.on_response({path_requests().at(0).id, path_record(keys[3], 7)}, now);
  users[3] = PathRef();
  ASSERT_NE(few_paths.find(keys[3]), nullptr) << "kept for the next user";
  users[3] = few_paths.acquire(keys.back());
  EXPECT_TRUE(users[3]);
  EXPECT_EQ(few_paths.find(keys[3]), nullptr);
  EXPECT_EQ(count(Counter::paths_evicted), 1U);
  EXPECT_EQ(count(Counter::index_collisions), 2U);
}

}  // namespace
}  // namespace ipoib::link
