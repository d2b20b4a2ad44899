#include "daemon/handover_giver.hpp"

#include <cerrno>

#include "tests/unit/daemon/handover_fixture.hpp"

namespace ipoib::daemon::handover::giver_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Gid kGid(Gid::kLinkLocalPrefix, Guid(2));

class GiverTest : public HandoverFixture {
 protected:
  void on_mode(InterfaceNumber interface, PumpMode mode) override {
    giver.on_mode(interface, mode);
  }

  [[nodiscard]] static Hello own() {
    return {.program_version = "0.2.0", .device = "mlx5_0", .port = 1, .guid = Guid(1)};
  }
  void connect() { giver.on_connection(std::move(own_end)); }
  /// The interface passes a page of its cache.
  void save(const std::string& name, SavedCache page) {
    by_name[name]->saving(std::move(page));
    poll();
  }
  [[nodiscard]] static SavedCache page_of(std::size_t neighbours) {
    SavedCache page;
    page.neighbours.resize(neighbours);
    page.mtu = 2044;
    return page;
  }
  /// The numbers of stations and of their groups that a peer of this version gets.
  std::pair<std::size_t, std::size_t> stations_for(std::uint16_t version) {
    connect();
    Hello hello = own();
    hello.newest = version;
    peer_sends(hello);
    auto page = page_of(1);
    page.stations.resize(kMaxRecords + 1);
    page.station_groups.assign(3, {Ipv4Address(0xef010203), MacAddress(1)});
    save("ib0", page);
    save("ib0.8001", {});
    const auto all = sent();
    EXPECT_EQ(std::get<Offer>(all.at(0)).version, version);
    std::pair<std::size_t, std::size_t> count;
    for (const auto& each : all) {
      if (const auto* const some = std::get_if<Stations>(&each)) {
        count.first += some->stations.size();
      }
      if (const auto* const some = std::get_if<StationGroups>(&each)) {
        count.second += some->groups.size();
      }
    }
    return count;
  }
  /// Up to the peer's turn.
  void offer() {
    connect();
    peer_sends(own());
    save("ib0", {});
    save("ib0.8001", {});
    const auto all = sent();
    ASSERT_FALSE(all.empty());
    ASSERT_TRUE(all.back() == Message(Complete{}));
    (void)taken();
  }
  void retire() {
    offer();
    peer_sends(Ready{{kDefaultPKey, kRed}});
    EXPECT_THAT(taken(), ElementsAre("ib0 retired", "ib0.8001 retired"));
  }
  void release() {
    retire();
    by_name["ib0"]->owner().on_mode(number("ib0"), PumpMode::retired);
    EXPECT_THAT(sent(), IsEmpty()) << "the other one still serves its interface";
    by_name["ib0"]->owner().on_mode(number("ib0.8001"), PumpMode::retired);
    EXPECT_THAT(sent(), ElementsAre(Message(Released{})));
  }
  void expect_refusal(int code, const std::string& text) {
    const auto all = sent();
    ASSERT_THAT(all, SizeIs(testing::Ge(1U)));
    const auto* const refusal = std::get_if<Refusal>(&all.back());
    ASSERT_NE(refusal, nullptr);
    EXPECT_EQ(refusal->code, code);
    EXPECT_THAT(refusal->text, HasSubstr(text));
    poll();
    (void)sent();
    EXPECT_TRUE(is_closed);
  }

  unsigned ends = 0;
  unsigned questions = 0;  ///< about the daemon itself, each of which asks the device
  Giver giver{{.context = context,
               .interfaces = interfaces,
               .changes = changes,
               .own = [this] { return ++questions, own(); },
               .on_end = [this] { ++ends; },
               .log = *link::silent_logger()}};
};

TEST_F(GiverTest, AsksTheDeviceOnce) {
  offer();
  EXPECT_EQ(questions, 1U);
}

