// A hostile host: a full member of the partition that sends any ARP and Neighbour Discovery message
// to take over the address of another host. Its HCA fills in its true QPN, LID and GID.
#include "link/group_table.hpp"
#include "tests/sim/sim_fixture.hpp"
#include "wire/mgid.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::sim {
namespace {

using wire::ArpOperation;
using wire::NdMessage;

class Hostile : public Sim {
 protected:
  /// a and b talk to each other, and the third host is hostile.
  void three_hosts(bool strict) {
    config.strict_arp = strict;
    for (std::uint32_t i = 1; i <= 3; ++i) {
      HostOptions chosen = options(i);
      chosen.ipv6 = true;
      add(chosen);
    }
    bring_up();
    world.run_for(5s);
    ASSERT_TRUE(reaches(a(), b()));
    ASSERT_EQ(a().state_of(b().ip()), "reachable");
    world.run_for(config.ageing.lock_time);
  }
  [[nodiscard]] Host& hostile() { return *hosts.at(2); }
  [[nodiscard]] HwAddress false_qpn() { return {0, Qpn(0x777), hostile().hardware().gid}; }
  [[nodiscard]] HwAddress false_gid() { return {0, hostile().hardware().qpn, b().hardware().gid}; }

  [[nodiscard]] AddressVector unicast(const Host& to, bool with_grh) {
    AddressVector vector;
    vector.dlid = world.subnet().node(to.node())->port.lid;
    if (with_grh) vector.global = GlobalRoute{.dgid = to.hardware().gid, .hop_limit = 1};
    return vector;
  }
  [[nodiscard]] AddressVector multicast(const IpAddress& group) {
    const Gid mgid = std::visit([](const auto& ip) { return mgid_of(ip); }, group);
    AddressVector vector;
    for (const link::GroupInfo& joined : hostile().link().groups()) {
      if (joined.mgid == mgid) vector.dlid = joined.mlid;
    }
    EXPECT_TRUE(is_multicast(vector.dlid));
    vector.global = GlobalRoute{.dgid = mgid, .hop_limit = 1};
    return vector;
  }
  [[nodiscard]] static Gid mgid_of(Ipv4Address) { return wire::broadcast_gid(kDefaultPKey); }
  [[nodiscard]] static Gid mgid_of(const Ipv6Address& group) {
    return wire::multicast_gid(group, kDefaultPKey);
  }

