#include "daemon/interfaces/neighbour_store.hpp"

#include <gtest/gtest.h>

namespace ipoib::daemon::neighbour_store {
namespace {

using control::StaticNeighbour;
using All = std::vector<StaticNeighbour>;

constexpr PKey kPartition{0x8012};
constexpr Ipv4Address kFirst{0x0a2c0002};
constexpr Ipv4Address kSecond{0x0a2c0003};
const Gid kGid = *Gid::parse("fe80::2");
const Gid kOtherGid = *Gid::parse("fe80::3");
const HwAddress kHardware{0, Qpn(0x401), kGid};

class NeighbourStoreTest : public ::testing::Test {
 protected:
  NeighbourStore store{{{kFirst, kHardware, ""}, {kSecond, kGid, "ib0.8012"}}};
  std::shared_ptr<StaticNeighbours> ours = store.of(kPartition, "ib0.8012");
};

TEST_F(NeighbourStoreTest, BeginsWithTheLinesOfTheFileForTheInterface) {
  EXPECT_EQ(ours->all(), (All{{kFirst, kHardware, ""}, {kSecond, kGid, ""}}));
  EXPECT_EQ(store.of(PKey(0xffff), "ib0")->all(), (All{{kFirst, kHardware, ""}}));
}

TEST_F(NeighbourStoreTest, LinesForTheInterfaceTakePrecedence) {
  NeighbourStore both({{kFirst, kGid, "ib0"}, {kFirst, kHardware, ""}});
  EXPECT_EQ(both.of(kPartition, "ib0")->all(), (All{{kFirst, kGid, ""}}));
  EXPECT_EQ(both.of(PKey(0xffff), "ib1")->all(), (All{{kFirst, kHardware, ""}}));
}

TEST_F(NeighbourStoreTest, FollowsTheOperator) {
  ours->on_done(control::PinRequest{control::SetRequest::Mode::replace, kFirst, kOtherGid});
  ours->on_done(control::SetRequest{control::SetRequest::Mode::replace, kSecond, kHardware});
  EXPECT_EQ(ours->all(), (All{{kFirst, kOtherGid, ""}, {kSecond, kHardware, ""}}));
  ours->on_done(control::DeleteRequest{kFirst});
  ours->on_done(control::DeleteRequest{kFirst});
  ours->on_done(control::StatsRequest{});
  EXPECT_EQ(ours->all(), (All{{kSecond, kHardware, ""}}));
}

TEST_F(NeighbourStoreTest, KnowsWhatIsTheOperators) {
  EXPECT_EQ(ours->by_operator(), All{});
  ours->on_done(control::PinRequest{control::SetRequest::Mode::replace, kFirst, kOtherGid});
  const Ipv4Address third(0x0a2c0004);
  ours->add(All{{kFirst, kHardware, ""}, {third, kGid, ""}});  // from another daemon
  EXPECT_EQ(ours->by_operator(), (All{{kFirst, kOtherGid, ""}, {third, kGid, ""}}));
  EXPECT_EQ(ours->all(), (All{{kFirst, kOtherGid, ""}, {kSecond, kGid, ""}, {third, kGid, ""}}));
  ours->on_done(control::DeleteRequest{kFirst});
  EXPECT_EQ(ours->by_operator(), (All{{third, kGid, ""}}));
}

TEST_F(NeighbourStoreTest, OutlivesTheInterface) {
  ours->on_done(control::DeleteRequest{kFirst});
  EXPECT_EQ(store.of(kPartition, "ib0.8012")->all(), (All{{kSecond, kGid, ""}}));
}

TEST_F(NeighbourStoreTest, IsForgottenWithADeletedInterface) {
  ours->on_done(control::DeleteRequest{kFirst});
  store.forget(kPartition);
  EXPECT_EQ(ours->all().size(), 1U) << "the interface still has its own";
  ours->on_done(control::DeleteRequest{kSecond});
  EXPECT_EQ(store.of(kPartition, "ib0.8012")->all().size(), 2U);
}

TEST_F(NeighbourStoreTest, TakesOverWhatChangesInTheFile) {
  const auto others = store.of(PKey(0xffff), "ib0");
  const auto changes = store.replace_file({{kFirst, kGid, ""}, {kSecond, kGid, "ib0.8012"}});
  EXPECT_EQ(changes, (std::map<PKey, NeighbourChanges>{{kPartition, {{kFirst, kGid}}},
                                                       {PKey(0xffff), {{kFirst, kGid}}}}));
  EXPECT_EQ(others->all(), (All{{kFirst, kGid, ""}}));
  EXPECT_EQ(store.replace_file({}).at(kPartition),
            (NeighbourChanges{{kFirst, std::nullopt}, {kSecond, std::nullopt}}));
  EXPECT_EQ(ours->all(), All());
  EXPECT_EQ(store.replace_file({}).size(), 0U);
  (void)store.replace_file({{kSecond, kHardware, ""}});
  EXPECT_EQ(store.of(PKey(0x8013), "ib0.8013")->all(), (All{{kSecond, kHardware, ""}}))
      << "a new interface has the new file";
}

TEST_F(NeighbourStoreTest, AnUnchangedLineDoesNotUndoWhatTheOperatorHasDone) {
  ours->on_done(control::DeleteRequest{kFirst});
  ours->on_done(control::PinRequest{control::SetRequest::Mode::replace, kSecond, kOtherGid});
  EXPECT_TRUE(store.replace_file({{kFirst, kHardware, ""}, {kSecond, kGid, "ib0.8012"}}).empty());
  EXPECT_TRUE(store.replace_file({{kFirst, kHardware, ""}}).empty())
      << "the entry is the operator's now";
  EXPECT_EQ(ours->all(), (All{{kSecond, kOtherGid, ""}}));
}

TEST_F(NeighbourStoreTest, FlushDeletesWhatItsStatesName) {
  const auto flush = [this](const control::Filter& filter) {
    ours->on_done(control::FlushRequest{filter});
    return ours->all().size();
  };
  EXPECT_EQ(flush({}), 2U);
  EXPECT_EQ(flush({.family = IpFamily::v4}), 2U);
  EXPECT_EQ(flush({.states = {"stale", "failed"}}), 2U);
  EXPECT_EQ(flush({.prefix = IpPrefix{kSecond, 32}, .states = {"permanent", "pinned"}}), 1U);
  EXPECT_EQ(flush({.states = {"pinned"}}), 1U);
  EXPECT_EQ(flush({.states = {"permanent"}}), 0U);
}

}  // namespace
}  // namespace ipoib::daemon::neighbour_store
