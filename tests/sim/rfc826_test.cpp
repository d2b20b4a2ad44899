// RFC 826 with RFC 4391, 9.2, and the ageing of RFC 4861, 7.3.
#include "tests/sim/sim_fixture.hpp"

namespace ipoib::sim {
namespace {

class Rfc826 : public Sim {
 protected:
  /// Counts ARP messages by operation, and broadcasts.
  void count_arp() {
    world.tap = [this](ConstBytes packet) {
      const auto arp = arp_in(packet);
      if (!arp) return true;
      const bool broadcast = is_multicast(wire::UdPacket::parse(packet)->lrh.dlid);
      if (arp->operation == wire::ArpOperation::reply) ++replies;
      if (arp->operation == wire::ArpOperation::request) ++(broadcast ? broadcasts : unicasts);
      return true;
    };
  }
  unsigned broadcasts = 0;
  unsigned unicasts = 0;
  unsigned replies = 0;
};

TEST_F(Rfc826, RFC826_BroadcastRequestUnicastReply) {
  add_many(4);
  bring_up();
  world.run_for(5s);
  bool reply_by_unicast = false;
  world.tap = [&](ConstBytes packet) {
    const auto arp = arp_in(packet);
    if (arp && arp->operation == wire::ArpOperation::reply) {
      const auto ud = wire::UdPacket::parse(packet);
      reply_by_unicast = ud->bth.destination == a().link().hardware_address().qpn &&
                         arp->target_hardware.same_endpoint(a().link().hardware_address());
    }
    return true;
  };
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_TRUE(reply_by_unicast);
}

TEST_F(Rfc826, RFC1812_HostUnreachableIsReportedForEachQueuedPacket) {
  two_hosts();
  const Ipv4Address missing = address_of(77);
  a().send(missing, 1, 3);
  EXPECT_TRUE(world.run_until([&] { return a().received_from(missing) == 3; }, 10s));
  for (const auto& packet : a().tun().from_fabric) {
    EXPECT_EQ(load_be<std::uint16_t>(&packet[20]), 0x0301) << "host unreachable";
  }
  a().send(missing);
  EXPECT_EQ(a().received_from(missing), 4U) << "at once while the failure is remembered";
}

TEST_F(Rfc826, RFC1812_HostUnreachableIsReportedWhenTheSaHasNoPath) {
  two_hosts();
  // Another partition for b alone: the SA gives no path, although b's ARP reply arrives.
  world.mad_tap = [](softib::MadPacket& mad) {
    const auto header = wire::MadHeader::parse(mad.mad);
    return !header || header->attribute_id != wire::attribute::kPathRecord;
  };
  a().send(b().ip());
  EXPECT_TRUE(world.run_until([&] { return a().received_from(b().ip()) == 1; }, 60s));
  EXPECT_EQ(load_be<std::uint16_t>(&a().tun().from_fabric[0][20]), 0x0301);
}

TEST_F(Rfc826, RFC826_TargetLearnsFromTheRequest) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_NE(b().state_of(a().ip()), "gone");
  count_arp();
  EXPECT_TRUE(reaches(b(), a()));
  EXPECT_EQ(broadcasts, 0U) << "no request in return";
}

TEST_F(Rfc826, RFC826_OthersUpdateButCreateNoEntries) {
  add_many(3);
  bring_up();
  world.run_for(5s);
  Host& c = *hosts.at(2);
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_EQ(c.state_of(a().ip()), "gone") << "the request was not for it";
  EXPECT_TRUE(reaches(c, a()));
  // a restarts and requests b: c receives the request and updates its entry.
  world.run_for(config.ageing.lock_time);
  world.tap = [](ConstBytes packet) {
    const auto arp = arp_in(packet);
    return !arp || arp->sender_protocol != arp->target_protocol;
  };
  HostOptions again = options(1);
  again.epoch = 2;
  hosts[0] = std::make_unique<Host>(world, again);
  bring_up();
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_EQ(c.link().get(a().ip(), world.now())->hardware, a().link().hardware_address());
}

TEST_F(Rfc826, RFC826_DuplicateAddressIsReportedAndNotLearnt) {
  two_hosts();
  HostOptions same_address = options(3);
  same_address.address = {a().ip(), 16};
  add(same_address);
  bring_up();
  world.run_for(5s);
  EXPECT_GT(a().count(Counter::drop_duplicate_address), 0U);
  EXPECT_EQ(a().link().get(a().ip(), world.now()), std::nullopt);
}

TEST_F(Rfc826, RFC826_RepliesForEachAddressOfTheHost) {
  two_hosts();
  b().add_address({Ipv4Address(0x0a2d0002), 24});
  a().send(Ipv4Address(0x0a2d0002));
  EXPECT_TRUE(world.run_until([&] { return b().received() == 1; }, 1s));
}

TEST_F(Rfc826, RFC5227_AnnouncesEachAddressWhenItIsAdded) {
  two_hosts();
  count_arp();
  b().add_address({Ipv4Address(0x0a2d0002), 24});
  world.run_for(10s);
  EXPECT_EQ(broadcasts, config.ageing.announcements);
}

TEST_F(Rfc826, RFC4755_3_FlagsOfAHardwareAddressAreIgnored) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  HwAddress with_flags = b().link().hardware_address();
  with_flags.flags = 0x80;
  ASSERT_TRUE(a().link().set_permanent(b().ip(), with_flags, world.now()));
  bool zero_on_send = true;
  world.tap = [&](ConstBytes packet) {
    const auto arp = arp_in(packet);
    zero_on_send = zero_on_send && (!arp || arp->target_hardware.flags == 0);
    return true;
  };
  EXPECT_TRUE(reaches(a(), b())) << "reached by UD";
  EXPECT_TRUE(zero_on_send);
}

