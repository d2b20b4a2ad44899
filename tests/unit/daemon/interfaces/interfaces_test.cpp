#include "daemon/interfaces/interfaces.hpp"

#include <gmock/gmock.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include <boost/asio/post.hpp>
#include <cerrno>

#include "tests/unit/daemon/interfaces/interfaces_fixture.hpp"

namespace ipoib::daemon {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class InterfacesTest : public InterfacesFixture {
 protected:
  /// A request by `ibarp interface add` to the interface `beside`.
  [[nodiscard]] Result<std::string> add(const std::string& beside, PKey partition,
                                        const std::string& name) {
    auto& interface = *by_name[beside];
    return interface.owner().add_interface(interface.id().number, partition, name);
  }
  void report(const std::string& name, const std::string& waiting_for) {
    auto& interface = *by_name[name];
    interface.owner().on_report(interface.id().number, {waiting_for});
  }
};

TEST_F(InterfacesTest, CreatesOneForEachPartition) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  EXPECT_THAT(taken(), ElementsAre("ib0 port", "ib0.8001 port"));
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey, kRed, PKey(0x8002)})});
  EXPECT_THAT(taken(), ElementsAre("ib0.8002 port", "ib0 port", "ib0.8001 port", "ib0.8002 port"));
  EXPECT_NE(by_name["ib0"]->id().number, by_name["ib0.8001"]->id().number);
}

TEST_F(InterfacesTest, APartitionOfEitherPortHasAnInterface) {
  Interfaces both({.context = context,
                   .factory = *this,
                   .options = options,
                   .kept = kept,
                   .changes = changes,
                   .owner = *this,
                   .sa = *this,
                   .handed = handed,
                   .has_backup = true,
                   .log = *link::silent_logger()});
  both.start(port_in({kDefaultPKey}));
  both.on_event(PortUpdate{PortRole::backup, port_in({kDefaultPKey, kRed})});
  EXPECT_THAT(taken(),
              ElementsAre("ib0 port", "ib0 backup port", "ib0.8001 port", "ib0.8001 backup port",
                          "ib0 backup port", "ib0.8001 backup port"));
  both.on_event(PortUpdate{PortRole::backup, port_in({}, false)});
  EXPECT_THAT(taken(), ElementsAre("ib0 backup port", "ib0.8001 backup port"))
      << "a port that is down may be in any partition";
  both.on_event(PortUpdate{PortRole::backup, port_in({kDefaultPKey})});
  EXPECT_EQ(taken().front(), "ib0.8001 stop") << "no port is in it any more";
}

TEST_F(InterfacesTest, StatusNamesWhatEachWaitsFor) {
  interfaces.start(port_in({}));
  EXPECT_EQ(interfaces.status(), "waiting for a partition in the port's P_Key table");
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey, kRed})});
  EXPECT_EQ(interfaces.status(), "ib0 starts; ib0.8001 starts");
  report("ib0", "the SA");
  report("ib0", "the SA");
  report("ib0.8001", "");
  EXPECT_THAT(statuses, ElementsAre("ib0 waits for the SA; ib0.8001 starts",
                                    "ib0 waits for the SA; ib0.8001 is up"));
  by_name["ib0"]->end();
  poll();
  EXPECT_THAT(interfaces.status(), testing::HasSubstr("ib0.8001 is up"));
}

TEST_F(InterfacesTest, FollowsTheConfiguration) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  (void)taken();
  interfaces.reconfigure({});
  EXPECT_THAT(taken(), IsEmpty());
  interfaces.reconfigure({.poll = PollMode::busy});
  EXPECT_THAT(taken(), ElementsAre("ib0 reconfigure poll", "ib0.8001 reconfigure poll"));
  interfaces.reconfigure({.neighbours = {{kRed, {{Ipv4Address(0x0a2c0002), std::nullopt}}}}});
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 reconfigure neighbours"));
  interfaces.reconfigure({.pkeys = std::vector<PKey>{kDefaultPKey}});
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 stop"));
  by_name["ib0.8001"]->end();
  poll();
  (void)taken();
  interfaces.reconfigure({.pkeys = std::vector<PKey>{kDefaultPKey, kRed}});
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 port"));
}

TEST_F(InterfacesTest, StatusHasALimitedLength) {
  interfaces.start(port_in({kDefaultPKey}));
  report("ib0", std::string(1000, 'x'));
  EXPECT_EQ(interfaces.status().size(), 516U);
}