  enum class Way { broadcast, unicast, unicast_with_grh };
  static constexpr auto kWays = {Way::broadcast, Way::unicast, Way::unicast_with_grh};
  void send_to_a(ConstBytes datagram, Way way, const IpAddress& group) {
    if (way == Way::broadcast) {
      hostile().send_datagram(multicast(group), kMulticastQpn, datagram);
    } else {
      hostile().send_datagram(unicast(a(), way == Way::unicast_with_grh), a().hardware().qpn,
                              datagram);
    }
    world.run_for(10ms);
  }
  /// Claims an address of another host.
  void claim(Ipv4Address address, const HwAddress& hardware, ArpOperation operation, Way way,
             Ipv4Address target) {
    wire::Arp message;
    message.operation = operation;
    message.sender_hardware = hardware;
    message.sender_protocol = address;
    message.target_protocol = target;
    std::array<std::uint8_t, wire::kEncapsulationSize + wire::Arp::kSize> bytes{};
    wire::emit_encapsulation(wire::EtherType::arp, bytes.data());
    message.emit(MutableBytes(bytes).subspan(wire::kEncapsulationSize));
    send_to_a(bytes, way, Ipv4Address(0xffffffff));
  }
  void claim_in_all_ways(Ipv4Address address, const HwAddress& hardware) {
    for (const Way way : kWays) {
      for (const ArpOperation operation : {ArpOperation::request, ArpOperation::reply}) {
        claim(address, hardware, operation, way, a().ip());
        claim(address, hardware, operation, way, address);
      }
    }
  }
  void claim6_in_all_ways(const Ipv6Address& address, const HwAddress& hardware) {
    for (const Way way : kWays) {
      for (const bool solicited : {false, true}) {
        NdMessage message;
        message.type = wire::NdType::neighbour_advertisement;
        message.source = message.target = address;
        message.destination = solicited ? a().ipv6() : kAllNodesOfIpv6;
        message.is_solicited = solicited;
        message.overrides = true;
        message.target_link_layer = hardware;
        std::array<std::uint8_t, wire::kEncapsulationSize + NdMessage::kMaxEmitted> bytes{};
        wire::emit_encapsulation(wire::EtherType::ipv6, bytes.data());
        const std::size_t size =
            message.emit(MutableBytes(bytes).subspan(wire::kEncapsulationSize));
        send_to_a(ConstBytes(bytes).first(wire::kEncapsulationSize + size), way, kAllNodesOfIpv6);
      }
    }
  }
  [[nodiscard]] HwAddress known_to_a(const IpAddress& address) {
    const auto info = a().link().get(address, world.now());
    return info && info->hardware ? *info->hardware : HwAddress{};
  }
};

TEST_F(Hostile, FalseQpnIsDroppedAndCounted) {
  three_hosts(true);
  claim_in_all_ways(b().ip(), false_qpn());
  claim6_in_all_ways(b().ipv6(), false_qpn());
  EXPECT_EQ(a().count(Counter::drop_false_qpn), 12U + 6U);
  EXPECT_EQ(known_to_a(b().ip()), b().hardware());
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_EQ(a().count(Counter::neighbour_address_changes), 0U);
}

TEST_F(Hostile, FalseGidIsDroppedWhereTheGrhShowsIt) {
  three_hosts(true);
  claim(b().ip(), false_gid(), ArpOperation::request, Way::broadcast, b().ip());
  claim(b().ip(), false_gid(), ArpOperation::reply, Way::unicast_with_grh, a().ip());
  EXPECT_EQ(a().count(Counter::drop_false_gid), 2U);
  EXPECT_EQ(known_to_a(b().ip()), b().hardware());
}

/// What is left without a GRH: the packets go to a port of the true owner, where no queue pair
/// takes them. Its announcement or a probe mends that; the hostile host gets nothing.
TEST_F(Hostile, FalseGidWithoutAGrhInterceptsNothing) {
  three_hosts(true);
  claim(b().ip(), false_gid(), ArpOperation::reply, Way::unicast, a().ip());
  EXPECT_EQ(known_to_a(b().ip()), false_gid());
  const std::size_t before = hostile().received();
  EXPECT_FALSE(reaches(a(), b()));
  EXPECT_EQ(hostile().received(), before);
  EXPECT_TRUE(keeps_trying(a(), b(), 2min));
  EXPECT_EQ(known_to_a(b().ip()), b().hardware());
}

TEST_F(Hostile, VictimOfATrueAddressKnowsTheOffender) {
  three_hosts(true);
  claim(b().ip(), hostile().hardware(), ArpOperation::request, Way::broadcast, b().ip());
  EXPECT_EQ(a().count(Counter::drop_false_qpn) + a().count(Counter::drop_false_gid), 0U);
  EXPECT_EQ(known_to_a(b().ip()), hostile().hardware()) << "as on Ethernet; a pin prevents it";
  EXPECT_GT(b().count(Counter::drop_duplicate_address), 0U) << "the owner notices";
}

TEST_F(Hostile, PinnedAddressCannotBeTakenOver) {
  three_hosts(true);
  ASSERT_TRUE(a().link().pin(b().ip(), b().hardware().gid));
  ASSERT_TRUE(a().link().pin(b().ipv6(), b().hardware().gid));
  ASSERT_TRUE(reaches(a(), b()));
  claim_in_all_ways(b().ip(), hostile().hardware());
  claim6_in_all_ways(b().ipv6(), hostile().hardware());
  EXPECT_EQ(a().count(Counter::drop_pinned_gid), 12U + 6U);
  EXPECT_EQ(known_to_a(b().ip()), b().hardware());
  EXPECT_TRUE(reaches(a(), b()));
  HostOptions again = options(2);
  again.epoch = 2;
  again.ipv6 = true;
  hosts[1] = std::make_unique<Host>(world, again);
  ASSERT_TRUE(world.run_until([&] { return b().is_up(); }, 60s));
  EXPECT_TRUE(keeps_trying(a(), b(), 10s)) << "its new QPN is learnt";
}

TEST_F(Hostile, UnsolicitedRepliesCreateNoEntry) {
  three_hosts(true);
  const std::size_t before = a().link().neighbour_count();
  for (std::uint32_t i = 0; i < 100; ++i) {
    claim(address_of(1000 + i), hostile().hardware(), ArpOperation::reply, Way::unicast, a().ip());
  }
  EXPECT_EQ(a().count(Counter::drop_unsolicited_reply), 100U);
  EXPECT_EQ(a().link().neighbour_count(), before);
  claim6_in_all_ways(*Ipv6Address::parse("fe80::1234"), hostile().hardware());
  EXPECT_EQ(a().link().neighbour_count(), before);
}

TEST_F(Hostile, SecondReplyWithinTheLockTimeIsIgnored) {
  three_hosts(true);
  ASSERT_TRUE(a().link().remove(b().ip()));
  ASSERT_TRUE(reaches(a(), b()));
  claim(b().ip(), hostile().hardware(), ArpOperation::reply, Way::unicast, a().ip());
  EXPECT_EQ(a().count(Counter::drop_locked_address), 1U);
  EXPECT_EQ(known_to_a(b().ip()), b().hardware());
}

/// Without the check the packets are lost until the next probe or announcement; they are never
/// delivered to the host that does not have the queue pair.
TEST_F(Hostile, NotStrictAFalseAddressLosesPacketsUntilTheNextProbe) {
  three_hosts(false);
  claim(b().ip(), false_qpn(), ArpOperation::request, Way::broadcast, b().ip());
  EXPECT_EQ(known_to_a(b().ip()), false_qpn());
  EXPECT_EQ(a().state_of(b().ip()), "stale") << "an announcement confirms nothing";
  EXPECT_FALSE(reaches(a(), b()));
  EXPECT_TRUE(keeps_trying(a(), b(), 1min));
  EXPECT_EQ(known_to_a(b().ip()), b().hardware());
}

TEST_F(Hostile, NewQueuePairOfThePeerIsTakenAtOnce) {
  three_hosts(true);
  HostOptions again = options(2);
  again.epoch = 2;
  again.ipv6 = true;
  ASSERT_TRUE(a().link().remove(b().ip()));
  ASSERT_TRUE(reaches(a(), b()));  // locked from now on
  hosts[1] = std::make_unique<Host>(world, again);
  ASSERT_TRUE(world.run_until([&] { return b().is_up(); }, 60s));
  world.run_for(100ms);
  EXPECT_EQ(known_to_a(b().ip()), b().hardware()) << "by its announcement";
  EXPECT_TRUE(reaches(a(), b()));
}

}  // namespace
}  // namespace ipoib::sim
