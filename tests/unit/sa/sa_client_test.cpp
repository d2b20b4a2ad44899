// Responses and reports that an SaClient accepts and rejects.
#include "sa_client_fixture.hpp"

namespace ipoib::sa {
namespace {

TEST_F(SaClientTest, ReturnsThePathRecord) {
  client->set_sm(kSm, now);
  ask_path(7);
  ASSERT_EQ(port.sent.size(), 1U);
  EXPECT_EQ(port.sent[0].to, kSm);
  EXPECT_EQ(port.sent[0].timeout, config.path.timeout.first);
  respond(SaStatus::ok, path());

  ASSERT_EQ(client->responses().size(), 1U);
  EXPECT_EQ(client->responses()[0].id, wire::SaRequestId(7));
  EXPECT_EQ(std::get<PathRecord>(client->responses()[0].result), path());
  EXPECT_EQ(client->counters().records, 1U);
  EXPECT_EQ(client->pending(), 0U);
  EXPECT_EQ(client->next_deadline(), kNever);
}

TEST_F(SaClientTest, ReturnsTheGroupRecordForJoinAndLeave) {
  client->set_sm(kSm, now);
  ask_join(1);
  port.respond(port.sent.at(0), 0, group());
  client->on_readable(now);
  client->request(
      {wire::SaRequestId(2), wire::leave_query(kGroup, kPort, McMemberRecord::kFullMember)}, now);
  port.respond(port.sent.at(1), 0, group());
  client->on_readable(now);
  ASSERT_EQ(client->responses().size(), 2U);
  EXPECT_EQ(std::get<McMemberRecord>(client->responses()[0].result), group());
  EXPECT_EQ(client->responses()[1].id, wire::SaRequestId(2));
  EXPECT_EQ(std::get<McMemberRecord>(client->responses()[1].result), group());
}

TEST_F(SaClientTest, SubscribesToATrap) {
  client->set_sm(kSm, now);
  client->request({wire::SaRequestId(5), wire::subscribe_query(wire::trap::kGroupCreated)}, now);
  const auto& sent = port.sent.at(0);
  EXPECT_EQ(sent.header().mad.method, wire::method::kSet);
  EXPECT_EQ(sent.header().mad.attribute_id, wire::attribute::kInformInfo);
  const auto asked = wire::InformInfo::parse(ConstBytes(sent.mad).subspan(wire::kSaHeaderSize));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->trap_number, wire::trap::kGroupCreated);
  EXPECT_TRUE(asked->subscribe);
  EXPECT_EQ(asked->lid_begin, wire::InformInfo::kAnyLid);
  port.respond(sent, 0, *asked);
  client->on_readable(now);
  ASSERT_EQ(client->responses().size(), 1U);
  EXPECT_EQ(std::get<wire::InformInfo>(client->responses()[0].result), *asked);

  client->responses().clear();
  client->request({wire::SaRequestId(6), wire::unsubscribe_query(wire::trap::kGroupCreated)}, now);
  port.respond(port.sent.at(1), 0, *asked);
  client->on_readable(now);
  EXPECT_EQ(failure().kind, Kind::malformed_response) << "of another subscription";
  client->request({wire::SaRequestId(7), wire::subscribe_query(wire::trap::kGroupDeleted)}, now);
  port.respond(port.sent.at(2), 0, *asked);
  client->on_readable(now);
  EXPECT_EQ(failure().kind, Kind::malformed_response) << "to another trap";
}

class ReportTest : public SaClientTest {
 protected:
  static constexpr std::uint64_t kTid = 0x1234'5678'9abc'def0;