TEST_F(GiverTest, OffersEachInterfaceWithItsCache) {
  changes.added[kRed] = "ib0.8001";
  by_name["ib0"]->static_neighbours.assign(kMaxRecords + 1, {Ipv4Address(1), kGid, {}});
  connect();
  Hello hello = own();
  hello.program_version = "0.0.1";
  peer_sends(hello);
  EXPECT_THAT(taken(), ElementsAre("ib0 save 0"));
  auto first = page_of(3);
  first.send_groups = {*Gid::parse("ff12:401b:ffff::16")};
  first.next = link::NeighbourCursor{128};
  first.selection = {{"mlx5_1", 2}, true, 3};
  save("ib0", first);
  EXPECT_THAT(taken(), ElementsAre("ib0 save 128"));
  save("ib0", page_of(2));
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 save 0"));
  save("ib0.8001", page_of(0));
  const auto all = sent();
  ASSERT_THAT(all, SizeIs(9));
  const auto& offer = std::get<Offer>(all[0]);
  EXPECT_EQ(offer.version, kVersion);
  EXPECT_EQ(offer.program_version, own().program_version);
  EXPECT_EQ(offer.pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_THAT(offer.added, ElementsAre(std::pair(kRed, std::string("ib0.8001"))));
  EXPECT_TRUE(all[1] == Message(Interface{kDefaultPKey, 2044, first.selection}));
  EXPECT_THAT(std::get<Statics>(all[2]).neighbours, SizeIs(kMaxRecords));
  EXPECT_THAT(std::get<Statics>(all[3]).neighbours, SizeIs(1));
  EXPECT_TRUE(all[4] == Message(SendGroups{first.send_groups}));
  EXPECT_THAT(std::get<Neighbours>(all[5]).neighbours, SizeIs(3));
  EXPECT_THAT(std::get<Neighbours>(all[6]).neighbours, SizeIs(2));
  EXPECT_TRUE(all[7] == Message(Interface{kRed, 2044}));
  EXPECT_TRUE(all[8] == Message(Complete{}));
  EXPECT_EQ(descriptors, 2) << "that of each TUN";
  EXPECT_THAT(taken(), IsEmpty()) << "they are served as before";
}

TEST_F(GiverTest, HandsStationsOver) {
  EXPECT_EQ(stations_for(kVersionOfStations), std::pair(kMaxRecords + 1, std::size_t{3}));
}

TEST_F(GiverTest, APeerThatDoesNotKnowStationsGetsNone) {
  EXPECT_EQ(stations_for(1), std::pair(std::size_t{0}, std::size_t{0}));
}

TEST_F(GiverTest, WaitsUntilThePeerReads) {
  connect();
  peer_sends(own());
  auto page = page_of(128);
  page.next = link::NeighbourCursor{1};
  unsigned pages = 0;
  while (!calls.empty()) {
    ASSERT_LT(++pages, 10000U);
    (void)taken();
    save("ib0", page);
  }
  std::size_t received = 0;
  run_until([&] {
    received += sent().size();
    return !calls.empty();
  });
  EXPECT_EQ(received, 2 + pages) << "the offer, the interface and all pages";
}

TEST_F(GiverTest, RetiresTheInterfacesAndThenReleasesThem) {
  release();
  EXPECT_EQ(ends, 0U) << "peers still send to the old queue pairs";
  EXPECT_THAT(taken(), IsEmpty());
  EXPECT_TRUE(giver.end("SIGTERM")) << "nothing is left to be done";
  EXPECT_EQ(ends, 1U);
  EXPECT_THAT(taken(), ElementsAre("ib0 stop", "ib0.8001 stop"));
  for (auto& [name, interface] : by_name) interface->end();
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 ~", "ib0.8001 ~")) << "not removed";
  EXPECT_THAT(finished, ElementsAre(""));
}

TEST_F(GiverTest, EndsByItselfAWhileAfterTheRelease) {
  release();
  run_until([this] { return ends > 0; });
  EXPECT_THAT(taken(), ElementsAre("ib0 stop", "ib0.8001 stop"));
}

TEST_F(GiverTest, RemovesInterfacesThatTheNewDaemonDoesNotServe) {
  offer();
  peer_sends(Ready{{kRed}});
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 retired"));
  by_name["ib0"]->owner().on_mode(number("ib0.8001"), PumpMode::retired);
  EXPECT_TRUE(giver.end("SIGTERM"));
  for (auto& [name, interface] : by_name) interface->end();
  poll();
  EXPECT_THAT(taken(),
              ElementsAre("ib0 stop", "ib0.8001 stop", "ib0 remove", "ib0 ~", "ib0.8001 ~"));
}

TEST_F(GiverTest, GoesOnIfThePeerGoesBeforeItIsReady) {
  offer();
  peer = Connection(FileDescriptor());
  poll();
  EXPECT_THAT(taken(), IsEmpty());
  EXPECT_FALSE(giver.end("SIGTERM"));
}

TEST_F(GiverTest, ServesAgainIfThePeerGoesLater) {
  retire();
  const link::LoggedLines lines;
  peer = Connection(FileDescriptor());
  poll();
  EXPECT_THAT(lines.all(), testing::Contains(testing::ContainsRegex(
                               "the handover has failed: .*; serving the interfaces again")));
  EXPECT_THAT(taken(), ElementsAre("ib0 active", "ib0.8001 active"));
  EXPECT_FALSE(giver.end("SIGTERM"));
}

TEST_F(GiverTest, ServesAgainIfThePeerGoesAfterTheRelease) {
  release();
  peer = Connection(FileDescriptor());
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 active", "ib0.8001 active"));
  EXPECT_EQ(ends, 0U);
}

TEST_F(GiverTest, SurvivesThatThePeerGoesAtTheEnd) {
  release();
  EXPECT_TRUE(giver.end("SIGTERM"));
  (void)taken();
  peer = Connection(FileDescriptor());
  poll();
  EXPECT_THAT(taken(), IsEmpty());
  EXPECT_EQ(ends, 1U);
}

TEST_F(GiverTest, AnotherHandoverMayFollowAFailedOne) {
  connect();
  peer_sends(Refusal{EIO, "not today"});
  poll();
  std::array<int, 2> ends_of_pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_of_pair.data()), 0);
  own_end = FileDescriptor(ends_of_pair[0]);
  peer = Connection(FileDescriptor(ends_of_pair[1]));
  offer();
}

