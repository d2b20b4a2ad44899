// Many neighbours, many packets and loss: limits hold, and traffic continues.
#include "tests/sim/sim_fixture.hpp"

namespace ipoib::sim {
namespace {

class Load : public Sim {
 protected:
  [[nodiscard]] bool all_pairs_resolved() const {
    for (const auto& from : hosts) {
      for (const auto& to : hosts) {
        if (from == to) continue;
        const std::string state = from->state_of(to->ip());
        if (state == "gone" || state == "incomplete" || state == "resolving" || state == "failed") {
          return false;
        }
      }
    }
    return true;
  }
  void send_between_all_hosts() {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      for (std::size_t j = 0; j < hosts.size(); ++j) {
        if (i != j) hosts[i]->send(hosts[j]->ip());
      }
      world.run_for(5ms);
    }
  }
};

TEST_F(Load, FortyLinksResolveAllPairsDespiteLoss) {
  world.faults.packet_loss = 0.02;
  world.faults.mad_loss = 0.02;
  add_many(40);
  ASSERT_TRUE(world.run_until([this] { return all_up(); }, 5min));
  for (int round = 0; round < 20 && !all_pairs_resolved(); ++round) {
    send_between_all_hosts();
    world.run_for(1s);
  }
  EXPECT_TRUE(all_pairs_resolved());
  for (const auto& host : hosts) {
    EXPECT_LE(host->count(Counter::path_requests), hosts.size() + 5) << "one per peer";
  }
}

TEST_F(Load, TwentyLinksDeliverEverythingWithoutLoss) {
  add_many(20);
  bring_up();
  send_between_all_hosts();
  world.run_for(2s);
  for (const auto& host : hosts) EXPECT_EQ(host->received(), hosts.size() - 1);
}

TEST_F(Load, ThousandPacketsToANewNeighbourCauseOneRequest) {
  two_hosts();
  const auto before = a().sa_counters().requests;
  a().send(b().ip(), 1, 1000);
  world.run_for(1s);
  EXPECT_EQ(a().sa_counters().requests, before + 1);
  EXPECT_EQ(a().count(Counter::path_requests), 1U);
  const std::uint64_t dropped =
      a().count(Counter::drop_parked_limit) + a().count(Counter::drop_parked_total_limit);
  EXPECT_EQ(b().received() + dropped, 1000U);
  EXPECT_GE(b().received(), config.limits.parked_first);
}

TEST_F(Load, ParkedPacketsKeepTheirOrder) {
  two_hosts();
  a().send(b().ip(), 1, 10, 24);
  ASSERT_TRUE(world.run_until([&] { return b().received() == 10; }, 1s));
  for (std::uint8_t i = 0; i < 10; ++i) EXPECT_EQ(b().tun().from_fabric[i].back(), i + 1);
}

TEST_F(Load, FloodToUnusedAddressesStaysWithinLimits) {
  config.limits.neighbours = 4096;
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  const std::uint64_t broadcasts_before = a().count(Counter::arp_requests_broadcast);
  const std::size_t received_before = b().received();
  constexpr unsigned kRounds = 200;
  for (unsigned round = 0; round < kRounds; ++round) {
    for (std::uint32_t i = 0; i < 100; ++i) {
      a().send(address_of(1000 + (round * 100 + i) % 10000));
    }
    a().send(b().ip());
    world.run_for(100ms);
    ASSERT_LE(a().link().neighbour_count(), config.limits.neighbours);
  }
  EXPECT_EQ(b().received() - received_before, kRounds) << "other traffic is not affected";
  const auto broadcasts = a().count(Counter::arp_requests_broadcast) - broadcasts_before;
  constexpr unsigned kSeconds = kRounds / 10;
  EXPECT_LE(broadcasts, config.limits.solicitations * (kSeconds + 2));
  EXPECT_GT(broadcasts, 1000U);
  EXPECT_EQ(a().count(Counter::path_requests), 1U);
  Host& c = add(3);
  ASSERT_TRUE(world.run_until([&] { return c.is_up(); }, 5s));
  EXPECT_TRUE(keeps_trying(c, a(), 5s)) << "it can be reached";
}

TEST_F(Load, UnusedAddressIsSolicitedRarely) {
  two_hosts();
  const std::uint64_t before = a().count(Counter::arp_requests_broadcast);
  constexpr unsigned kSeconds = 80;
  for (unsigned i = 0; i < kSeconds * 10; ++i) {
    a().send(address_of(99));
    world.run_for(100ms);
  }
  // Three requests one second apart, then a pause of five seconds.
  EXPECT_LE(a().count(Counter::arp_requests_broadcast) - before, 3 * (kSeconds / 8 + 1));
  EXPECT_GE(a().count(Counter::arp_requests_broadcast) - before, 3 * (kSeconds / 8 - 1));
  EXPECT_LE(a().link().neighbour_count(), 1U);
}

TEST_F(Load, SaWithoutResponsesIsRequestedRarely) {
  two_hosts();
  world.faults.sa_drops_requests = true;
  for (unsigned i = 0; i < 6000; ++i) {
    a().send(b().ip());
    world.run_for(10ms);
  }
  // One minute: each request takes seconds, and a pause follows.
  EXPECT_LE(a().count(Counter::path_requests), 15U);
  EXPECT_EQ(a().count(Counter::path_responses), 0U);
  world.faults.sa_drops_requests = false;
  EXPECT_TRUE(keeps_trying(a(), b(), 30s));
}

TEST_F(Load, CacheIsLimitedAndEvictsIdleEntriesFirst) {
  config.limits.neighbours = 20;
  add_many(31);
  bring_up();
  world.run_for(5s);
  for (std::size_t i = 1; i <= 30; ++i) {
    EXPECT_TRUE(reaches(a(), *hosts[i]));
    EXPECT_TRUE(reaches(a(), b())) << "in constant use";
    world.run_for(100ms);
    EXPECT_LE(a().link().neighbour_count(), config.limits.neighbours);
  }
  EXPECT_NE(a().state_of(b().ip()), "gone");
  EXPECT_EQ(a().link().neighbour_count(), config.limits.neighbours);
  EXPECT_GT(a().count(Counter::neighbours_evicted), 0U);
}

TEST_F(Load, TwoRunsWithOneSeedAreEqual) {
  const auto run = [](std::uint64_t seed) {
    World other(seed);
    other.faults.packet_loss = 0.1;
    other.faults.mad_loss = 0.1;
    HostOptions first{.hca = "x", .address = {address_of(1), 16}};
    HostOptions second{.hca = "y", .address = {address_of(2), 16}};
    Host one(other, first);
    Host two(other, second);
    other.run_for(30s);
    for (std::uint32_t i = 0; i < 1000; ++i) {
      one.send(two.ip(), i);
      other.run_for(50ms);
    }
    return std::tuple(other.packets_sent, other.mads_sent, two.received());
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

}  // namespace
}  // namespace ipoib::sim