TEST_F(InterfacesTest, KnowsWhetherTheThreadsRespond) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  EXPECT_TRUE(interfaces.threads_respond());
  (void)taken();
  interfaces.check_threads();
  EXPECT_THAT(taken(), ElementsAre("ib0 report", "ib0.8001 report"));
  EXPECT_FALSE(interfaces.threads_respond());
  report("ib0", "");
  EXPECT_FALSE(interfaces.threads_respond()) << "one does not";
  report("ib0.8001", "");
  EXPECT_TRUE(interfaces.threads_respond());
  interfaces.check_threads();
  report("ib0", "");
  by_name["ib0.8001"]->end({StopReason::Kind::moved, ""});
  poll();
  EXPECT_TRUE(interfaces.threads_respond()) << "one that has ended need not";
}

/// Its link could not leave its groups after learning that the port has left the partition.
TEST_F(InterfacesTest, StopsTheInterfaceOfARemovedPartitionFirst) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  (void)taken();
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey})});
  EXPECT_EQ(taken().at(0), "ib0.8001 stop");
  by_name["ib0.8001"]->end();
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 remove", "ib0.8001 ~"));
  EXPECT_THAT(finished, IsEmpty());
}

TEST_F(InterfacesTest, KeepsInterfacesWhileThePortIsNotActive) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  (void)taken();
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({}, false)});
  EXPECT_THAT(taken(), ElementsAre("ib0 port", "ib0.8001 port"));
}

TEST_F(InterfacesTest, CreatesAnInterfaceAgainWhenItsPartitionIsBackBeforeItHasEnded) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey})});
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey, kRed})});
  (void)taken();
  by_name["ib0.8001"]->end();
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 remove", "ib0.8001 ~", "ib0.8001 port"));
}

TEST_F(InterfacesTest, DistributesEvents) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  (void)taken();
  interfaces.on_event(ClientReregister{PortRole::primary});
  EXPECT_THAT(taken(), ElementsAre("ib0 reregister", "ib0.8001 reregister"));
  interfaces.on_event(SubnetNotice{{}, PortRole::primary});
  EXPECT_THAT(taken(), ElementsAre("ib0 notice", "ib0.8001 notice"));
  interfaces.on_event(ObjectFailed{this});
  EXPECT_THAT(taken(), ElementsAre("ib0 object failed", "ib0.8001 object failed"));
}

TEST_F(InterfacesTest, PassesAResponseToItsInterfaceIfThatStillExists) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  (void)taken();
  const auto number = by_name["ib0.8001"]->id().number;
  interfaces.on_event(wire::SaResponse{first_link_request(number), wire::McMemberRecord{}});
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 response"));
  by_name["ib0.8001"]->end();
  poll();
  (void)taken();
  interfaces.on_event(wire::SaResponse{first_link_request(number), wire::McMemberRecord{}});
  EXPECT_THAT(taken(), IsEmpty());
}

TEST_F(InterfacesTest, AFailureAtTheStartRemovesWhatWasCreated) {
  refused = "ib0.8001";
  EXPECT_THROW(interfaces.start(port_in({kDefaultPKey, kRed})), std::runtime_error);
  EXPECT_THAT(taken(), ElementsAre("ib0 port", "ib0 remove"));
  EXPECT_THAT(kept, IsEmpty());
}

TEST_F(InterfacesTest, AFailureAtTheStartKeepsWhatExistedBefore) {
  refused = "ib0.8001";
  existing = "ib0";
  EXPECT_THROW(interfaces.start(port_in({kDefaultPKey, kRed})), std::runtime_error);
  EXPECT_THAT(taken(), ElementsAre("ib0 port"));
  EXPECT_THAT(kept, ElementsAre(Key("ib0")));
}

TEST_F(InterfacesTest, AFailureLaterIsRetried) {
  interfaces.start(port_in({kDefaultPKey}));
  refused = "ib0.8001";
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey, kRed})});
  EXPECT_FALSE(by_name.contains("ib0.8001"));
  refused.clear();
  for (int i = 0; i < 2000 && !by_name.contains("ib0.8001"); ++i) context.run_one_for(10ms);
  EXPECT_TRUE(by_name.contains("ib0.8001"));
}

