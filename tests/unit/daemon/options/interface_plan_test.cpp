#include "daemon/options/interface_plan.hpp"

#include <gmock/gmock.h>

#include <cerrno>

namespace ipoib::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr bool kActive = true;
constexpr bool kDown = false;
constexpr PKey kRed{0x8001};
constexpr PKey kBlue{0x8002};
using Table = std::vector<PKey>;

class InterfacePlanTest : public ::testing::Test {
 protected:
  OperatorChanges by_operator;
  InterfacePlan plan{{}, "ib0", by_operator};  ///< all partitions in the table
};

TEST(PartitionsOfTest, AreFullMembersKeysWithTheDefaultOneFirst) {
  const Table table{PKey(0x8001), PKey(0), PKey(0x7fff), PKey(0x0001), PKey(0x8000), PKey(0x0002)};
  EXPECT_THAT(partitions_of(table), ElementsAre(kDefaultPKey, kRed, kBlue));
  EXPECT_EQ(list_of(table), "0x8001, 0x7fff, 0x0001, 0x0002");
  EXPECT_THAT(partitions_of({}), IsEmpty());
  EXPECT_EQ(list_of({}), "none");
}

TEST_F(InterfacePlanTest, NamesInterfacesAsLinuxDoes) {
  EXPECT_EQ(plan.name_of(kDefaultPKey), "ib0");
  EXPECT_EQ(plan.name_of(kRed), "ib0.8001");
  const InterfacePlan several({kBlue, kRed}, "ibx", by_operator);
  EXPECT_EQ(several.name_of(kBlue), "ibx.8002");
  EXPECT_EQ(several.name_of(kRed), "ibx.8001");
  const InterfacePlan one({kRed}, "ibx", by_operator);
  EXPECT_EQ(one.name_of(kRed), "ibx") << "the only one chosen";
  EXPECT_EQ(one.name_of(kDefaultPKey), "ibx.ffff") << "the name is taken";
  EXPECT_EQ(one.name_of(kBlue), "ibx.8002");
  EXPECT_EQ(plan.name_of(kRed).size() - std::string("ib0").size(), kPartitionSuffix);
}

TEST_F(InterfacePlanTest, VlansAreChosenWithTheInterfaceThatCarriesThem) {
  InterfacePlan carrier({kRed}, "ibx", by_operator, {{kBlue, VlanId(18)}});
  EXPECT_EQ(carrier.name_of(kRed), "ibx") << "still the only one chosen";
  EXPECT_EQ(carrier.name_of(kBlue), "ibx.18");
  EXPECT_THAT(carrier.update(kActive, {}).create, ElementsAre(kRed, kBlue));
  InterfacePlan all({}, "ib0", by_operator, {{kBlue, VlanId(18)}});
  EXPECT_THAT(all.update(kActive, Table{kDefaultPKey}).create, ElementsAre(kDefaultPKey));
  EXPECT_THAT(all.update(kActive, Table{kDefaultPKey, kBlue}).create, ElementsAre(kBlue));
  EXPECT_THAT(all.update(kActive, Table{kDefaultPKey}).remove, ElementsAre(kBlue));
}

TEST_F(InterfacePlanTest, AVlanIsNotTheLastInterface) {
  InterfacePlan carrier({kRed}, "ibx", by_operator, {{kBlue, VlanId(18)}});
  (void)carrier.update(kActive, {});
  EXPECT_EQ(carrier.remove(kRed).error().code, EBUSY) << "only the VLAN would be left";
  EXPECT_TRUE(carrier.remove(kBlue));
}

TEST_F(InterfacePlanTest, OthersCanBeChosen) {
  const Table table{kDefaultPKey, kRed, kBlue};
  (void)plan.update(kActive, table);
  plan.choose({kDefaultPKey, kRed});
  EXPECT_THAT(plan.update(kActive, table).remove, ElementsAre(kBlue));
  plan.on_removed(kBlue);
  plan.choose({});
  EXPECT_THAT(plan.update(kActive, table).create, ElementsAre(kBlue));
}

TEST_F(InterfacePlanTest, TheBasePartitionIsTheOnlyChosenOneOrTheDefaultOne) {
  EXPECT_EQ(base_partition({}), kDefaultPKey);
  EXPECT_EQ(base_partition(Table{kRed}), kRed);
  EXPECT_EQ(base_partition(Table{kRed, kBlue}), kDefaultPKey);
}

