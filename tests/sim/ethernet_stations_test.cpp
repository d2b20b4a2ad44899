// Stations behind bridges on several hosts, and peers with a TUN, which see ordinary IPoIB hosts.
#include <algorithm>

#include "tests/sim/bridge.hpp"
#include "tests/sim/sim_fixture.hpp"

namespace ipoib::sim {
namespace {

class StationsSim : public Sim {
 protected:
  /// Hosts with a bridge and so many stations each; station i of host h is 10.44.h.i.
  void bridges(std::uint32_t count, std::uint32_t stations_each, std::size_t limit = 64) {
    for (std::uint32_t h = 1; h <= count; ++h) {
      HostOptions chosen = options(h);
      chosen.mac = MacAddress(0x0200'0000'0000 + h);
      chosen.stations = limit;
      add(chosen);
      bridge_of.push_back(std::make_unique<Bridge>(*hosts.back()));
      for (std::uint32_t i = 1; i <= stations_each; ++i) {
        stations.push_back(std::make_unique<Station>(MacAddress(0x0200'0001'0000 + 256 * h + i),
                                                     address_of(256 * h + i)));
        bridge_of.back()->plug(*stations.back());
      }
    }
    bring_up();
    run(5s);
  }
  [[nodiscard]] Station& station(std::uint32_t host, std::uint32_t number) {
    const Ipv4Address ip = address_of(256 * host + number);
    return **std::ranges::find(stations, ip, [](const auto& one) { return one->ip(); });
  }
  void turn_bridges() {
    for (const auto& bridge : bridge_of) bridge->turn();
  }
  /// Runs until the condition holds; the bridges forward what arrives.
  [[nodiscard]] bool until(const std::function<bool()>& holds, Duration limit) {
    const TimePoint end = world.now() + limit;
    while (!holds()) {
      if (world.now() >= end) return false;
      world.run_for(1ms);
      turn_bridges();
    }
    return true;
  }
  void run(Duration time) {
    (void)until([] { return false; }, time);
  }
  [[nodiscard]] static bool has_got(const Station& station, Ipv4Address from,
                                    std::uint32_t number) {
    const std::pair<IpAddress, std::uint32_t> wanted(from, number);
    return std::ranges::find(station.received, wanted) != station.received.end();
  }
  /// Sends again and again, as a program does.
  [[nodiscard]] bool reaches(Station& from, Station& to, Duration limit = 10s) {
    const std::uint32_t number = ++number_;
    const TimePoint end = world.now() + limit;
    while (world.now() < end) {
      from.send(to.ip(), number);
      if (until([&] { return has_got(to, from.ip(), number); }, 500ms)) return true;
      if (from.cache.contains(to.ip())) from.request(to.ip());
    }
    return false;
  }
  /// Sends to a station every 10 ms.
  struct Stream {
    IpAddress from;
    std::function<void(std::uint32_t)> send;
  };
  [[nodiscard]] static Stream stream(Station& from, const Station& to) {
    return {from.ip(), [&](std::uint32_t number) { from.send(to.ip(), number); }};
  }
  [[nodiscard]] static Stream stream(Host& from, const Station& to) {
    return {from.ip(), [&](std::uint32_t number) { from.send(to.ip(), number); }};
  }
  /// By IPv6.
  [[nodiscard]] static Stream stream6(Station& from, const Station& to) {
    return {*from.ip6, [&](std::uint32_t number) { from.send(*to.ip6, number); }};
  }
  /// Lets the streams run for this time. Returns for each the longest time in which nothing of it
  /// has arrived at the station.
  [[nodiscard]] std::vector<Duration> silence(Station& to, const std::vector<Stream>& streams,
                                              Duration time) {
    std::vector<Duration> longest(streams.size());
    std::vector<TimePoint> last(streams.size(), world.now());
    const TimePoint end = world.now() + time;
    while (world.now() < end) {
      to.received.clear();
      for (const Stream& one : streams) one.send(++number_);
      run(10ms);
      for (std::size_t i = 0; i < streams.size(); ++i) {
        longest[i] = std::max(longest[i], world.now() - last[i]);
        const bool arrives = std::ranges::any_of(
            to.received, [&](const auto& got) { return got.first == streams[i].from; });
        if (arrives) last[i] = world.now();
      }
    }
    return longest;
  }
  void move(Station& station, std::size_t to) {
    station.bridge->unplug(station);
    bridge_of.at(to)->plug(station);
  }
  [[nodiscard]] static const ethernet::StationTable& table_of(const Host& host) {
    return host.ethernet()->stations()->table();
  }
  [[nodiscard]] static std::uint64_t events(const Host& host, ethernet::StationEvent::Kind kind) {
    return table_of(host).event_counts()[static_cast<std::size_t>(kind)];
  }

