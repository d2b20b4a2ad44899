#include "softib/subnet/multicast_groups.hpp"

#include <gmock/gmock.h>

namespace softib::subnet {
namespace {

using ipoib::wire::McMemberRecord;

McMemberRecord record(std::uint8_t number, PKey pkey) {
  McMemberRecord group;
  Gid::Bytes bytes{0xff, 0x12, 0x40, 0x1b};
  bytes[15] = number;
  group.mgid = Gid(bytes);
  group.pkey = pkey;
  return group;
}

class MulticastGroupsTest : public ::testing::Test {
 protected:
  MulticastGroups groups_;
  McGroup& one_ = *groups_.create(record(1, PKey(0x8012)), true);
  McGroup& two_ = *groups_.create(record(2, PKey(0x8013)), false);
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
  McGroup* const other = groups_.create(record(3, PKey(0x8013)), false);
  EXPECT_EQ(other->record.mlid, Lid(0xc000)) << "the MLID is free";
}

}  // namespace
}  // namespace softib::subnet
