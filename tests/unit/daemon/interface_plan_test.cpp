#include "daemon/interface_plan.hpp"

#include <gmock/gmock.h>

namespace ipoib::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr bool kActive = true;
constexpr bool kDown = false;
constexpr PKey kRed{0x8001};
constexpr PKey kBlue{0x8002};
using Table = std::vector<PKey>;

TEST(PartitionsOfTest, AreFullMembersKeysWithTheDefaultOneFirst) {
  const Table table{PKey(0x8001), PKey(0), PKey(0x7fff), PKey(0x0001), PKey(0x8000), PKey(0x0002)};
  EXPECT_THAT(partitions_of(table), ElementsAre(kDefaultPKey, kRed, kBlue));
  EXPECT_EQ(list_of(table), "0x8001, 0x7fff, 0x0001, 0x0002");
  EXPECT_THAT(partitions_of({}), IsEmpty());
  EXPECT_EQ(list_of({}), "none");
}

TEST(InterfacePlanTest, NamesInterfacesAsLinuxDoes) {
  const InterfacePlan all({}, "ib0");
  EXPECT_EQ(all.name_of(kDefaultPKey), "ib0");
  EXPECT_EQ(all.name_of(kRed), "ib0.8001");
  const InterfacePlan several({kBlue, kRed}, "ibx");
  EXPECT_EQ(several.name_of(kBlue), "ibx.8002");
  EXPECT_EQ(several.name_of(kRed), "ibx.8001");
  EXPECT_EQ(InterfacePlan({kRed}, "ibx").name_of(kRed), "ibx") << "the only one chosen";
  EXPECT_EQ(all.name_of(kRed).size() - std::string("ib0").size(), kPartitionSuffix);
}

TEST(InterfacePlanTest, FollowsTheTableIfNoneIsChosen) {
  InterfacePlan plan({}, "ib0");
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

TEST(InterfacePlanTest, RecreatesAnInterfaceAfterTheOldOneWasRemoved) {
  InterfacePlan plan({}, "ib0");
  (void)plan.update(kActive, Table{kRed});
  (void)plan.update(kActive, Table{});
  EXPECT_THAT(plan.update(kActive, Table{kRed}).create, IsEmpty())
      << "the old one is being removed";
  plan.on_removed(kRed);
  EXPECT_THAT(plan.update(kActive, Table{kRed}).create, ElementsAre(kRed));
}

TEST(InterfacePlanTest, KeepsInterfacesWhileThePortIsDown) {
  InterfacePlan plan({}, "ib0");
  EXPECT_THAT(plan.update(kDown, Table{kDefaultPKey, kRed}).create,
              ElementsAre(kDefaultPKey, kRed));
  EXPECT_THAT(plan.update(kDown, Table{kDefaultPKey}).remove, IsEmpty());
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey}).remove, ElementsAre(kRed));
}

TEST(InterfacePlanTest, CreatesChosenInterfacesRegardlessOfTheTable) {
  InterfacePlan plan({kRed, kBlue}, "ib0");
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey}).create, ElementsAre(kRed, kBlue));
  const auto changes = plan.update(kActive, Table{kRed});
  EXPECT_THAT(changes.create, IsEmpty());
  EXPECT_THAT(changes.remove, IsEmpty());
}

TEST(InterfacePlanTest, SuppressesADeletedInterfaceWhileItsPartitionStays) {
  InterfacePlan plan({}, "ib0");
  (void)plan.update(kActive, Table{kDefaultPKey, kRed});
  plan.suppress(kRed);
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey, kRed}).create, IsEmpty());
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey}).remove, IsEmpty())
      << "there is no interface";
  EXPECT_THAT(plan.update(kActive, Table{kDefaultPKey, kRed}).create, ElementsAre(kRed));
}

TEST(InterfacePlanTest, IsBounded) {
  Table table;
  for (std::size_t i = 1; i <= kMaxInterfaces + 3; ++i) {
    table.push_back(PKey(static_cast<std::uint16_t>(i)));
  }
  InterfacePlan plan({}, "ib0");
  const auto changes = plan.update(kActive, table);
  EXPECT_EQ(changes.create.size(), kMaxInterfaces);
  EXPECT_EQ(changes.left_out, 3U);
  plan.on_removed(changes.create.front());
  EXPECT_THAT(plan.update(kActive, table).create, ElementsAre(changes.create.front()));
}

}  // namespace
}  // namespace ipoib::daemon