  ReportTest() {
    client->set_sm(kSm, now);
    notice.trap_number = wire::trap::kGroupDeleted;
    notice.gid = kGroup;
    header.mad.management_class = wire::mgmt_class::kSubnAdm;
    header.mad.class_version = 2;
    header.mad.method = wire::method::kReport;
    header.mad.transaction_id = kTid;
    header.mad.attribute_id = wire::attribute::kNotice;
  }
  void report(const MadDestination& from = kSm) {
    ReceivedMad mad{.bytes = std::vector<std::uint8_t>(wire::kMadSize), .from = from};
    header.emit(mad.bytes);
    notice.emit(MutableBytes(mad.bytes).subspan(wire::kSaHeaderSize));
    port.inbox.push_back(std::move(mad));
    client->on_readable(now);
  }
  wire::Notice notice;
  wire::SaHeader header;
};

TEST_F(ReportTest, IsAcknowledgedAndReturned) {
  header.mad.status = 0x1c;
  report();
  ASSERT_EQ(client->notices().size(), 1U);
  EXPECT_EQ(client->notices()[0], notice);
  EXPECT_EQ(client->counters().reports, 1U);
  EXPECT_EQ(client->counters().unmatched_mads, 0U);
  ASSERT_EQ(port.sent.size(), 1U);
  const auto& response = port.sent[0];
  EXPECT_EQ(response.to, kSm);
  EXPECT_EQ(response.timeout, Duration::zero()) << "a response gets no response";
  auto expected = header;
  expected.mad.method = wire::method::kReportResp;
  expected.mad.status = 0;
  EXPECT_EQ(response.header(), expected);
  EXPECT_EQ(wire::Notice::parse(ConstBytes(response.mad).subspan(wire::kSaHeaderSize)), notice);
}

TEST_F(ReportTest, IsReturnedEvenIfItCannotBeAcknowledged) {
  port.refusing = true;
  report();
  EXPECT_EQ(client->notices().size(), 1U);
  EXPECT_EQ(client->counters().send_errors, 1U);
}

TEST_F(ReportTest, IsAcceptedOnlyFromTheSa) {
  report(kOtherSm);
  client->set_sm(std::nullopt, now);
  report();
  header.mad.method = wire::method::kSet;
  client->set_sm(kSm, now);
  report();
  EXPECT_TRUE(client->notices().empty());
  EXPECT_TRUE(port.sent.empty());
  EXPECT_EQ(client->counters().foreign_reports, 2U);
  EXPECT_EQ(client->counters().unmatched_mads, 1U);
}

TEST_F(SaClientTest, ReturnsAStatusAsAFailure) {
  client->set_sm(kSm, now);
  ask_path(1);
  respond(SaStatus::no_records, {});
  const auto refused = failure();
  EXPECT_EQ(refused.kind, Kind::status);
  EXPECT_EQ(refused.status, SaStatus::no_records);
  EXPECT_EQ(client->counters().refused_by_status, 1U);
  EXPECT_EQ(port.sent.size(), 1U) << "a refusal is not retried";
}

TEST_F(SaClientTest, RejectsTheRecordOfAnotherPath) {
  client->set_sm(kSm, now);
  PathRecord broken[] = {path(), path(), path(), path(), path()};
  broken[0].dgid = kPort;
  broken[1].sgid = kPeer;
  broken[2].pkey = PKey(0x8012);
  broken[3].dlid = Lid(0xc000);
  broken[4].mtu = 9;
  for (const auto& record : broken) {
    ask_path(1);
    respond(SaStatus::ok, record);
    EXPECT_EQ(failure().kind, Kind::malformed_response);
  }
  EXPECT_EQ(client->counters().malformed_responses, std::size(broken));
  EXPECT_EQ(client->counters().records, 0U);
}

TEST_F(SaClientTest, RejectsTheRecordOfAnotherGroup) {
  client->set_sm(kSm, now);
  McMemberRecord broken[] = {group(), group(), group(), group()};
  broken[0].mgid = *Gid::parse("ff12:401b:ffff::1");
  broken[1].mlid = Lid(4);
  broken[2].pkey = PKey(0x8012);
  broken[3].mtu = 0;
  for (const auto& record : broken) {
    ask_join(1);
    port.respond(port.sent.back(), 0, record);
    client->on_readable(now);
    EXPECT_EQ(failure().kind, Kind::malformed_response);
  }
}

TEST_F(SaClientTest, RejectsATruncatedRecord) {
  client->set_sm(kSm, now);
  ask_path(1);
  port.respond(port.sent[0], 0, path());
  port.inbox[0].bytes.resize(wire::kSaHeaderSize + PathRecord::kSize - 1);
  client->on_readable(now);
  EXPECT_EQ(failure().kind, Kind::malformed_response);
}

TEST_F(SaClientTest, AcceptsALimitedPKeyOfTheSamePartition) {
  client->set_sm(kSm, now);
  ask_path(1);
  auto record = path();
  record.pkey = PKey(0x7fff);
  respond(SaStatus::ok, record);
  EXPECT_EQ(client->counters().records, 1U);
}

/// The response repeats the components of the request, and says what it likes of the others.
TEST_F(SaClientTest, AcceptsAnyValueOfAComponentThatWasNotAskedFor) {
  client->set_sm(kSm, now);
  auto query = wire::path_query(kPort, kPeer, kDefaultPKey);
  query.components &= ~(PathRecord::kSgid | PathRecord::kPKey);
  client->request({wire::SaRequestId(1), query}, now);
  auto record = path();
  record.sgid = kPeer;
  record.pkey = PKey(0x8012);
  respond(SaStatus::ok, record);
  auto join = wire::join_query(kGroup, kPort, kDefaultPKey, McMemberRecord::kFullMember);
  join.components &= ~McMemberRecord::kPKey;
  client->request({wire::SaRequestId(2), join}, now);
  auto other = group();
  other.pkey = PKey(0x8012);
  port.respond(port.sent.back(), 0, other);
  client->on_readable(now);
  EXPECT_EQ(client->counters().records, 2U);
}

TEST_F(SaClientTest, DropsUnmatchedMads) {
  client->set_sm(kSm, now);
  ask_path(1);
  const auto receive_with = [&](auto change) {
    port.respond(port.sent[0], 0, path());
    auto& bytes = port.inbox.back().bytes;
    auto header = *wire::SaHeader::parse(bytes);
    change(header);
    header.emit(bytes);
  };
  receive_with([](auto& header) { header.mad.transaction_id ^= 1; });
  receive_with([](auto& header) { header.mad.method = wire::method::kGetTableResp; });
  receive_with([](auto& header) { header.mad.method = wire::method::kGet; });
  receive_with([](auto& header) { header.mad.attribute_id = wire::attribute::kMcMemberRecord; });
  receive_with([](auto& header) { header.mad.attribute_id = wire::attribute::kClassPortInfo; });
  receive_with([](auto& header) { header.mad.management_class = wire::mgmt_class::kPerf; });
  receive_with([](auto& header) { header.mad.class_version = 1; });
  port.inbox.push_back({});
  client->on_readable(now);
  EXPECT_EQ(client->counters().unmatched_mads, 8U);
  EXPECT_TRUE(client->responses().empty());

  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().records, 1U) << "the matching response is still accepted";
  port.respond(port.sent[0], 0, path());
  client->on_readable(now);
  EXPECT_EQ(client->counters().unmatched_mads, 9U) << "once only";
}

}  // namespace
}  // namespace ipoib::sa
