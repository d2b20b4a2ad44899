// A subnet whose ports require a GRH, like those of virtual functions.
#include "tests/sim/sim_fixture.hpp"

namespace ipoib::sim {
namespace {

softib::subnet::SubnetConfig subnet_with_grh() {
  softib::subnet::SubnetConfig subnet;
  subnet.grh_required = true;
  return subnet;
}

class WithGrhRequired : public Sim {
 protected:
  WithGrhRequired() : Sim(subnet_with_grh()) {}
};

TEST_F(WithGrhRequired, HostsReachEachOther) {
  add_many(3);
  bring_up();
  std::size_t unicast = 0;
  world.tap = [&](ConstBytes packet) {
    const auto ud = wire::UdPacket::parse(packet);
    EXPECT_TRUE(ud->grh);
    if (ud->grh && !is_multicast(ud->lrh.dlid)) {
      ++unicast;
      EXPECT_EQ(ud->grh->hop_limit, 1);
      EXPECT_FALSE(ud->grh->dgid.is_multicast());
    }
    return true;
  };
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_TRUE(reaches(b(), *hosts[2]));
  EXPECT_GE(unicast, 4U) << "replies to ARP requests, and packets";
}

/// RFC 4391, 6: a datagram with a GRH is accepted like one without.
TEST_F(WithGrhRequired, RFC4391_6_UnicastDatagramsWithGrhAreAccepted) {
  two_hosts();
  bool has_grh = false;
  world.tap = [&](ConstBytes packet) {
    const auto ud = wire::UdPacket::parse(packet);
    if (!is_multicast(ud->lrh.dlid)) has_grh = ud->grh.has_value();
    return true;
  };
  ASSERT_TRUE(reaches(a(), b()));
  EXPECT_TRUE(has_grh);
  EXPECT_EQ(b().tun().from_fabric.size(), 1U);
}

TEST_F(WithGrhRequired, ReportsAreAcknowledged) {
  two_hosts();
  ASSERT_TRUE(reaches(a(), b()));
  const auto before = world.subnet().counters().report_acknowledged;
  add(3);
  EXPECT_TRUE(world.run_until(
      [&] { return world.subnet().counters().report_acknowledged >= before + 2; }, 5s))
      << "both hosts are told about the new port";
}

}  // namespace
}  // namespace ipoib::sim