  std::vector<std::unique_ptr<Bridge>> bridge_of;
  std::vector<std::unique_ptr<Station>> stations;

 private:
  std::uint32_t number_ = 0;
};

using Kind = ethernet::StationEvent::Kind;

TEST_F(StationsSim, AllPairsOfStationsReachEachOther) {
  bridges(4, 3);
  for (const auto& from : stations) {
    for (const auto& to : stations) {
      if (from == to) continue;
      ASSERT_TRUE(reaches(*from, *to));
    }
  }
  for (const auto& one : stations) EXPECT_TRUE(one->conflicts.empty());
  for (const auto& host : hosts) EXPECT_EQ(events(*host, Kind::appeared), 3U);
}

TEST_F(StationsSim, StationsAndAPeerWithATunReachEachOther) {
  bridges(1, 2);
  Host& peer = add(9);
  bring_up();
  run(3s);
  Station& one = station(1, 1);
  // The station has said nothing yet.
  peer.send(one.ip(), 7);
  ASSERT_TRUE(until([&] { return has_got(one, peer.ip(), 7); }, 5s));
  one.send(peer.ip(), 8);
  ASSERT_TRUE(until([&] { return peer.received_from(one.ip()) == 1; }, 5s));
  EXPECT_EQ(peer.link().get(one.ip(), world.now())->hardware, a().hardware());
}

TEST_F(StationsSim, NeighboursOfStationsThatSendRemainKnown) {
  bridges(2, 1);
  Host& peer = add(9);
  bring_up();
  Station& one = station(1, 1);
  Station& far = station(2, 1);
  for (Host* const bridge : {&a(), &b()}) bridge->remove_addresses();
  ASSERT_TRUE(reaches(one, far));
  one.send(peer.ip(), 1);
  ASSERT_TRUE(until([&] { return peer.received_from(one.ip()) > 0; }, 5s));
  const auto broadcasts = [&] { return a().count(link::Counter::arp_requests_broadcast); };
  const std::uint64_t before = broadcasts();
  for (std::uint32_t second = 0; second < 120; ++second) {
    one.send(far.ip(), 1000 + second);
    one.send(peer.ip(), 1000 + second);
    run(1s);
  }
  EXPECT_EQ(broadcasts(), before) << "they answer when they are asked";
  EXPECT_EQ(peer.received_from(one.ip()), 121U);
}

TEST_F(StationsSim, AnAnswerIsThatOfTheStation) {
  bridges(1, 1);
  Host& peer = add(9);
  bring_up();
  Station& one = station(1, 1);
  one.announce();
  run(5s);  // until it has been announced twice
  one.answers = false;
  peer.send(one.ip(), 7);
  EXPECT_FALSE(until([&] { return has_got(one, peer.ip(), 7); }, 3s)) << "not from the cache";
}

TEST_F(StationsSim, AStationMovesToAnotherBridge) {
  bridges(2, 2);
  Host& peer = add(9);
  bring_up();
  Station& mover = station(1, 1);
  Station& stays = station(1, 2);
  Station& far = station(2, 1);
  for (Station* const other : {&stays, &far}) {
    ASSERT_TRUE(reaches(*other, mover));
    ASSERT_TRUE(reaches(mover, *other));
  }
  peer.send(mover.ip(), 100);
  ASSERT_TRUE(until([&] { return has_got(mover, peer.ip(), 100); }, 5s));

  bridge_of[0]->unplug(mover);
  bridge_of[1]->plug(mover);
  mover.announce();
  ASSERT_TRUE(until([&] { return events(a(), Kind::moved_out) == 1; }, 1s));
  // Without another request: their caches were corrected.
  stays.send(mover.ip(), 200);
  EXPECT_TRUE(until([&] { return has_got(mover, stays.ip(), 200); }, 1s));
  far.send(mover.ip(), 201);
  EXPECT_TRUE(until([&] { return has_got(mover, far.ip(), 201); }, 1s));
  peer.send(mover.ip(), 202);
  EXPECT_TRUE(until([&] { return has_got(mover, peer.ip(), 202); }, 1s));
  EXPECT_EQ(events(a(), Kind::duplicate) + events(b(), Kind::duplicate), 0U);
}

/// A virtual machine that is moved, and says nothing.
class SilentMove : public StationsSim, public ::testing::WithParamInterface<bool> {};

TEST_P(SilentMove, IsFoundByTheHostThatItHasLeft) {
  bridges(3, 2);
  Host& peer = add(9);
  bring_up();
  Station& mover = station(1, 1);
  mover.echoes = GetParam();
  const std::vector<Stream> streams{stream(station(1, 2), mover), stream(station(2, 1), mover),
                                    stream(station(3, 1), mover), stream(peer, mover)};
  (void)silence(mover, streams, 3s);
  const std::array kNames{"behind host 0", "behind host 1", "behind host 2", "a host with a TUN"};
  for (const std::size_t to : {1U, 2U, 0U}) {
    move(mover, to);
    const auto silent = silence(mover, streams, 5s);
    for (std::size_t i = 0; i < silent.size(); ++i) {
      EXPECT_LT(silent[i] / 1ms, 1000) << kNames[i] << ", move to " << to;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(StationsSim, SilentMove, ::testing::Bool());

/// As QEMU announces a virtual machine after its migration.
TEST_F(StationsSim, AMoveThatIsAnnouncedByRarpIsFoundAtOnce) {
  bridges(2, 2);
  Host& peer = add(9);
  bring_up();
  Station& mover = station(1, 1);
  const std::vector<Stream> streams{stream(station(1, 2), mover), stream(station(2, 1), mover),
                                    stream(peer, mover)};
  (void)silence(mover, streams, 3s);
  for (const std::size_t to : {1U, 0U, 1U}) {
    move(mover, to);
    mover.announce_by_rarp();
    const auto silent = silence(mover, streams, 3s);
    const std::array kNames{"behind host 0", "behind host 1", "a host with a TUN"};
    for (std::size_t i = 0; i < silent.size(); ++i) {
      EXPECT_LT(silent[i] / 1ms, i == 1 - to ? 500 : 200) << kNames[i] << ", move to " << to;
    }
  }
}

/// The station that moves sends to the MACs that it knows from there.
TEST_F(StationsSim, AStationMovesWithItsArpCache) {
  bridges(3, 2);
  Host& peer = add(9);
  bring_up();
  Station& mover = station(1, 1);
  std::vector<Station*> others{&station(1, 2), &station(2, 1), &station(3, 1)};
  for (Station* const other : others) ASSERT_TRUE(reaches(mover, *other));
  ASSERT_TRUE(until(
      [&, n = 0U]() mutable {
        mover.send(peer.ip(), ++n);
        return peer.received_from(mover.ip()) > 0;
      },
      5s));
  for (const bool is_announced : {true, false}) {
    for (const std::size_t to : {1U, 2U, 0U}) {
      move(mover, to);
      if (is_announced) mover.announce();
      const auto before = peer.received_from(mover.ip());
      for (Station* const other : others) {
        mover.received.clear();
        const auto silent = silence(*other, {stream(mover, *other)}, 2s);
        EXPECT_LT(silent[0] / 1ms, 1000) << other->ip().to_string() << ", move to " << to;
      }
      mover.send(peer.ip(), 1);
      EXPECT_TRUE(until([&] { return peer.received_from(mover.ip()) > before; }, 1s));
    }
  }
}

/// Announced by an unsolicited advertisement, or not at all.
class MoveByIpv6 : public StationsSim, public ::testing::WithParamInterface<bool> {};

TEST_P(MoveByIpv6, IsSilentForLessThanASecond) {
  bridges(3, 2);
  for (const auto& one : stations) {
    Ipv6Address::Bytes bytes{0xfd, 0x44};
    std::ranges::copy(one->ip().bytes(), bytes.end() - Ipv4Address::kSize);
    one->ip6 = Ipv6Address(bytes);
    one->announce_by_ipv6();
  }
  run(2s);
  Station& mover = station(1, 1);
  const std::vector<Stream> streams{stream6(station(1, 2), mover), stream6(station(2, 1), mover),
                                    stream6(station(3, 1), mover)};
  (void)silence(mover, streams, 3s);
  Station& other = station(2, 2);
  (void)silence(other, {stream6(mover, other)}, 2s);
  for (const std::size_t to : {1U, 2U, 0U}) {
    move(mover, to);
    if (GetParam()) mover.announce_by_ipv6();
    const auto silent = silence(mover, streams, 5s);
    for (std::size_t i = 0; i < silent.size(); ++i) {
      EXPECT_LT(silent[i] / 1ms, 1000) << "behind host " << i << ", move to " << to;
    }
    const auto from_it = silence(other, {stream6(mover, other)}, 2s);
    EXPECT_LT(from_it[0] / 1ms, 1000) << "from it, move to " << to;
  }
}
INSTANTIATE_TEST_SUITE_P(StationsSim, MoveByIpv6, ::testing::Bool());

/// The host is a station itself in a VLAN, and has its own addresses nowhere else. Its bond sends a
/// gratuitous ARP request, and goes on with its cache.
TEST_F(StationsSim, ABondInAVlanFailsOver) {
  bridges(3, 1);
  Host& peer = add(9);
  bring_up();
  for (Host* const host : {&a(), &b()}) host->remove_addresses();
  Station& bond = station(1, 1);
  Station& far = station(3, 1);
  ASSERT_TRUE(reaches(bond, far));
  bond.send(peer.ip(), 1);
  const std::vector<Stream> streams{stream(far, bond), stream(peer, bond)};
  (void)silence(bond, streams, 3s);
  for (const std::size_t to : {1U, 0U, 1U}) {
    move(bond, to);
    bond.announce();
    const auto silent = silence(bond, streams, 2s);
    EXPECT_LT(silent[0] / 1ms, 1000) << "a station, to " << to;
    EXPECT_LT(silent[1] / 1ms, 1000) << "a host with a TUN, to " << to;
    move(bond, 1 - to);
    bond.announce();
    EXPECT_LT(silence(far, {stream(bond, far)}, 2s)[0] / 1ms, 1000) << "from it, to " << 1 - to;
    const auto before = peer.received_from(bond.ip());
    bond.send(peer.ip(), 2);
    EXPECT_TRUE(until([&] { return peer.received_from(bond.ip()) > before; }, 1s));
    move(bond, to);
    bond.announce();
    run(3s);
  }
}

/// It sends to hosts themselves, of which one has the bridge that it moves to.
TEST_F(StationsSim, AStationThatMovesToTheHostThatItSendsToStillReachesIt) {
  bridges(2, 1);
  Station& mover = station(1, 1);
  const auto hears = [&](std::size_t host) {
    return [&, host] {
      return std::ranges::any_of(bridge_of[host]->to_host, [&](const Station::Frame& frame) {
        return Ipv4Address(load_be<std::uint32_t>(&frame[wire::EthernetHeader::kSize + 12])) ==
               mover.ip();
      });
    };
  };
  mover.send(b().ip(), 1);
  run(1s);
  ASSERT_TRUE(mover.cache.contains(b().ip()));
  move(mover, 1);
  mover.announce();
  run(1s);
  bridge_of[1]->to_host.clear();
  mover.send(b().ip(), 2);
  EXPECT_TRUE(until(hears(1), 100ms));
  EXPECT_EQ(mover.cache.at(b().ip()), bridge_of[1]->host_mac()) << "it has been told";
}

TEST_F(StationsSim, AStationThatIsAwayForSecondsIsFoundWhenItIsBack) {
  bridges(2, 1);
  Host& peer = add(9);
  bring_up();
  Station& mover = station(1, 1);
  (void)silence(mover, {stream(peer, mover)}, 2s);
  bridge_of[0]->unplug(mover);
  (void)silence(mover, {stream(peer, mover)}, 7s);
  bridge_of[1]->plug(mover);
  const auto silent = silence(mover, {stream(peer, mover)}, 3s);
  EXPECT_LT(silent[0] / 1ms, 1100) << "a search every 0.9 s, and the check";
}

TEST_F(StationsSim, AStationThatSleepsGetsAllPackets) {
  bridges(1, 1);
  Host& peer = add(9);
  bring_up();
  Station& sleeper = station(1, 1);
  (void)silence(sleeper, {stream(peer, sleeper)}, 2s);
  sleeper.answers = false;
  const auto silent = silence(sleeper, {stream(peer, sleeper)}, 20s);
  EXPECT_LE(silent[0] / 1ms, 10);
  EXPECT_EQ(events(a(), Kind::left), 0U);
}

TEST_F(StationsSim, AStationMovesBack) {
  bridges(2, 2);
  Station& mover = station(1, 1);
  Station& far = station(2, 1);
  ASSERT_TRUE(reaches(far, mover));
  for (const std::size_t to : {1U, 0U, 1U}) {
    mover.bridge->unplug(mover);
    bridge_of[to]->plug(mover);
    mover.announce();
    run(3s);
    EXPECT_TRUE(reaches(far, mover, 3s)) << to;
  }
}

TEST_F(StationsSim, TwoStationsWithOneAddressAreReportedAndDoNotFight) {
  bridges(2, 1);
  Host& peer = add(9);
  bring_up();
  Station& first = station(1, 1);
  first.announce();
  run(5s);
  Station second(MacAddress(0x0200'0009'0009), first.ip());
  bridge_of[1]->plug(second);
  std::uint64_t announcements = 0;
  world.tap = [&](ConstBytes packet) {
    const auto arp = arp_in(packet);
    if (arp && arp->sender_protocol == first.ip() && arp->target_protocol == first.ip()) {
      ++announcements;
    }
    return true;
  };
  for (int i = 0; i < 20; ++i) {
    second.announce();
    run(500ms);
  }
  EXPECT_GE(events(b(), Kind::duplicate), 1U);
  EXPECT_EQ(events(b(), Kind::appeared), 0U);
  EXPECT_EQ(announcements, 0U) << "neither claims it again";
  peer.send(first.ip(), 7);
  EXPECT_TRUE(until([&] { return has_got(first, peer.ip(), 7); }, 5s));
}

TEST_F(StationsSim, AStationThatLiesGetsNoPackets) {
  bridges(2, 1);
  Station& liar = station(1, 1);
  Station far(MacAddress(0x0200'0009'0001), address_of(0x901));
  bridge_of[1]->plug(far);
  Station posing(liar.mac(), b().ip());
  bridge_of[0]->plug(posing);
  ASSERT_TRUE(reaches(liar, far));
  posing.announce();
  run(2s);
  far.send(a().ip(), 1);
  Station as_host(MacAddress(0x0200'0009'0002), a().ip());
  bridge_of[0]->plug(as_host);
  as_host.announce();
  run(2s);
  EXPECT_EQ(table_of(a()).find(b().ip())->state_name(), ethernet::StationState::refused);
  EXPECT_EQ(table_of(a()).find(a().ip()), nullptr);
  EXPECT_GT(table_of(a()).counters().drop_address, 0U);
}

/// The host of the bridge has no address, so its requests are probes (RFC 5227), whose answers are
/// broadcast.
TEST_F(StationsSim, AStationThatLiesAgainAndAgainGetsNoPackets) {
  bridges(2, 1);
  Host& peer = add(9);
  bring_up();
  a().remove_addresses();
  Station liar(MacAddress(0x0200'0009'0002), peer.ip());
  bridge_of[0]->plug(liar);
  for (int i = 0; i < 10; ++i) {
    liar.announce();
    run(1200ms);
    EXPECT_EQ(table_of(a()).find(peer.ip())->state_name(), ethernet::StationState::refused) << i;
  }
}

TEST_F(StationsSim, AFloodOfRequestsStaysWithinTheBudgetOfItsStation) {
  bridges(2, 2);
  Station& flooder = station(1, 1);
  Station& other = station(1, 2);
  Station& far = station(2, 1);
  ASSERT_TRUE(reaches(other, far));
  std::uint64_t requests = 0;
  world.tap = [&](ConstBytes packet) {
    const auto arp = arp_in(packet);
    if (arp && arp->operation == wire::ArpOperation::request) ++requests;
    return true;
  };
  for (std::uint32_t i = 0; i < 2000; ++i) {
    flooder.request(address_of(0x4000 + i));
    if (i % 20 == 0) run(1ms);
  }
  // One second of its budget, and what each is repeated.
  EXPECT_LT(requests, 4 * ethernet::StationBudget::kRequests);
  EXPECT_GT(table_of(a()).counters().drop_budget, 1000U);
  EXPECT_TRUE(reaches(other, far, 2s));
}

/// 5,000 requests a second of 500 MACs, which may be one guest.
TEST_F(StationsSim, AFloodOfRequestsFromManyMacsLeavesRoomForTheHostAndForStations) {
  bridges(2, 2, 1024);
  Host& peer = add(9);
  bring_up();
  Station host(MacAddress(0x0200'0000'0001), a().ip());
  bridge_of.front()->plug(host);
  Station& other = station(1, 2);
  Station& far = station(2, 1);
  std::vector<std::unique_ptr<Station>> flooders;
  for (std::uint32_t i = 0; i < 500; ++i) {
    flooders.push_back(std::make_unique<Station>(MacAddress(0x0200'0002'0000 + i), Ipv4Address(0)));
    bridge_of.front()->plug(*flooders.back());
  }
  std::uint32_t sent = 0;
  const auto flood = [&] {
    for (int i = 0; i < 5; ++i, ++sent) {
      flooders[sent % flooders.size()]->request(address_of(0x4000 + sent % 0x8000));
    }
  };
  const auto until_flooded = [&](const std::function<bool()>& holds, Duration limit = 3s) {
    return until([&] { return flood(), holds(); }, limit);
  };
  (void)until_flooded([] { return false; }, 1s);
  other.send(far.ip(), 1);
  EXPECT_TRUE(until_flooded([&] { return has_got(far, other.ip(), 1); }));
  host.send(peer.ip(), 2);
  EXPECT_TRUE(until_flooded([&] { return peer.received_from(a().ip()) == 1; }));
  EXPECT_GT(a().ethernet()->counters().drop_request_limit, 2000U);
}

/// Programs of the host have joined 1,100 groups, which is more than the subnet has multicast LIDs.
/// Those of the station and of other hosts are joined nevertheless.
TEST_F(StationsSim, AHostWithManyGroupsLeavesRoomForStations) {
  constexpr std::uint32_t kGroups = 300;
  const Ipv4Address of_station(0xef020000);
  bridges(1, 1);
  Host& peer = add(9);
  bring_up();
  std::vector<IpAddress> many;
  for (std::uint32_t i = 0; i < 1100; ++i) many.emplace_back(Ipv4Address(0xef010000 + i));
  a().set_groups(many);
  run(60s);
  const auto groups_of = [&](const Host& host) {
    return std::ranges::count_if(world.subnet().groups(), [&](const auto& group) {
      return std::ranges::any_of(group.members, [&](const auto& member) {
        return member.node == host.node() && member.join_state == wire::McMemberRecord::kFullMember;
      });
    });
  };
  EXPECT_LE(groups_of(a()), std::ptrdiff_t{softib::kMaxGroups} / 2);
  Station& one = station(1, 1);
  one.join(of_station, kGroups);
  run(60s);
  for (std::uint32_t i = 0; i < kGroups; ++i) {
    peer.send(Ipv4Address(of_station.number() + i), i);
    run(20ms);
  }
  run(5s);
  for (std::uint32_t i = 0; i < kGroups; ++i) {
    EXPECT_TRUE(one.heard.contains(Ipv4Address(of_station.number() + i))) << i;
  }
  EXPECT_LE(groups_of(a()), std::ptrdiff_t{softib::kMaxGroups} / 2);
  many.resize(100);
  for (IpAddress& group : many)
    group = Ipv4Address(std::get<Ipv4Address>(group).number() + 0x20000);
  peer.set_groups(many);
  run(30s);
  EXPECT_GE(groups_of(peer), 100);
}

TEST_F(StationsSim, SurvivesLoss) {
  world.faults.packet_loss = 0.1;
  bridges(3, 2);
  for (const auto& from : stations) {
    for (const auto& to : stations) {
      if (from == to) continue;
      ASSERT_TRUE(reaches(*from, *to, 30s));
    }
  }
}

}  // namespace
}  // namespace ipoib::sim
