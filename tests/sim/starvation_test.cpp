// Hostile hosts flood another one with ARP requests that name GIDs at random. Its own packets to a
// new neighbour arrive as soon as the SA has worked off the few requests that are outstanding.
#include "tests/sim/sim_fixture.hpp"

namespace ipoib::sim {
namespace {

class StarvationSim : public Sim {
 protected:
  static constexpr Duration kSaService = 1ms;
  static constexpr std::uint32_t kPeers = 3;  ///< a, and two neighbours of it

  void start(std::uint32_t hostile) {
    add_many(kPeers + hostile);
    bring_up();
    world.run_for(5s);
    world.faults.sa_service = kSaService;
  }
  /// One message of a hostile host, by unicast and without a GRH, which would show that it lies.
  void forge(Host& from) {
    wire::Arp message;
    message.sender_hardware = {0, from.hardware().qpn, Gid(Gid::kLinkLocalPrefix, Guid(++forged_))};
    message.sender_protocol = address_of(0x1000 + forged_ % 0x4000);
    message.target_protocol = a().ip();
    std::array<std::uint8_t, wire::kEncapsulationSize + wire::Arp::kSize> bytes{};
    wire::emit_encapsulation(wire::EtherType::arp, bytes.data());
    message.emit(MutableBytes(bytes).subspan(wire::kEncapsulationSize));
    AddressVector to;
    to.dlid = world.subnet().node(a().node())->port.lid;
    from.send_datagram(to, a().hardware().qpn, bytes);
  }
  void flood() {
    for (std::size_t i = kPeers; i < hosts.size(); ++i) {
      for (int k = 0; k < 20; ++k) forge(*hosts[i]);
    }
    world.run_for(100us);
  }
  /// How long the first packet to a new neighbour takes.
  [[nodiscard]] Duration time_to_reach(Host& to, bool under_attack) {
    const TimePoint begin = world.now();
    a().send(to.ip());
    while (to.received_from(a().ip()) == 0 && world.now() < begin + 1s) {
      if (under_attack) flood();
      world.run_for(100us);
    }
    return world.now() - begin;
  }
  void expect_usual_time() {
    const Duration usual = time_to_reach(*hosts[1], false);
    for (int i = 0; i < 100; ++i) flood();
    const Duration attacked = time_to_reach(*hosts[2], true);
    // Two requests, that of `a` and that of its neighbour, each wait at the SA for the others.
    EXPECT_LE(attacked, usual + 2 * kSaService * static_cast<int>(config.limits.path_requests));
    EXPECT_EQ(a().count(Counter::drop_parked_total_limit), 0U);
    EXPECT_EQ(a().state_of(hosts[2]->ip()), "reachable");
  }

  std::uint32_t forged_ = 0x10000;
};

TEST_F(StarvationSim, OneHostileHost) {
  start(1);
  expect_usual_time();
  EXPECT_GT(a().count(Counter::drop_source_limit), 100U);
}

TEST_F(StarvationSim, ManyHostileHosts) {
  start(40);
  expect_usual_time();
  EXPECT_GT(a().count(Counter::drop_paths_pending), 0U);
}

}  // namespace
}  // namespace ipoib::sim