TEST_F(InterfacesTest, ADeletedInterfaceIsNotCreatedAgainUntilItsPartitionComesBack) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  by_name["ib0.8001"]->end({StopReason::Kind::deleted, {}});
  (void)taken();
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 forget neighbours", "ib0.8001 ~"));
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey, kRed})});
  EXPECT_THAT(taken(), ElementsAre("ib0 port"));
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey})});
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey, kRed})});
  EXPECT_THAT(taken(), ElementsAre("ib0 port", "ib0.8001 port", "ib0 port", "ib0.8001 port"));
  EXPECT_THAT(finished, IsEmpty());
}

TEST_F(InterfacesTest, TheLastDeletedInterfaceEndsAll) {
  interfaces.start(port_in({kDefaultPKey}));
  by_name["ib0"]->end({StopReason::Kind::deleted, {}});
  poll();
  EXPECT_THAT(finished, ElementsAre("interface ib0 was deleted"));
}

TEST_F(InterfacesTest, VlansEndWithTheLastNetworkInterface) {
  options.vlans = {{kRed, VlanId(18)}};
  Interfaces with_vlans(dependencies());
  with_vlans.start(port_in({kDefaultPKey, kRed}));
  ASSERT_TRUE(by_name.contains("ib0.18"));
  by_name["ib0"]->end({StopReason::Kind::deleted, {}});
  (void)taken();
  poll();
  EXPECT_THAT(taken(), Contains("ib0.18 stop"));
  EXPECT_THAT(finished, IsEmpty()) << "it leaves its groups first";
  by_name["ib0.18"]->end({StopReason::Kind::requested, {}});
  poll();
  EXPECT_THAT(finished, ElementsAre("interface ib0 was deleted"));
}

TEST_F(InterfacesTest, AFailedInterfaceStopsAllAndTheyAreKept) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  (void)taken();
  by_name["ib0"]->end({StopReason::Kind::failed, "broken"});
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 stop", "ib0 ~"));
  EXPECT_THAT(finished, IsEmpty()) << "the other one still leaves its groups";
  by_name["ib0.8001"]->end();
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 ~"));
  EXPECT_THAT(finished, ElementsAre("ib0: broken"));
  EXPECT_THAT(kept, ElementsAre(Key("ib0"), Key("ib0.8001")));
}

TEST_F(InterfacesTest, FollowsAMovedInterfaceUntilItsPartitionIsGone) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  const auto elsewhere = std::make_shared<const linux::NetworkNamespace>(
      linux::NetworkNamespace::open("/proc/self/ns/net").value());
  EXPECT_EQ(by_name["ib0.8001"]->id().home, nullptr);
  (void)taken();
  by_name["ib0.8001"]->now_in = elsewhere;
  by_name["ib0.8001"]->end({StopReason::Kind::moved, {}});
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 ~", "ib0.8001 port")) << "it is not removed";
  EXPECT_EQ(by_name["ib0.8001"]->id().home, elsewhere);
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey})});
  by_name["ib0.8001"]->end();
  poll();
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey, kRed})});
  EXPECT_EQ(by_name["ib0.8001"]->id().home, nullptr) << "a new one is created where all are";
}

TEST_F(InterfacesTest, AnInterfaceThatWasRenamedAndMovedIsFoundWhenTheDeviceIsBack) {
  const auto elsewhere = std::make_shared<const linux::NetworkNamespace>(
      linux::NetworkNamespace::open("/proc/self/ns/net").value());
  interfaces.start(port_in({kDefaultPKey}));
  by_name["ib0"]->now_in = elsewhere;
  by_name["ib0"]->now_called = "mgmt";
  by_name["ib0"]->end({StopReason::Kind::failed, "broken"});
  poll();
  ASSERT_THAT(kept, ElementsAre(Key("ib0")));
  EXPECT_EQ(kept["ib0"].name, "mgmt");
  EXPECT_EQ(kept["ib0"].home, elsewhere);
  Interfaces later(dependencies());
  later.start(port_in({kDefaultPKey}));
  EXPECT_EQ(by_name["ib0"]->id().home, elsewhere);
  EXPECT_THAT(kept, IsEmpty());
  EXPECT_THAT(discarded, IsEmpty());
}

