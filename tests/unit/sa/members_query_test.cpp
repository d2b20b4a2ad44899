// Members of a group: a trusted request with a table as its response.
#include "sa_client_fixture.hpp"

namespace ipoib::sa {
namespace {

constexpr std::size_t kStride = 56;  // bytes per 52-byte record

class MembersQueryTest : public SaClientTest {
 protected:
  MembersQueryTest() { client->set_sm(kSm, now); }
};

TEST_F(MembersQueryTest, IsATrustedGetTable) {
  ask_members(1);
  const auto header = port.sent.at(0).header();
  EXPECT_EQ(header.mad.method, wire::method::kGetTable);
  EXPECT_EQ(header.mad.attribute_id, wire::attribute::kMcMemberRecord);
  EXPECT_EQ(header.sm_key, wire::MembersQuery::kSmKey);
  EXPECT_EQ(header.component_mask, McMemberRecord::kMgid);
  const ConstBytes data = ConstBytes(port.sent[0].mad).subspan(wire::kSaHeaderSize);
  EXPECT_EQ(McMemberRecord::parse(data)->mgid, kGroup);
}

TEST_F(MembersQueryTest, GroupsOfAPartitionAreAnUntrustedGetTable) {
  const auto request = [&](std::uint64_t id) {
    client->request({wire::SaRequestId(id), wire::groups_query(PKey(0x0012))}, now);
  };
  request(1);
  const auto header = port.sent.at(0).header();
  EXPECT_EQ(header.mad.method, wire::method::kGetTable);
  EXPECT_EQ(header.mad.attribute_id, wire::attribute::kMcMemberRecord);
  EXPECT_EQ(header.sm_key, 0U);
  EXPECT_EQ(header.component_mask, McMemberRecord::kPKey);
  McMemberRecord one = group();
  one.pkey = PKey(0x8012);
  one.port_gid = Gid();
  respond(wire::McMemberTable{one}, kStride);
  EXPECT_EQ(std::get<wire::McMemberTable>(client->responses().at(0).result),
            wire::McMemberTable{one});
  client->responses().clear();
  one.pkey = PKey(0x8013);
  request(2);
  respond(wire::McMemberTable{one}, kStride);
  EXPECT_EQ(failure().kind, Kind::malformed_response) << "of another partition";
  one.pkey = PKey(0x8012);
  one.mgid = kPeer;
  request(3);
  respond(wire::McMemberTable{one}, kStride);
  EXPECT_EQ(failure().kind, Kind::malformed_response) << "no group";
}

TEST_F(MembersQueryTest, OtherQueriesAreNotTrusted) {
  ask_path(1);
  EXPECT_EQ(port.sent.at(0).header().sm_key, 0U);
}

TEST_F(MembersQueryTest, ReturnsAllRecords) {
  for (const std::size_t count : {0U, 1U, 3U, 5000U}) {
    wire::McMemberTable members;
    for (std::size_t i = 0; i < count; ++i) members.push_back(member(kGroup, 100 + i));
    ask_members(1);
    respond(members, kStride);
    ASSERT_EQ(client->responses().size(), 1U);
    EXPECT_EQ(std::get<wire::McMemberTable>(client->responses()[0].result), members);
    client->responses().clear();
  }
}

TEST_F(MembersQueryTest, EmptyTableNeedsNoStride) {
  ask_members(1);
  respond({}, 0);
  EXPECT_TRUE(std::get<wire::McMemberTable>(client->responses().at(0).result).empty());
}

TEST_F(MembersQueryTest, TableMayEndInZeros) {
  ask_members(1);
  respond({member(kGroup, 7)}, kStride, kStride + 32);
  EXPECT_EQ(std::get<wire::McMemberTable>(client->responses().at(0).result),
            wire::McMemberTable{member(kGroup, 7)});
}

TEST_F(MembersQueryTest, LastRecordNeedsNoPadding) {
  ask_members(1);
  port.respond_table(port.sent.back(), std::vector<std::uint8_t>(), kStride);
  auto& bytes = port.inbox.back().bytes;
  bytes.resize(wire::kSaHeaderSize + McMemberRecord::kSize);
  member(kGroup, 7).emit(MutableBytes(bytes).subspan(wire::kSaHeaderSize));
  client->on_readable(now);
  EXPECT_EQ(std::get<wire::McMemberTable>(client->responses().at(0).result),
            wire::McMemberTable{member(kGroup, 7)});
}

TEST_F(MembersQueryTest, WrongTablesAreMalformed) {
  const auto is_malformed = [&] {
    const auto what = failure();
    return what.kind == Kind::malformed_response;
  };
  ask_members(1);
  respond({member(kPeer, 7)}, kStride);
  EXPECT_TRUE(is_malformed()) << "of another group";
  ask_members(1);
  respond({member(kGroup, 7)}, kStride, 8, 1);
  EXPECT_TRUE(is_malformed()) << "a record that ends too soon";
  ask_members(1);
  port.respond_table(port.sent.back(), std::vector<std::uint8_t>(kStride, 1), kStride - 8);
  client->on_readable(now);
  EXPECT_TRUE(is_malformed()) << "records that overlap";
  ask_members(1);
  auto ends_in_zeros = member(kGroup, 7);
  ends_in_zeros.join_state = 0;
  std::vector<std::uint8_t> record(McMemberRecord::kSize);
  ends_in_zeros.emit(record);
  port.respond_table(port.sent.back(), record, 48);
  client->on_readable(now);
  EXPECT_TRUE(is_malformed()) << "records that would overlap";
  ask_members(1);
  auto unnamed = member(kGroup, 7);
  unnamed.port_gid = Gid();
  respond({unnamed}, kStride);
  EXPECT_TRUE(is_malformed()) << "the group alone, as one that is not trusted sees it";
}

TEST_F(MembersQueryTest, FailsAtOnceWithoutASubnetManager) {
  client->set_sm(std::nullopt, now);
  ask_members(1);
  EXPECT_EQ(failure().kind, Kind::no_sm);
}

TEST_F(MembersQueryTest, HasFewerAttempts) {
  ask_members(1);
  while (client->responses().empty()) advance();
  EXPECT_EQ(failure().kind, Kind::timeout);
  EXPECT_EQ(port.sent.size(), config.tables.attempts);
  EXPECT_GT(config.tables.attempts, 1U);
  EXPECT_LT(config.tables.attempts, config.path.attempts);
}

}  // namespace
}  // namespace ipoib::sa
