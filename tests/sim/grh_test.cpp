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

class Datagrams : public Sim {
 protected:
  using Sim::Sim;
  /// Sends packets both ways and to all; returns whether the unicast ones had a GRH.
  [[nodiscard]] std::optional<bool> have_grh() {
    two_hosts();
    std::optional<bool> has_grh;
    world.tap = [&](ConstBytes packet) {
      const auto ud = wire::UdPacket::parse(packet);
      if (!is_multicast(ud->lrh.dlid)) has_grh = has_grh.value_or(true) && ud->grh;
      return true;
    };
    EXPECT_TRUE(reaches(a(), b()));
    EXPECT_TRUE(reaches(b(), a()));
    a().send(Ipv4Address(0xffffffff));
    EXPECT_TRUE(world.run_until([&] { return b().received() == 2; }, 1s)) << "a broadcast";
    world.tap = nullptr;
    return has_grh;
  }
};
class DatagramsWithGrh : public Datagrams {
 protected:
  DatagramsWithGrh() : Datagrams(subnet_with_grh()) {}
};

TEST_F(Datagrams, RFC4391_6_AreAcceptedWithoutGrh) { EXPECT_EQ(have_grh(), false); }

TEST_F(DatagramsWithGrh, RFC4391_6_AreAcceptedWithGrh) { EXPECT_EQ(have_grh(), true); }

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