TEST_F(GiverTest, RefusesASecondPeer) {
  connect();
  std::array<int, 2> ends_of_pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_of_pair.data()), 0);
  Connection second(FileDescriptor{ends_of_pair[1]});
  giver.on_connection(FileDescriptor(ends_of_pair[0]));
  const auto answer = second.receive();
  ASSERT_TRUE(answer && *answer);
  EXPECT_EQ(std::get<Refusal>((*answer)->message).code, EBUSY);
}

TEST_F(GiverTest, RefusesADaemonOfAnotherPort) {
  connect();
  auto other = own();
  other.guid = Guid(2);
  peer_sends(other);
  expect_refusal(ENODEV, "mlx5_0 port 1");
}

TEST_F(GiverTest, RefusesADaemonOfOtherPartitions) {
  connect();
  auto other = own();
  other.pkeys = {PKey(0x8002)};
  peer_sends(other);
  expect_refusal(ENODEV, "other partitions");
}

TEST_F(GiverTest, AcceptsADaemonOfSomeOfThePartitions) {
  connect();
  auto other = own();
  other.pkeys = {PKey(0x8002), kRed};
  peer_sends(other);
  EXPECT_TRUE(std::holds_alternative<Offer>(sent().at(0)));
}

TEST_F(GiverTest, RefusesAnotherVersionAndSaysWhich) {
  connect();
  auto other = own();
  other.program_version = "9.9";
  other.oldest = kVersion + 1;
  other.newest = kVersion + 2;
  peer_sends(other);
  expect_refusal(EPROTONOSUPPORT, "ipoibd 9.9 the versions 3 to 4: stop it first");
}

TEST_F(GiverTest, SpeaksTheOlderOfTwoVersions) {
  connect();
  auto newer = own();
  newer.newest = kVersion + 1;
  peer_sends(newer);
  EXPECT_EQ(std::get<Offer>(sent().at(0)).version, kVersion);
}

TEST_F(GiverTest, RefusesMessagesOutOfPlace) {
  connect();
  peer_sends(Ready{{kRed}});
  expect_refusal(EPROTO, "out of place");
}

TEST_F(GiverTest, RefusesASecondHello) {
  offer();
  peer_sends(own());
  expect_refusal(EPROTO, "out of place");
}

TEST_F(GiverTest, RefusesIfNoneOfTheInterfacesIsLeft) {
  offer();
  peer_sends(Ready{{PKey(0x8002)}});
  expect_refusal(EINVAL, "no such interface");
  EXPECT_THAT(taken(), IsEmpty());
}

TEST_F(GiverTest, ThePeerLearnsThatTheDaemonEnds) {
  offer();
  EXPECT_FALSE(giver.end("it is ending"));
  expect_refusal(ECANCELED, "it is ending");
}

TEST_F(GiverTest, LeavesOutAnInterfaceThatEndsMeanwhile) {
  connect();
  peer_sends(own());
  by_name["ib0"]->end({StopReason::Kind::deleted, {}});
  poll();
  auto late = by_name["ib0.8001"]->saving;
  EXPECT_THAT(taken(), ElementsAre("ib0 save 0", "ib0 forget neighbours", "ib0 ~"));
  EXPECT_EQ(sent().size(), 1U) << "the offer; then it waits in vain until the timeout";
}

}  // namespace
}  // namespace ipoib::daemon::handover::giver_tests