TEST_F(InterfacesTest, VlansAreNamedAfterTheirTapWhenThatIsRenamed) {
  options.vlans = {{kRed, VlanId(18)}};
  Interfaces with_vlans(dependencies());
  with_vlans.start(port_in({kDefaultPKey, kRed}));
  (void)taken();
  const auto rename_tap = [&](const std::string& name) {
    by_name["ib0"]->now_called = name;
    by_name["ib0"]->owner().on_renamed(by_name["ib0"]->id().number, name);
  };
  rename_tap("lan");
  EXPECT_THAT(taken(), ElementsAre("ib0.18 rename lan.18"));
  rename_tap("fifteen-letters");
  EXPECT_THAT(taken(), IsEmpty()) << "there would be no such name";
  rename_tap("lan2");
  (void)taken();
  // One that is created later, and one whose TAP was renamed under another daemon.
  by_name["ib0.18"]->end();
  poll();
  with_vlans.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey})});
  with_vlans.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey, kRed})});
  EXPECT_EQ(by_name["ib0.18"]->now_called, "lan2.18");
}

TEST_F(InterfacesTest, RemovesAnInterfaceThatIsMovedAtTheEnd) {
  interfaces.start(port_in({kDefaultPKey}));
  (void)taken();
  interfaces.stop({});
  by_name["ib0"]->end({StopReason::Kind::moved, {}});
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 stop", "ib0 remove", "ib0 ~"));
  EXPECT_THAT(finished, ElementsAre(""));
}

TEST_F(InterfacesTest, KeepsInterfacesForTheNextDaemonIfWanted) {
  options.keep = true;
  interfaces.start(port_in({kDefaultPKey, kRed}));
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey})});
  (void)taken();
  by_name["ib0.8001"]->end();
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 remove", "ib0.8001 ~")) << "its partition has gone";
  interfaces.stop({});
  by_name["ib0"]->end();
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 stop", "ib0 ~"));
  EXPECT_THAT(finished, ElementsAre(""));
}

TEST_F(InterfacesTest, KeepsInterfacesAlsoAfterASecondSignal) {
  options.keep = true;
  interfaces.start(port_in({kDefaultPKey}));
  (void)taken();
  interfaces.stop({});
  interfaces.stop_now();
  EXPECT_THAT(taken(), ElementsAre("ib0 stop", "ib0 ~"));
}

TEST_F(InterfacesTest, KeepsNoInterfaceThatTheNextDaemonWouldNotFind) {
  options.keep = true;
  interfaces.start(port_in({kDefaultPKey}));
  (void)taken();
  interfaces.stop({});
  by_name["ib0"]->now_in = std::make_shared<const linux::NetworkNamespace>(
      linux::NetworkNamespace::open("/proc/self/ns/net").value());
  by_name["ib0"]->end({StopReason::Kind::moved, {}});
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 stop", "ib0 remove", "ib0 ~"));
}

TEST_F(InterfacesTest, KeepsAnInterfaceThatIsMovedWhileTheDeviceIsLost) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  (void)taken();
  interfaces.stop({StopReason::Kind::failed, "the device is gone"});
  const auto elsewhere = std::make_shared<const linux::NetworkNamespace>(
      linux::NetworkNamespace::open("/proc/self/ns/net").value());
  by_name["ib0"]->now_in = elsewhere;
  by_name["ib0"]->end({StopReason::Kind::moved, {}});
  poll();
  by_name["ib0.8001"]->end({StopReason::Kind::failed, "the device is gone"});
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 stop", "ib0.8001 stop", "ib0 ~", "ib0.8001 ~"));
  EXPECT_THAT(kept, ElementsAre(Key("ib0"), Key("ib0.8001")));
  EXPECT_EQ(kept["ib0"].home, elsewhere);
}

TEST_F(InterfacesTest, RemovesAnInterfaceThatTheOperatorDeletesWhileTheDaemonEnds) {
  options.keep = true;
  interfaces.start(port_in({kDefaultPKey, kRed}));
  auto& red = *by_name["ib0.8001"];
  red.owner().delete_interface(red.id().number, [](const Result<void>&) {});
  interfaces.stop({});
  (void)taken();
  red.end();
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 remove", "ib0.8001 remove now",
                                   "ib0.8001 forget neighbours", "ib0.8001 ~"));
}

TEST_F(InterfacesTest, InterfacesThatWereHandedOverStayForTheOtherDaemon) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  (void)taken();
  interfaces.hand_over({by_name["ib0"]->id().number});
  EXPECT_THAT(taken(), ElementsAre("ib0 stop", "ib0.8001 stop"));
  by_name["ib0"]->end();
  by_name["ib0.8001"]->end();
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 ~", "ib0.8001 remove", "ib0.8001 ~"));
  EXPECT_THAT(finished, ElementsAre("")) << "that is no failure";
  EXPECT_THAT(kept, IsEmpty());
}

