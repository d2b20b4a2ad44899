// The Ethernet view of an interface with two ports.
#include "daemon/pump/shared_view.hpp"

#include <gtest/gtest.h>

#include "daemon/pump/pump.hpp"
#include "ethernet/station_address.hpp"
#include "tests/unit/daemon/pump/fake_ports.hpp"
#include "tests/unit/link/object_fixture.hpp"
#include "wire/ethernet.hpp"

namespace ipoib::daemon {
namespace {

using namespace std::chrono_literals;

constexpr MacAddress kMac{0x0200'0000'0011};
constexpr Ipv4Address kStation{0x0a2c000b};

class SharedViewTest : public ::testing::Test {
 protected:
  Pump make_pump(PumpMode mode) {
    return Pump{{.link = {},
                 .max_ip_mtu = 1500,
                 .seed = 1,
                 .hash_key = {1, 2},
                 .mode = mode,
                 .ethernet = true,
                 .stations = 8},
                pump_dependencies(frames, tun, pair, follower, trace)};
  }
  void SetUp() override {
    HostView host;
    host.mac = MacAddress(0x0200'0000'0001);
    primary.on_host_changed({host}, now);
  }
  /// The station announces its address, and nobody on the fabric has it.
  void announce() {
    std::vector<Frame> batch;
    batch.push_back(frames.take());
    batch[0].window(ethernet::View::kHeadroom, wire::EthernetArp::kSize);
    wire::EthernetArp{wire::ArpOperation::request, kMac, kStation, {}, kStation}.emit(
        batch[0].bytes());
    wire::EthernetHeader{kBroadcastMac, kMac, 0x0806}.emit(batch[0].bytes().data() -
                                                           wire::EthernetHeader::kSize);
    primary.host().send(batch, now);
    now += 1s;
    primary.host().tick(now);
  }
  /// A link has no neighbour with an address that it speaks for.
  [[nodiscard]] bool speaks(Pump& pump) {
    const bool may_be_neighbour =
        static_cast<bool>(pump.link().set_permanent(kStation, link::hardware(0x22, 9), now));
    if (may_be_neighbour) (void)pump.link().remove(kStation);
    return !may_be_neighbour;
  }

  FramePool frames{256, 2048};  // first, since the others hold frames
  FakeQueuePair pair;
  FakeTun tun;
  RouteFollower follower{nullptr};  ///< of a TAP
  TraceRing trace{"test"};
  TimePoint now{1000s};
  Pump primary{make_pump(PumpMode::active)};
  Pump backup{make_pump(PumpMode::standby)};
};

TEST_F(SharedViewTest, BothLinksSpeakForAStation) {
  backup.host().share_view_of(primary.host(), now);
  EXPECT_EQ(backup.host().ethernet(), primary.host().ethernet());
  ASSERT_FALSE(speaks(primary) || speaks(backup));
  announce();
  EXPECT_TRUE(speaks(primary));
  EXPECT_TRUE(speaks(backup));
}

TEST_F(SharedViewTest, ALinkThatComesLaterIsToldWhatTheOthersKnow) {
  announce();
  ASSERT_FALSE(speaks(backup));
  backup.host().share_view_of(primary.host(), now);
  EXPECT_TRUE(speaks(backup));
}

TEST_F(SharedViewTest, ThePumpInStandbyLeavesTheViewAlone) {
  backup.host().share_view_of(primary.host(), now);
  announce();
  EXPECT_NE(primary.next_deadline(), kNever) << "the station will be asked again";
  EXPECT_EQ(backup.next_deadline(), kNever);
}

TEST_F(SharedViewTest, ALinkThatHasLeftIsNotTold) {
  backup.host().share_view_of(primary.host(), now);
  backup.host().leave_view();
  announce();
  EXPECT_TRUE(speaks(primary));
  EXPECT_FALSE(speaks(backup));
}

}  // namespace
}  // namespace ipoib::daemon
