#include "daemon/port/port_watcher.hpp"

#include <gtest/gtest.h>

namespace ipoib::daemon {
namespace {

verbs::PortSnapshot active_port() {
  verbs::PortSnapshot port;
  port.active = true;
  port.lid = Lid(7);
  port.lmc = 2;
  port.rate_mbps = 40'000;
  port.active_mtu = 2048;
  port.sm_lid = Lid(1);
  port.sm_sl = ServiceLevel(3);
  port.gid = Gid(Gid::kLinkLocalPrefix, Guid(0x42));
  port.pkeys = {PKey(0x13), PKey(0), PKey(0x7fff), PKey(0), PKey(0), PKey(0x8012)};
  return port;
}

TEST(PortWatcherTest, ConvertsPortStatusForALink) {
  const auto status = port_status(active_port(), PKey(0x8012));
  EXPECT_TRUE(status.active);
  EXPECT_TRUE(status.sm_known);
  EXPECT_EQ(status.lid, Lid(7));
  EXPECT_EQ(status.sm_lid, Lid(1));
  EXPECT_EQ(status.gid, Gid(Gid::kLinkLocalPrefix, Guid(0x42)));
  EXPECT_EQ(status.rate_mbps, 40'000U);
  EXPECT_EQ(status.mtu, 2048U);
  EXPECT_EQ(status.lmc, 2);
  EXPECT_EQ(status.pkey_index, 5);
  EXPECT_EQ(port_status(active_port(), PKey(0x8013)).pkey_index, 0) << "a limited member";
  EXPECT_EQ(port_status(active_port(), PKey(0x8014)).pkey_index, std::nullopt);
}

TEST(PortWatcherTest, PortWithoutLidIsNotReady) {
  auto port = active_port();
  port.lid = Lid();
  EXPECT_FALSE(port_status(port, kDefaultPKey).active);
  EXPECT_EQ(port_status(port, kDefaultPKey).inactive, Inactive::init);
  port.active = false;
  port.inactive = Inactive::armed;
  EXPECT_EQ(port_status(port, kDefaultPKey).inactive, Inactive::armed);
}

TEST(PortWatcherTest, RocePortIsReadyWithoutLidAndSubnetManager) {
  verbs::PortSnapshot port;
  port.link_layer = verbs::LinkLayer::roce;
  port.active = true;
  port.gid = Gid(Gid::kLinkLocalPrefix, Guid(0x42));
  port.gid_index = 3;
  port.pkeys = {kDefaultPKey};
  const auto status = port_status(port, kDefaultPKey);
  EXPECT_TRUE(status.active);
  EXPECT_TRUE(status.sm_known);
  EXPECT_EQ(status.gid, port.gid);
  EXPECT_EQ(status.gid_index, 3);
  EXPECT_FALSE(sa_destination(port));

  port.gid = Gid();
  EXPECT_FALSE(port_status(port, kDefaultPKey).active) << "it has no usable GID";
}

TEST(PortWatcherTest, FindsTheSaInTheDefaultPartition) {
  const auto to = sa_destination(active_port());
  ASSERT_TRUE(to);
  EXPECT_EQ(to->lid, Lid(1));
  EXPECT_EQ(to->sl, ServiceLevel(3));
  EXPECT_EQ(to->pkey_index, 2);
}

TEST(PortWatcherTest, PortMayRequireAGrh) {
  auto port = active_port();
  EXPECT_FALSE(port_status(port, kDefaultPKey).grh_required);
  EXPECT_FALSE(sa_destination(port)->global);
  port.grh_required = true;
  port.gid_index = 3;
  EXPECT_TRUE(port_status(port, kDefaultPKey).grh_required);
  // IBA 4.1.1: the SA's GID in every subnet.
  EXPECT_EQ(sa_destination(port)->global,
            (GlobalRoute{.dgid = *Gid::parse("fe80::200:0:0:2"), .sgid_index = 3, .hop_limit = 1}));
}

TEST(PortWatcherTest, HasNoSaDestinationIfTheSaIsUnreachable) {
  auto down = active_port();
  down.active = false;
  EXPECT_FALSE(sa_destination(down));
  auto no_sm = active_port();
  no_sm.sm_lid = Lid(0);
  EXPECT_FALSE(sa_destination(no_sm));
  EXPECT_FALSE(port_status(no_sm, kDefaultPKey).sm_known);
  auto outside = active_port();
  outside.pkeys = {PKey(0x8012)};
  EXPECT_FALSE(sa_destination(outside));
}

}  // namespace
}  // namespace ipoib::daemon