TEST_F(InterfacesTest, AHandoverOfNothingEndsAtOnce) {
  interfaces.start(port_in({}));
  interfaces.hand_over({});
  EXPECT_THAT(finished, ElementsAre(""));
}

TEST_F(InterfacesTest, CreatesAHandedInterfaceWhereItIs) {
  const auto elsewhere = std::make_shared<const linux::NetworkNamespace>(
      linux::NetworkNamespace::open("/proc/self/ns/net").value());
  handed[kRed].home = elsewhere;
  interfaces.start(port_in({kDefaultPKey, kRed}));
  EXPECT_EQ(by_name["ib0.8001"]->id().home, elsewhere);
  EXPECT_EQ(by_name["ib0"]->id().home, nullptr);
}

TEST_F(InterfacesTest, PassesOnThatAModeWasReached) {
  interfaces.start(port_in({kDefaultPKey}));
  auto& red = *by_name["ib0"];
  red.owner().on_mode(red.id().number, PumpMode::retired);
  EXPECT_THAT(modes, ElementsAre(std::pair(red.id().number, PumpMode::retired)));
  EXPECT_EQ(interfaces.find(red.id().number), &red);
  EXPECT_EQ(interfaces.find(InterfaceNumber(99)), nullptr);
  EXPECT_THAT(interfaces.partitions(), ElementsAre(std::pair(red.id().number, kDefaultPKey)));
}

TEST_F(InterfacesTest, AddsAnInterface) {
  interfaces.start(port_in({kDefaultPKey}));
  (void)taken();
  EXPECT_EQ(*add("ib0", kRed, "red"), "red");
  EXPECT_THAT(taken(), ElementsAre("red port"));
  EXPECT_EQ(by_name["red"]->id().pkey, kRed);
  EXPECT_EQ(add("ib0", kRed, "").error().code, EEXIST);
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey})});
  EXPECT_THAT(taken(), UnorderedElementsAre("ib0 port", "red port")) << "it stays";
}

TEST_F(InterfacesTest, AddsAnInterfaceInTheNamespaceOfTheOneThatWasAsked) {
  interfaces.start(port_in({kDefaultPKey}));
  const auto elsewhere = std::make_shared<const linux::NetworkNamespace>(
      linux::NetworkNamespace::open("/proc/self/ns/net").value());
  by_name["ib0"]->now_in = elsewhere;
  by_name["ib0"]->end({StopReason::Kind::moved, {}});
  poll();
  ASSERT_TRUE(add("ib0", kRed, "red"));
  EXPECT_EQ(by_name["red"]->id().home, elsewhere);
}

TEST_F(InterfacesTest, AnInterfaceThatCannotBeCreatedIsNotAdded) {
  interfaces.start(port_in({kDefaultPKey}));
  (void)taken();
  refused = "ib0.8001";
  const auto added = add("ib0", kRed, "");
  EXPECT_EQ(added.error().message, "ib0.8001 is refused");
  refused.clear();
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey})});
  EXPECT_THAT(taken(), ElementsAre("ib0 port"));
  EXPECT_TRUE(add("ib0", kRed, "")) << "nothing is left of the failed attempt";
}

TEST_F(InterfacesTest, DeletesAnInterfaceAndThenResponds) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  (void)taken();
  auto& red = *by_name["ib0.8001"];
  red.owner().delete_interface(red.id().number, [&](const Result<void>& deleted) {
    EXPECT_TRUE(deleted);
    boost::asio::post(context, [&] { calls.push_back("response is written"); });
  });
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 stop"));
  red.end();
  poll();
  EXPECT_THAT(taken(),
              ElementsAre("ib0.8001 remove", "ib0.8001 remove now", "ib0.8001 forget neighbours",
                          "response is written", "ib0.8001 ~"))
      << "its server writes it";
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey, kRed})});
  EXPECT_THAT(taken(), ElementsAre("ib0 port")) << "it is not created again";
  EXPECT_EQ(*add("ib0", kRed, ""), "ib0.8001");
  EXPECT_THAT(finished, IsEmpty());
}

