#include "link/link_setup.hpp"

#include <gmock/gmock.h>

#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LinkSetupTest : public ::testing::Test {
 protected:
  LinkSetupTest() {
    port.active = true;
    port.sm_known = true;
    port.lid = Lid(4);
    port.lmc = 1;
    port.gid = port_gid(1);
    port.gid_index = 3;
    port.pkey_index = 2;
  }
  void join() {
    ASSERT_EQ(setup.on_port(port), BringUp::Step::join);
    setup.take_port();
  }
  template <class E>
  [[nodiscard]] std::vector<E> take() {
    auto found = events_of<E>(out.events);
    out.events.clear();
    return found;
  }

  Output out;
  PortStatus port;
  wire::McMemberRecord record = group_record(wire::broadcast_gid(kDefaultPKey));
  LinkSetup setup{Qpn(0x11), out, *silent_logger()};
};

TEST_F(LinkSetupTest, ItsAddressIsThatOfThePortOnceItIsTaken) {
  ASSERT_EQ(setup.on_port(port), BringUp::Step::join);
  EXPECT_EQ(setup.own().gid, Gid()) << "what is sent before still has the address before";
  setup.take_port();
  EXPECT_EQ(setup.own(), hardware(0x11, 1));
  EXPECT_EQ(setup.port_gid().gid, port.gid);
  const auto source = setup.path_source();
  EXPECT_EQ(source.port.index, 3);
  EXPECT_EQ(source.lmc, 1);
  EXPECT_FALSE(source.grh_required);
}

TEST_F(LinkSetupTest, TheQueuePairGetsWhatTheBroadcastGroupHas) {
  join();
  EXPECT_EQ(setup.qkey(), QKey());
  EXPECT_FALSE(setup.on_broadcast_joined(record));
  EXPECT_THAT(take<ConfigureQueuePair>(), ElementsAre(ConfigureQueuePair{2, record.qkey}));
  EXPECT_EQ(setup.parameters()->mtu, record.mtu);
  EXPECT_EQ(setup.qkey(), record.qkey);
}

TEST_F(LinkSetupTest, IsConfiguredAgainOnlyIfSomethingIsNew) {
  join();
  (void)setup.on_broadcast_joined(record);
  (void)take<ConfigureQueuePair>();
  EXPECT_FALSE(setup.on_broadcast_joined(record));
  EXPECT_THAT(take<ConfigureQueuePair>(), IsEmpty());
  record.qkey = QKey(77);
  EXPECT_TRUE(setup.on_broadcast_joined(record)) << "the other groups have these parameters, too";
  EXPECT_THAT(take<ConfigureQueuePair>(), ElementsAre(ConfigureQueuePair{2, QKey(77)}));
}

TEST_F(LinkSetupTest, ANewQueuePairIsConfiguredIfTheLinkHasItsParameters) {
  join();
  setup.on_queue_pair(Qpn(0x12));
  EXPECT_THAT(out.events, IsEmpty());
  (void)setup.on_broadcast_joined(record);
  (void)take<ConfigureQueuePair>();
  setup.on_queue_pair(Qpn(0x13));
  EXPECT_EQ(setup.own(), hardware(0x13, 1));
  EXPECT_THAT(take<ConfigureQueuePair>(), ElementsAre(ConfigureQueuePair{2, record.qkey}));
}

TEST_F(LinkSetupTest, TheCarrierFollowsTheLink) {
  join();
  (void)setup.on_broadcast_joined(record);
  out.events.clear();
  setup.on_joined();
  EXPECT_TRUE(setup.is_up());
  EXPECT_THAT(take<SetCarrier>(), ElementsAre(SetCarrier{true}));
  setup.go_down();
  setup.go_down();
  EXPECT_THAT(take<SetCarrier>(), ElementsAre(SetCarrier{false}));
  EXPECT_EQ(out.counters[Counter::carrier_losses], 1U);
  EXPECT_FALSE(setup.parameters());
  EXPECT_EQ(setup.qkey(), QKey());
  setup.on_setup_failed();
  EXPECT_EQ(setup.state(), LinkState::joining);
}

TEST_F(LinkSetupTest, SaysWhatTheOperatorHasToDo) {
  EXPECT_THAT(setup.waiting_for(), HasSubstr("the port, which is"));
  port.sm_known = false;
  (void)setup.on_port(port);
  EXPECT_THAT(setup.waiting_for(), HasSubstr("a subnet manager"));
  port.sm_known = true;
  port.pkey_index.reset();
  (void)setup.on_port(port);
  EXPECT_THAT(setup.waiting_for(), HasSubstr("the P_Key to appear"));
  port.pkey_index = 2;
  join();
  EXPECT_EQ(setup.waiting_for(), "") << "the groups know more";
  setup.stop();
  EXPECT_THAT(setup.waiting_for(), HasSubstr("shut down"));
}

}  // namespace
}  // namespace ipoib::link
