// Services that ports have announced (IBA 15.2.5.14); the responses are those of OpenSM.
#include "softib/subnet/sa_services.hpp"

#include <gmock/gmock.h>

#include "sa_client.hpp"

namespace softib::subnet {
namespace {

using ipoib::wire::SaStatus;
using ipoib::wire::ServiceRecord;
using testing::ElementsAre;
using testing::IsEmpty;
namespace attribute = ipoib::wire::attribute;
namespace method = ipoib::wire::method;

constexpr std::uint64_t kRid =
    ServiceRecord::kServiceId | ServiceRecord::kGid | ServiceRecord::kPKey;

class SubnetServices : public testing::Test {
 protected:
  [[nodiscard]] static ServiceRecord service(const SaClient& client, std::uint64_t id = 0x42) {
    ServiceRecord record;
    record.service_id = id;
    record.gid = client.gid();
    record.pkey = ipoib::kDefaultPKey;
    record.lease = 60;
    record.key = {1, 2, 3};
    std::ranges::copy(std::string_view("test"), record.name.begin());
    return record;
  }
  SaStatus set(SaClient& client, const ServiceRecord& record,
               std::uint64_t mask = kRid | ServiceRecord::kLease) {
    return client.send_request(method::kSet, attribute::kServiceRecord, mask, record)->status();
  }
  SaStatus remove(SaClient& client, const ServiceRecord& record) {
    return client.send_request(method::kDelete, attribute::kServiceRecord, kRid, record)->status();
  }
  [[nodiscard]] std::vector<ServiceRecord> list(SaClient& client, std::uint64_t mask = 0,
                                                const ServiceRecord& wanted = {}) {
    return client.send_request(method::kGetTable, attribute::kServiceRecord, mask, wanted)
        ->records<ServiceRecord>();
  }

  Subnet subnet;
  SaClient a{subnet, "a"};
  SaClient b{subnet, "b"};
};

TEST_F(SubnetServices, AreAnnouncedFoundAndRemoved) {
  const auto record = service(a);
  EXPECT_EQ(set(a, record), SaStatus::ok);
  b.trust(true);
  EXPECT_THAT(list(b), ElementsAre(record));
  const auto one =
      b.send_request(method::kGet, attribute::kServiceRecord, ServiceRecord::kServiceId, record);
  EXPECT_EQ(ServiceRecord::parse(one->data), record);
  EXPECT_EQ(one->header.attribute_offset, ServiceRecord::kSize / 8);
  EXPECT_EQ(remove(a, record), SaStatus::ok);
  EXPECT_EQ(remove(a, record), SaStatus::no_records);
  EXPECT_THAT(list(b), IsEmpty());
}

TEST_F(SubnetServices, AnnouncementReplacesTheRecord) {
  auto record = service(a);
  ASSERT_EQ(set(a, record), SaStatus::ok);
  record.data[0] = 9;
  ASSERT_EQ(set(a, record), SaStatus::ok);
  const auto found = list(b);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].data[0], 9);
  EXPECT_EQ(found[0].key, decltype(record.key){}) << "not told to untrusted requesters";
}

TEST_F(SubnetServices, AreFoundByAnyComponent) {
  ASSERT_EQ(set(a, service(a, 1)), SaStatus::ok);
  ASSERT_EQ(set(b, service(b, 2)), SaStatus::ok);
  EXPECT_EQ(list(a).size(), 2U);
  EXPECT_EQ(list(a, ServiceRecord::kGid, service(b)).at(0).service_id, 2U);
  EXPECT_EQ(list(a, ServiceRecord::kName, service(b)).size(), 2U);
  EXPECT_THAT(list(a, ServiceRecord::kServiceId, service(b, 3)), IsEmpty());
  ServiceRecord other = service(a);
  other.name[0] = 'x';
  EXPECT_THAT(list(a, ServiceRecord::kName, other), IsEmpty());
}