TEST_F(Rfc826, RFC4861_7_3_TrafficContinuesDuringProbes) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  count_arp();
  const auto requests = a().count(link::Counter::path_requests);
  const std::size_t before = b().received();
  constexpr unsigned kSeconds = 300;
  for (unsigned i = 0; i < 10 * kSeconds; ++i) {
    a().send(b().ip());
    world.run_for(100ms);
  }
  EXPECT_EQ(b().received() - before, 10U * kSeconds) << "no packet is delayed or lost";
  EXPECT_EQ(broadcasts, 0U);
  // One probe per reachable time (15 to 45 s) plus delay (5 s).
  EXPECT_GE(unicasts, kSeconds / 51U);
  EXPECT_LE(unicasts, kSeconds / 20U + 1);
  EXPECT_EQ(replies, unicasts);
  EXPECT_EQ(a().count(link::Counter::path_requests), requests) << "no path requests";
}

TEST_F(Rfc826, RFC4861_7_3_IdleNeighboursAreNotProbed) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  world.run_for(1s);
  count_arp();
  world.run_for(10min);
  EXPECT_EQ(unicasts + broadcasts, 0U);
  EXPECT_EQ(a().state_of(b().ip()), "stale");
  world.run_for(config.ageing.idle);
  EXPECT_EQ(a().state_of(b().ip()), "gone");
}

TEST_F(Rfc826, RFC4861_7_3_DeadNeighbourFailsAfterUnicastAndBroadcastProbes) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  remove(b());
  count_arp();
  for (int i = 0; i < 1200 && a().state_of(address_of(2)) != "failed"; ++i) {
    a().send(address_of(2));
    world.run_for(50ms);
  }
  EXPECT_EQ(a().state_of(address_of(2)), "failed");
  EXPECT_EQ(unicasts, config.ageing.unicast_probes);
  EXPECT_EQ(broadcasts, config.ageing.broadcast_probes);
}

}  // namespace
}  // namespace ipoib::sim