TEST_F(InterfacePlanTest, FollowsTheTableIfNoneIsChosen) {
  EXPECT_THAT(plan.update(kActive, Table{}).create, IsEmpty());
  auto changes = plan.update(kActive, Table{kDefaultPKey, kRed});
  EXPECT_THAT(changes.create, ElementsAre(kDefaultPKey, kRed));
  EXPECT_THAT(changes.remove, IsEmpty());

  changes = plan.update(kActive, Table{kRed, kDefaultPKey, PKey(kBlue.base())});
  EXPECT_THAT(changes.create, ElementsAre(kBlue)) << "a key that moves needs no new interface";
  EXPECT_THAT(changes.remove, IsEmpty());

  changes = plan.update(kActive, Table{kDefaultPKey, kBlue});
  EXPECT_THAT(changes.create, IsEmpty());
  EXPECT_THAT(changes.remove, ElementsAre(kRed));
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey, kBlue}).remove, IsEmpty()) << "only once";
}

TEST_F(InterfacePlanTest, RecreatesAnInterfaceAfterTheOldOneWasRemoved) {
  (void)plan.update(kActive, Table{kRed});
  (void)plan.update(kActive, Table{});
  EXPECT_THAT(plan.update(kActive, Table{kRed}).create, IsEmpty())
      << "the old one is being removed";
  plan.on_removed(kRed);
  EXPECT_THAT(plan.update(kActive, Table{kRed}).create, ElementsAre(kRed));
}

TEST_F(InterfacePlanTest, KeepsInterfacesWhileThePortIsDown) {
  EXPECT_THAT(plan.update(kDown, Table{kDefaultPKey, kRed}).create,
              ElementsAre(kDefaultPKey, kRed));
  EXPECT_THAT(plan.update(kDown, Table{kDefaultPKey}).remove, IsEmpty());
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey}).remove, ElementsAre(kRed));
}

TEST_F(InterfacePlanTest, CreatesChosenInterfacesRegardlessOfTheTable) {
  InterfacePlan chosen({kRed, kBlue}, "ib0", by_operator);
  EXPECT_THAT(chosen.update(kActive, Table{kDefaultPKey}).create, ElementsAre(kRed, kBlue));
  const auto changes = chosen.update(kActive, Table{kRed});
  EXPECT_THAT(changes.create, IsEmpty());
  EXPECT_THAT(changes.remove, IsEmpty());
}

TEST_F(InterfacePlanTest, SuppressesADeletedInterfaceWhileItsPartitionStays) {
  (void)plan.update(kActive, Table{kDefaultPKey, kRed});
  plan.forget(kRed);
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey, kRed}).create, IsEmpty());
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey}).remove, IsEmpty())
      << "there is no interface";
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey, kRed}).create, ElementsAre(kRed));
}

TEST_F(InterfacePlanTest, AnAddedInterfaceStaysUntilItIsDeleted) {
  (void)plan.update(kActive, Table{kDefaultPKey});
  ASSERT_TRUE(plan.add(kRed, ""));
  EXPECT_EQ(plan.name_of(kRed), "ib0.8001");
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey, kRed}).create, IsEmpty())
      << "it is created already";
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey}).remove, IsEmpty());
  ASSERT_TRUE(plan.remove(kRed));
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey}).create, IsEmpty());
  plan.on_removed(kRed);
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey}).create, IsEmpty());
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey, kRed}).create, ElementsAre(kRed))
      << "as any other";
}

TEST_F(InterfacePlanTest, AnAddedInterfaceReturnsWithTheDevice) {
  (void)plan.update(kActive, Table{kDefaultPKey});
  ASSERT_TRUE(plan.add(kRed, "red"));
  InterfacePlan next({}, "ib0", by_operator);
  EXPECT_THAT(next.update(kDown, Table{}).create, ElementsAre(kRed));
  EXPECT_EQ(next.name_of(kRed), "red");
  EXPECT_THAT(next.update(kActive, Table{kDefaultPKey}).create, ElementsAre(kDefaultPKey));
}