TEST_F(SubnetServices, LeaseEnds) {
  ASSERT_EQ(set(a, service(a, 1)), SaStatus::ok);
  ASSERT_EQ(set(a, service(a, 2), kRid), SaStatus::ok);
  EXPECT_EQ(subnet.next_deadline(), kStart + std::chrono::seconds(60));
  subnet.on_time(kStart + std::chrono::seconds(60));
  const auto left = list(b);
  ASSERT_EQ(left.size(), 1U) << "one without a lease stays";
  EXPECT_EQ(left[0].lease, ServiceRecord::kNoExpiry);
  EXPECT_EQ(subnet.next_deadline(), ipoib::kNever);
}

TEST_F(SubnetServices, OneWhoseLeaseIsOverIsNotFound) {
  ASSERT_EQ(set(a, service(a, 1)), SaStatus::ok);
  const auto header = b.header(method::kGetTable, attribute::kServiceRecord);
  subnet.receive(b.request(header, ServiceRecord()), kStart + std::chrono::seconds(60));
  const auto answer = subnet.take_outgoing();
  ASSERT_EQ(answer.size(), 1U);
  EXPECT_EQ(ipoib::wire::SaHeader::parse(answer[0].mad)->attribute_offset, 0)
      << "there is no record";
}

TEST_F(SubnetServices, InvalidAnnouncementsAreRefused) {
  EXPECT_EQ(set(a, service(a), ServiceRecord::kServiceId), SaStatus::request_invalid);
  auto foreign = service(a);
  foreign.pkey = PKey(0x8012);
  EXPECT_EQ(set(a, foreign), SaStatus::request_invalid) << "in a partition without the port";
}

TEST_F(SubnetServices, APKeyThatIsNotNamedIsNotChecked) {
  auto foreign = service(a);
  foreign.pkey = PKey(0x8012);
  EXPECT_EQ(
      set(a, foreign, ServiceRecord::kServiceId | ServiceRecord::kGid | ServiceRecord::kLease),
      SaStatus::ok);
}

TEST_F(SubnetServices, AnnouncementsForAPortThatIsNotKnownAreAccepted) {
  auto record = service(a);
  record.gid = Gid(Gid::kLinkLocalPrefix, Guid(0x0b5e));
  EXPECT_EQ(set(a, record), SaStatus::ok);
  EXPECT_EQ(remove(a, record), SaStatus::ok);
}

TEST_F(SubnetServices, OfOtherPartitionsAreHidden) {
  SubnetConfig config;
  config.partitions = make_partitions({"0x12=full:c"}).value();
  Subnet parts(config);
  SaClient c(parts, "c");
  SaClient d(parts, "d");
  auto record = service(c);
  record.pkey = PKey(0x8012);
  ASSERT_EQ(set(c, record), SaStatus::ok);
  EXPECT_EQ(list(c).size(), 1U);
  EXPECT_THAT(list(d), IsEmpty());
}

TEST_F(SubnetServices, OnePortHasAtMostHalfOfThem) {
  for (std::uint64_t id = 0; id < kMaxServices / 2; ++id) {
    ASSERT_EQ(set(a, service(a, id)), SaStatus::ok);
  }
  EXPECT_EQ(set(a, service(a, kMaxServices)), SaStatus::no_resources);
  EXPECT_EQ(set(a, service(a, 0)), SaStatus::ok) << "is replaced";
  EXPECT_EQ(set(b, service(a, 0)), SaStatus::ok) << "and charged to the same port";
  EXPECT_EQ(set(a, service(a, kMaxServices)), SaStatus::no_resources);
  EXPECT_EQ(set(b, service(b)), SaStatus::ok);
  EXPECT_EQ(list(b).size(), kMaxServices / 2 + 1) << "by RMPP";
}

TEST_F(SubnetServices, AreForgottenByARestartedSm) {
  ASSERT_EQ(set(a, service(a)), SaStatus::ok);
  ASSERT_TRUE(subnet.restart_sm(kStart));
  (void)subnet.take_outgoing();
  EXPECT_THAT(list(a), IsEmpty());
}

}  // namespace
}  // namespace softib::subnet