TEST_F(InterfacesTest, DeletesAnInterfaceThatIsMovedMeanwhile) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  auto& red = *by_name["ib0.8001"];
  bool done = false;
  red.owner().delete_interface(red.id().number,
                               [&](const Result<void>& deleted) { done = deleted.has_value(); });
  (void)taken();
  red.end({StopReason::Kind::moved, {}});
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 remove", "ib0.8001 remove now",
                                   "ib0.8001 forget neighbours", "ib0.8001 ~"));
  EXPECT_TRUE(done);
}

TEST_F(InterfacesTest, ADeletedInterfaceThatFailsIsKeptLikeTheOthers) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  auto& red = *by_name["ib0.8001"];
  bool done = false;
  red.owner().delete_interface(red.id().number, [&](const Result<void>&) { done = true; });
  red.end({StopReason::Kind::failed, "broken"});
  poll();
  EXPECT_FALSE(done) << "the groups were not left";
  EXPECT_THAT(kept, ElementsAre(Key("ib0.8001")));
}

TEST_F(InterfacesTest, RefusesToDeleteTheLastInterface) {
  interfaces.start(port_in({kDefaultPKey}));
  (void)taken();
  auto& only = *by_name["ib0"];
  int code = 0;
  const auto take = [&](const Result<void>& deleted) { code = deleted.error().code; };
  only.owner().delete_interface(only.id().number, take);
  EXPECT_EQ(code, EBUSY);
  EXPECT_THAT(taken(), IsEmpty());
  interfaces.stop({});
  only.owner().delete_interface(only.id().number, take);
  EXPECT_EQ(code, ESHUTDOWN);
  EXPECT_EQ(add("ib0", kRed, "").error().code, ESHUTDOWN);
  EXPECT_EQ(add("ib0", kRed, "").error().message, "the interface is ending: start ipoibd again");
}

TEST_F(InterfacesTest, StopEndsAllOnce) {
  interfaces.start(port_in({kDefaultPKey, kRed}));
  (void)taken();
  interfaces.stop({});
  interfaces.stop({StopReason::Kind::failed, "later"});
  EXPECT_THAT(taken(), ElementsAre("ib0 stop", "ib0.8001 stop"));
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey, kRed, PKey(0x8002)})});
  EXPECT_FALSE(by_name.contains("ib0.8002")) << "nothing is created any more";
  (void)taken();
  by_name["ib0"]->end();
  by_name["ib0.8001"]->end();
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 remove", "ib0 ~", "ib0.8001 remove", "ib0.8001 ~"));
  EXPECT_THAT(finished, ElementsAre(""));
}

TEST_F(InterfacesTest, SaysOnceThatPartitionsHaveNoInterface) {
  const auto lines = std::make_shared<spdlog::sinks::ringbuffer_sink_st>(512);
  link::silent_logger()->sinks().push_back(lines);
  std::vector<PKey> partitions;
  for (std::size_t i = 1; i <= kMaxInterfaces + 2; ++i) {
    partitions.emplace_back(static_cast<std::uint16_t>(0x8000 | i));
  }
  interfaces.start(port_in({}));
  for (int i = 0; i < 3; ++i)
    interfaces.on_event(PortUpdate{PortRole::primary, port_in(partitions)});
  std::erase(link::silent_logger()->sinks(), lines);
  const auto all = lines->last_formatted();
  EXPECT_EQ(std::ranges::count_if(
                all,
                [](const std::string& line) {
                  return line.find("2 partitions have no interface: the maximum is ") != line.npos;
                }),
            1);
}

TEST_F(InterfacesTest, DiscardsKeptInterfacesOfPartitionsThatAreGone) {
  kept = {{"ib0", {"ib0"}}, {"ib0.8001", {"renamed"}}};
  interfaces.start(port_in({kDefaultPKey}));
  EXPECT_THAT(discarded, ElementsAre("renamed"));
  EXPECT_THAT(kept, IsEmpty());
}

TEST_F(InterfacesTest, DoesNotDiscardKeptInterfacesBeforeThePortIsActive) {
  kept = {{"ib0.8001", {"ib0.8001"}}};
  interfaces.start(port_in({}, false));
  EXPECT_THAT(discarded, IsEmpty());
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kDefaultPKey}, false)});
  EXPECT_THAT(discarded, IsEmpty());
  interfaces.on_event(PortUpdate{PortRole::primary, port_in({kRed})});
  EXPECT_THAT(discarded, IsEmpty());
  EXPECT_THAT(kept, IsEmpty());
}

}  // namespace
}  // namespace ipoib::daemon
