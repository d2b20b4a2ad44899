#include "softib/subnet/multicast_groups.hpp"

#include <gmock/gmock.h>

namespace softib::subnet {
namespace {

using ipoib::wire::McMemberRecord;

McMemberRecord record(std::uint16_t number, PKey pkey) {
  McMemberRecord group;
  Gid::Bytes bytes{0xff, 0x12, 0x40, 0x1b};
  bytes[14] = static_cast<std::uint8_t>(number >> 8);
  bytes[15] = static_cast<std::uint8_t>(number);
  group.mgid = Gid(bytes);
  group.pkey = pkey;
  return group;
}

class MulticastGroupsTest : public ::testing::Test {
 protected:
  MulticastGroups groups_;
  McGroup& one_ = *groups_.create(record(1, PKey(0x8012)), 0, true);
  McGroup& two_ = *groups_.create(record(2, PKey(0x8013)), 1);
  const Gid first_ = one_.record.mgid;
};

TEST_F(MulticastGroupsTest, PartitionTakesItsGroupsWithIt) {
  groups_.join(one_, 5, McMemberRecord::kFullMember, false);
  groups_.join(two_, 5, McMemberRecord::kFullMember, false);
  (void)groups_.take_events();
  (void)groups_.take_changed();
  groups_.remove_partition(PKey(0x0012));
  EXPECT_EQ(groups_.find(first_), nullptr) << "a permanent one, too";
  ASSERT_NE(groups_.find(two_.record.mgid), nullptr);
  EXPECT_TRUE(groups_.forwarding(1).receivers[5]);
  EXPECT_EQ(groups_.take_changed(), std::bitset<kMaxGroups>(1));
  const auto events = groups_.take_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].mgid, first_);
  EXPECT_FALSE(events[0].created);
}

TEST_F(MulticastGroupsTest, APortThatLeavesAPartitionStaysInItsOtherGroups) {
  groups_.join(one_, 5, McMemberRecord::kFullMember, false);
  groups_.join(two_, 5, McMemberRecord::kFullMember, false);
  (void)groups_.take_changed();
  groups_.remove(5, PKey(0x0012));
  EXPECT_FALSE(one_.members.contains(5));
  EXPECT_TRUE(two_.members.contains(5));
  EXPECT_EQ(groups_.take_changed(), std::bitset<kMaxGroups>(1));
}

TEST_F(MulticastGroupsTest, AFormerReceiverThatLeavesReceivesNothing) {
  groups_.join(one_, 5, McMemberRecord::kFullMember, false);
  groups_.restart(ipoib::TimePoint());
  (void)groups_.take_changed();
  groups_.remove(5, PKey(0x0012));
  EXPECT_FALSE(groups_.forwarding(0).receivers[5]);
  EXPECT_EQ(groups_.take_changed(), std::bitset<kMaxGroups>(1));
}

TEST_F(MulticastGroupsTest, GroupWithoutMembersEndsUnnoticed) {
  groups_.remove_partition(PKey(0x8012));
  EXPECT_FALSE(groups_.has_events());
}

TEST_F(MulticastGroupsTest, FormerReceiversOfADeletedPartitionReceiveNothing) {
  groups_.join(one_, 5, McMemberRecord::kFullMember, false);
  groups_.restart(ipoib::TimePoint());
  ASSERT_TRUE(groups_.forwarding(0).receivers[5]);
  groups_.remove_partition(PKey(0x8012));
  EXPECT_EQ(groups_.forwarding(0), GroupForwarding{});
  McGroup* const other = groups_.create(record(3, PKey(0x8013)), 1);
  EXPECT_EQ(other->record.mlid, Lid(0xc000)) << "the MLID is free";
}

TEST(AdoptedGroups, HaveOneMulticastLidEach) {
  const GroupForwarding of{record(1, PKey(0x8012)).mgid, NodeSet().set(5)};
  MulticastGroups groups;
  groups.adopt({{Lid(0xc000), of}, {Lid(0xc001), of}}, NodeSet().set(5), ipoib::TimePoint());
  EXPECT_EQ(groups.forwarding(0), of);
  EXPECT_EQ(groups.forwarding(1), GroupForwarding{});
}

/// A port that creates as many groups as it can.
class MulticastShareTest : public ::testing::Test {
 protected:
  static constexpr PKey kPKey{0xffff};

  McGroup* create(NodeIndex port, bool permanent = false) {
    McGroup* const group = groups_.create(record(++number_, kPKey), port, permanent);
    if (group != nullptr && !permanent) {
      groups_.join(*group, port, McMemberRecord::kFullMember, false);
    }
    return group;
  }
  std::size_t create_all(NodeIndex port) {
    std::size_t count = 0;
    while (create(port) != nullptr) ++count;
    return count;
  }

  MulticastGroups groups_;
  std::uint16_t number_ = 0;
};

TEST_F(MulticastShareTest, OnePortHasAtMostHalfOfTheMulticastLids) {
  EXPECT_EQ(create_all(1), kMaxGroups / 2);
  const auto second = create_all(2);
  EXPECT_GE(second, kMaxGroups / 4);
  for (NodeIndex port = 3; port < 40; ++port) {
    EXPECT_NE(create(port), nullptr) << port;
  }
  EXPECT_NE(create(1, true), nullptr) << "that of a partition";
}

TEST_F(MulticastShareTest, GroupsThatAPortLeavesAreFreeAgain) {
  McGroup* const first = create(1);
  (void)create_all(1);
  EXPECT_EQ(create(1), nullptr);
  EXPECT_EQ(groups_.leave(*first, 1, McMemberRecord::kFullMember), 0);
  EXPECT_NE(create(1), nullptr);
}

TEST_F(MulticastShareTest, AGroupIsChargedToThoseWhoAreStillMembers) {
  McGroup* const shared = create(1);
  groups_.join(*shared, 2, McMemberRecord::kFullMember, false);
  (void)create_all(1);
  (void)groups_.leave(*shared, 1, McMemberRecord::kFullMember);
  EXPECT_EQ(shared->charged, 2);
  EXPECT_NE(create(1), nullptr);
}

TEST_F(MulticastShareTest, APortGetsItsGroupsBackAfterARestart) {
  const auto all = create_all(1);
  groups_.restart(ipoib::TimePoint());
  number_ = 0;
  EXPECT_EQ(create_all(1), all);
}

}  // namespace
}  // namespace softib::subnet
