#include "sa/request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sa_client_fixture.hpp"

namespace ipoib::sa {
namespace {

using testing::HasSubstr;
using wire::McMemberRecord;
using wire::PathRecord;
using wire::SaFailure;
using Kind = SaFailure::Kind;

TEST(PathQuery, RequestsOneReversiblePath) {
  const auto mad = request_mad(wire::path_query(kPort, kPeer, PKey(0xffff)), 0x01020304);
  const auto header = wire::SaHeader::parse(mad);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->mad.method, wire::method::kGet);
  EXPECT_EQ(header->mad.attribute_id, wire::attribute::kPathRecord);
  EXPECT_EQ(header->mad.transaction_id, 0x01020304U) << "the high half belongs to the layer below";
  // DGID, SGID, Reversible, NumbPath, P_Key: bits 2, 3, 11, 12, 13.
  EXPECT_EQ(header->component_mask, 0x380cU);
  EXPECT_FALSE(header->rmpp.is_active());
  const auto record = PathRecord::parse(ConstBytes(mad).subspan(wire::kSaHeaderSize));
  EXPECT_EQ(record->dgid, kPeer);
  EXPECT_EQ(record->sgid, kPort);
  EXPECT_EQ(record->pkey, PKey(0xffff));
  EXPECT_TRUE(record->reversible);
  EXPECT_EQ(record->numb_path, 1);
}

TEST(JoinQuery, HasNoComponentsToCreateAGroup) {
  const auto query = wire::join_query(kGroup, kPort, PKey(0xffff), McMemberRecord::kFullMember);
  // MGID, PortGID, P_Key, JoinState: bits 0, 1, 7, 16.
  EXPECT_EQ(query.components, 0x10083U);
  const auto header = wire::SaHeader::parse(request_mad(query, 1));
  EXPECT_EQ(header->mad.method, wire::method::kSet);
  EXPECT_EQ(header->mad.attribute_id, wire::attribute::kMcMemberRecord);
}

TEST(JoinQuery, HasAllComponentsToCreateAGroup) {
  McMemberRecord group;
  group.mgid = kGroup;
  group.port_gid = kPort;
  group.mtu = 4;
  group.mtu_selector = wire::Selector::greater;
  const auto query = wire::create_query(group);
  // As above, and Q_Key 2, MTU 4 and 5, TClass 6, rate 8 and 9, SL 12, flow label 13, hop limit 14.
  EXPECT_EQ(query.components, 0x173f7U);
  EXPECT_EQ(query.record.mtu_selector, wire::Selector::exactly);
}

TEST(LeaveQuery, IsADelete) {
  const auto query = wire::leave_query(kGroup, kPort, McMemberRecord::kFullMember);
  EXPECT_EQ(query.components, 0x10003U);
  EXPECT_EQ(wire::SaHeader::parse(request_mad(query, 1))->mad.method, wire::method::kDelete);
}

TEST(SaQuery, IsDescribedByWhatItAsksFor) {
  const auto group = kGroup.to_string();
  const auto full = McMemberRecord::kFullMember;
  EXPECT_EQ(describe(wire::path_query(kPort, kPeer, kDefaultPKey)), "path to " + kPeer.to_string());
  EXPECT_EQ(describe(wire::join_query(kGroup, kPort, kDefaultPKey, full)), "join of " + group);
  EXPECT_EQ(describe(wire::leave_query(kGroup, kPort, full)), "leave of " + group);
  EXPECT_EQ(describe(wire::lookup_query(kGroup, kPort)), "membership of " + group);
  EXPECT_EQ(describe(wire::members_query(kGroup)), "members of " + group);
  EXPECT_EQ(describe(wire::groups_query(PKey(0x8012))), "groups of partition 0x8012");
  auto subscription = wire::subscribe_query(wire::trap::kGroupDeleted);
  EXPECT_EQ(describe(subscription), "subscription to trap 67");
  EXPECT_EQ(subscription.record.producer_type, 4U) << "the class manager (IBA 13.4.8.2)";
  subscription.record.subscribe = false;
  EXPECT_EQ(describe(subscription), "unsubscription from trap 67");
}

TEST(ClassPortInfoOfARedirection, MustBeWhole) {
  const std::vector<std::uint8_t> mad(wire::kSaHeaderSize + wire::ClassPortInfo::kSize - 1, 1);
  for (const auto size : {std::size_t{0}, wire::kSaHeaderSize - 1, mad.size()}) {
    EXPECT_FALSE(redirection(kSm, false, {}, ConstBytes(mad).first(size))) << size;
  }
}

TEST(SaFailure, NamesTheStatusAndItsCause) {
  EXPECT_THAT(SaFailure(wire::SaStatus::request_invalid).text(),
              HasSubstr("'request invalid' (0x0200): the port is not in this partition"));
}

TEST(SaFailure, HasALineForEachKind) {
  for (const auto kind :
       {Kind::status, Kind::timeout, Kind::no_sm, Kind::overloaded, Kind::malformed_response}) {
    EXPECT_FALSE(SaFailure(kind).text().empty());
  }
  EXPECT_THAT(SaFailure(Kind::send_failed, "no such device").text(), HasSubstr("no such device"));
}

}  // namespace
}  // namespace ipoib::sa