TEST_F(InterfacePlanTest, ADeletedInterfaceStaysDeletedWhileItsPartitionStays) {
  const Table both{kDefaultPKey, kRed};
  (void)plan.update(kActive, both);
  ASSERT_TRUE(plan.remove(kRed));
  plan.on_removed(kRed);
  EXPECT_THAT(plan.update(kActive, both).create, IsEmpty());
  InterfacePlan next({}, "ib0", by_operator);
  EXPECT_THAT(next.update(kActive, both).create, ElementsAre(kDefaultPKey))
      << "also after a loss of the device";
  (void)plan.update(kDown, Table{kDefaultPKey});
  EXPECT_THAT(plan.update(kActive, both).create, IsEmpty())
      << "the table of a port that is down does not count";
  (void)plan.update(kActive, Table{kDefaultPKey});
  EXPECT_THAT(plan.update(kActive, both).create, ElementsAre(kRed));
}

TEST_F(InterfacePlanTest, ADeletedInterfaceCanBeAddedAgain) {
  const Table both{kDefaultPKey, kRed};
  (void)plan.update(kActive, both);
  ASSERT_TRUE(plan.remove(kRed));
  plan.on_removed(kRed);
  ASSERT_TRUE(plan.add(kRed, "red"));
  plan.cancel_add(kRed);
  EXPECT_THAT(plan.update(kActive, both).create, IsEmpty()) << "it could not be created";
  EXPECT_EQ(plan.name_of(kRed), "ib0.8001");
  ASSERT_TRUE(plan.add(kRed, "red"));
  plan.on_removed(kRed);  // it was moved to another network namespace
  EXPECT_THAT(plan.update(kActive, both).create, ElementsAre(kRed));
}

TEST_F(InterfacePlanTest, AnAddedInterfaceThatIsDeletedInTheKernelIsForgotten) {
  (void)plan.update(kActive, Table{kDefaultPKey});
  ASSERT_TRUE(plan.add(kRed, "red"));
  plan.forget(kRed);
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey}).create, IsEmpty());
  EXPECT_TRUE(by_operator.added.empty());
}

TEST_F(InterfacePlanTest, RefusesWhatCannotBeAdded) {
  (void)plan.update(kActive, Table{kDefaultPKey, kBlue});
  const auto code = [&](PKey partition, const std::string& name) {
    const auto added = plan.add(partition, name);
    return added ? 0 : added.error().code;
  };
  EXPECT_EQ(code(PKey(0x8000), ""), EINVAL);
  EXPECT_EQ(code(kRed, "a/b"), EINVAL);
  EXPECT_EQ(code(kRed, "0123456789abcdef"), EINVAL);
  EXPECT_EQ(code(kRed, "ib0"), EEXIST) << "another interface has the name";
  EXPECT_EQ(code(kBlue, ""), EEXIST);
  EXPECT_THAT(plan.add(kBlue, "").error().message,
              ::testing::MatchesRegex("partition 0x.... has the interface .* already"));
  EXPECT_THAT(plan.add(kRed, "a/b").error().message,
              ::testing::StartsWith("a/b: the name must be a name of 1 to 15 characters"));
  ASSERT_TRUE(plan.remove(kBlue));
  EXPECT_EQ(code(kBlue, ""), EBUSY);
  EXPECT_TRUE(by_operator.added.empty());
  InterfacePlan long_name({kDefaultPKey}, "a-long-name-x", by_operator);
  EXPECT_EQ(long_name.add(kRed, "").error().code, EINVAL) << "with .8001 it is too long";
}

TEST_F(InterfacePlanTest, RefusesToDeleteTheLast) {
  (void)plan.update(kActive, Table{kDefaultPKey, kRed});
  ASSERT_TRUE(plan.remove(kDefaultPKey));
  EXPECT_EQ(plan.remove(kDefaultPKey).error().code, EBUSY) << "it is being removed";
  EXPECT_EQ(plan.remove(kRed).error().code, EBUSY) << "the other one is going";
  EXPECT_THAT(plan.remove(kRed).error().message, ::testing::HasSubstr("last interface"));
}

TEST_F(InterfacePlanTest, IsBounded) {
  Table table;
  for (std::size_t i = 1; i <= kMaxInterfaces + 3; ++i) {
    table.push_back(PKey(static_cast<std::uint16_t>(i)));
  }
  const auto changes = plan.update(kActive, table);
  EXPECT_EQ(changes.create.size(), kMaxInterfaces);
  EXPECT_EQ(changes.left_out, 3U);
  EXPECT_EQ(plan.add(PKey(0x9000), "").error().code, ENOSPC);
  plan.on_removed(changes.create.front());
  EXPECT_THAT(plan.update(kActive, table).create, ElementsAre(changes.create.front()));
}

}  // namespace
}  // namespace ipoib::daemon
