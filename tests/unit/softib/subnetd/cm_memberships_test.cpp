#include "softib/subnetd/cm_memberships.hpp"

#include <gtest/gtest.h>

#include "softib/core/mad_route.hpp"
#include "wire/mad.hpp"
#include "wire/mc_member_record.hpp"

namespace softib::subnetd {
namespace {

namespace wire = ipoib::wire;

class CmMembershipsTest : public ::testing::Test {
 protected:
  /// A response that grants a join to an agent of the process in slot 2 of epoch 3.
  static wire::SaHeader granted(std::uint32_t agent = MadRoute::kOwnAgent) {
    wire::SaHeader header;
    header.mad.management_class = wire::mgmt_class::kSubnAdm;
    header.mad.class_version = 2;
    header.mad.method = wire::method::kGetResp;
    header.mad.attribute_id = wire::attribute::kMcMemberRecord;
    header.mad.transaction_id = std::uint64_t{MadRoute{1, 2, 3, agent}.high_half()} << 32 | 7;
    return header;
  }
  void note(const wire::SaHeader& header, const Gid& mgid) {
    MadPacket packet;
    header.emit(packet.mad);
    wire::McMemberRecord record;
    record.mgid = mgid;
    record.emit(ipoib::MutableBytes(packet.mad).subspan(wire::kSaHeaderSize));
    memberships_.note(4, packet);
  }

  static constexpr endpoint::RemoteProcess kProcess{4, 2, 3};
  const Gid first_ = *Gid::parse("ff12::1");
  const Gid second_ = *Gid::parse("ff12::2");
  CmMemberships memberships_;
};

TEST_F(CmMembershipsTest, GroupsOfAProcessAreTakenOnce) {
  note(granted(), first_);
  note(granted(), second_);
  note(granted(), first_);
  EXPECT_TRUE(memberships_.take({1, 2, 3}).empty()) << "the port counts, not the node of the route";
  EXPECT_EQ(memberships_.take(kProcess), (std::set<Gid>{first_, second_}));
  EXPECT_TRUE(memberships_.take(kProcess).empty());
}

TEST_F(CmMembershipsTest, OtherMadsAreNoMemberships) {
  auto refused = granted();
  refused.mad.status = 0x0200;
  auto request = granted();
  request.mad.method = wire::method::kSet;
  auto path = granted();
  path.mad.attribute_id = wire::attribute::kPathRecord;
  auto other_class = granted();
  other_class.mad.management_class = wire::mgmt_class::kPerf;
  for (const auto& header : {refused, request, path, other_class, granted(0)}) {
    note(header, first_);
    EXPECT_TRUE(memberships_.take(kProcess).empty());
  }
}

}  // namespace
}  // namespace softib::subnetd
