#include "wire/mad.hpp"

#include <infiniband/umad_sa.h>

#include <cstddef>

#include "golden.hpp"

namespace ipoib::wire {
namespace {

static_assert(kMadHeaderSize == sizeof(umad_hdr));
static_assert(kRmppHeaderSize == sizeof(umad_rmpp_hdr));
static_assert(kSaHeaderSize == offsetof(umad_sa_packet, data));
static_assert(kMadSize == sizeof(umad_sa_packet));
static_assert(kGsiQKey.value() == UMAD_QKEY);
static_assert(mgmt_class::kSubnAdm == UMAD_CLASS_SUBN_ADM);
static_assert(method::kDelete == UMAD_SA_METHOD_DELETE);
static_assert(method::kDeleteResp == UMAD_SA_METHOD_DELETE_RESP);
static_assert(method::kGetTableResp == UMAD_SA_METHOD_GET_TABLE_RESP);
static_assert(method::kGetResp == UMAD_METHOD_GET_RESP);
static_assert(method::kReportResp == UMAD_METHOD_REPORT_RESP);
static_assert(attribute::kPathRecord == UMAD_SA_ATTR_PATH_REC);
static_assert(attribute::kMcMemberRecord == UMAD_SA_ATTR_MCMEMBER_REC);
static_assert(attribute::kNodeRecord == UMAD_SA_ATTR_NODE_REC);
static_assert(attribute::kPortInfoRecord == UMAD_SA_ATTR_PORT_INFO_REC);

const auto kHeader = from_hex("01 03 02 81 0300 1234 0102030405060708 0035 0000 89abcdef");
const auto kRmpp = from_hex("01 01 fb 7e 00000102 000000dc");
const auto kSa = from_hex(
    "01 03 02 92 0000 0000 aabbccdd00000001 0038 0000 00000000"
    "01 01 07 00 00000001 00000070"
    "0123456789abcdef 0007 0000 000000000003f0c7");

MadHeader header() {
  MadHeader mad;
  mad.management_class = 0x03;
  mad.class_version = 2;
  mad.method = method::kGetResp;
  mad.status = 0x0300;
  mad.class_specific = 0x1234;
  mad.transaction_id = 0x0102030405060708;
  mad.attribute_id = attribute::kPathRecord;
  mad.attribute_modifier = 0x89abcdef;
  return mad;
}

TEST(MadHeader, HasTheLayoutOfIba) {
  expect_golden(header(), kHeader);
  expect_stable<MadHeader>(kHeader);
  expect_truncations_refused<MadHeader>(kHeader);
  EXPECT_TRUE(header().is_response());
}

TEST(MadHeader, RefusesAnotherBaseVersion) {
  auto other = kHeader;
  other[0] = 2;
  EXPECT_FALSE(MadHeader::parse(other));
}

TEST(RmppHeader, HasTheLayoutOfIba) {
  RmppHeader rmpp;
  rmpp.type = RmppType::data;
  rmpp.flags = RmppHeader::kActive | RmppHeader::kFirst;
  rmpp.status = 0x7e;
  rmpp.data1 = 0x102;
  rmpp.data2 = 220;
  expect_golden(rmpp, kRmpp);
  expect_stable<RmppHeader>(kRmpp);
  expect_truncations_refused<RmppHeader>(kRmpp);
  EXPECT_TRUE(rmpp.is_active());
}

TEST(RmppHeader, RefusesUnknownTypes) {
  auto other = kRmpp;
  other[1] = 5;
  EXPECT_FALSE(RmppHeader::parse(other));
}

TEST(SaHeader, HasTheLayoutOfIba) {
  SaHeader sa;
  sa.mad.management_class = mgmt_class::kSubnAdm;
  sa.mad.class_version = 2;
  sa.mad.method = method::kGetTableResp;
  sa.mad.transaction_id = 0xaabbccdd00000001;
  sa.mad.attribute_id = attribute::kMcMemberRecord;
  sa.rmpp.type = RmppType::data;
  sa.rmpp.response_time = 0;
  sa.rmpp.flags = RmppHeader::kActive | RmppHeader::kFirst | RmppHeader::kLast;
  sa.rmpp.data1 = 1;
  sa.rmpp.data2 = 0x70;
  sa.sm_key = 0x0123456789abcdef;
  sa.attribute_offset = 7;
  sa.component_mask = 0x3f0c7;
  expect_golden(sa, kSa);
  expect_stable<SaHeader>(kSa);
  expect_truncations_refused<SaHeader>(kSa);
}

TEST(SaHeader, RecordsOfATableAreAtMultiplesOfEightBytes) {
  EXPECT_EQ(attribute_offset(48), 6);
  EXPECT_EQ(attribute_offset(52), 7);
  EXPECT_EQ(attribute_offset(56), 7);
}

TEST(SaHeader, RefusesOtherClassesAndVersions) {
  auto other = kSa;
  other[1] = mgmt_class::kPerf;
  EXPECT_FALSE(SaHeader::parse(other));
  other = kSa;
  other[2] = 1;
  EXPECT_FALSE(SaHeader::parse(other));
}

}  // namespace
}  // namespace ipoib::wire
