// Messages of communication management: layout, round trip and other MADs.
#include "wire/cm_messages.hpp"

#include <algorithm>
#include <numeric>

#include "golden.hpp"
#include "wire/cm_ip_header.hpp"

namespace ipoib::wire::cm_messages_test {
namespace {

constexpr std::uint64_t kTransaction = 0x0102030405060708;

struct Example {
  const char* name;
  std::string_view hex;  ///< from the attribute on, without the zeros at the end
  CmMessage message;
};
void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

template <std::size_t kSize>
void count_up(PrivateData<kSize>& data) {
  std::iota(data.begin(), data.begin() + 4, std::uint8_t{0xa1});
}

CmReq req() {
  CmReq req;
  req.local_id = CommId(0x11223344);
  req.service_id = ServiceId(0x0000000001061234);
  req.ca_guid = Guid(0x0002c90300000001);
  req.qkey = QKey(0x80010000);
  req.qpn = Qpn(0x012345);
  req.responder_resources = 16;
  req.initiator_depth = 15;
  req.remote_response_timeout = 20;
  req.transport = CmTransport::extended;
  req.flow_control = true;
  req.starting_psn = Psn(0xabcdef);
  req.local_response_timeout = 19;
  req.retry_count = 7;
  req.pkey = PKey(0x8012);
  req.mtu = 4;
  req.rnr_retry_count = 6;
  req.max_cm_retries = 15;
  req.srq = true;
  req.extended_transport = kXrcTransport;
  req.primary.local_lid = Lid(3);
  req.primary.remote_lid = Lid(4);
  req.primary.local_gid = *Gid::parse("fe80::2:c903:0:1");
  req.primary.remote_gid = *Gid::parse("fe80::2:c903:0:2");
  req.primary.flow_label = 0xabcde;
  req.primary.rate = 3;
  req.primary.traffic_class = 0x20;
  req.primary.hop_limit = 1;
  req.primary.sl = ServiceLevel(5);
  req.primary.is_subnet_local = true;
  req.primary.ack_timeout = 18;
  count_up(req.private_data);
  return req;
}

CmRep rep() {
  CmRep rep;
  rep.local_id = CommId(0x11223344);
  rep.remote_id = CommId(0x55667788);
  rep.qkey = QKey(0x80010000);
  rep.qpn = Qpn(0x012345);
  rep.starting_psn = Psn(0xabcdef);
  rep.responder_resources = 15;
  rep.initiator_depth = 16;
  rep.target_ack_delay = 17;
  rep.failover = 1;
  rep.flow_control = true;
  rep.rnr_retry_count = 7;
  rep.srq = true;
  rep.ca_guid = Guid(0x0002c90300000002);
  count_up(rep.private_data);
  return rep;
}

template <class Message>
Message with_ids() {
  Message message;
  message.local_id = CommId(0x11223344);
  message.remote_id = CommId(0x55667788);
  if constexpr (requires { message.private_data; }) count_up(message.private_data);
  return message;
}

CmMra mra() {
  auto mra = with_ids<CmMra>();
  mra.subject = CmSubject::rep;
  mra.service_timeout = 21;
  return mra;
}

CmRej rej() {
  auto rej = with_ids<CmRej>();
  rej.subject = CmSubject::rep;
  rej.reason = CmRejReason::consumer;
  rej.info = CmAdditionalInfo::of(from_hex("c1c2"));
  return rej;
}

CmDreq dreq() {
  auto dreq = with_ids<CmDreq>();
  dreq.remote_qpn = Qpn(0x012345);
  return dreq;
}

CmSidrReq sidr_req() {
  CmSidrReq sidr;
  sidr.request_id = CommId(0x11223344);
  sidr.pkey = PKey(0x8012);
  sidr.service_id = ServiceId(0x0000000001111234);
  count_up(sidr.private_data);
  return sidr;
}

CmSidrRep sidr_rep() {
  CmSidrRep sidr;
  sidr.request_id = CommId(0x11223344);
  sidr.status = CmSidrStatus::no_queue_pair;
  sidr.qpn = Qpn(0x012345);
  sidr.service_id = ServiceId(0x0000000001111234);
  sidr.qkey = QKey(0x01234567);
  sidr.info = CmAdditionalInfo::of(from_hex("c1c2"));
  count_up(sidr.private_data);
  return sidr;
}

const std::vector<Example>& examples() {
  static const std::string zeros8(16, '0');
  static const std::string info = "c1c2" + std::string(140, '0');
  static const std::string req_hex =
      "0010 0000 00000000"
      "11223344 00000000 0000000001061234 0002c90300000001 00000000 80010000"
      "012345 10 000000 0f 000000 a7 abcdef 9f 8012 46 f9"
      "0003 0004 fe800000000000000002c90300000001 fe800000000000000002c90300000002"
      "abcde003 20 01 58 90" +
      std::string(88, '0') + "a1a2a3a4";
  static const std::string rej_hex =
      "0012 0000 00000000 11223344 55667788 40 04 001c" + info + "a1a2a3a4";
  static const std::string sidr_rep_hex =
      "0018 0000 00000000 11223344 03 02 0000 012345 00 0000000001111234 01234567" + info +
      "a1a2a3a4";
  static const std::vector<Example> all{
      {"Req", req_hex, req()},
      {"Mra", "0011 0000 00000000 11223344 55667788 40 a8 a1a2a3a4", mra()},
      {"Rej", rej_hex, rej()},
      {"Rep",
       "0013 0000 00000000 11223344 55667788 80010000 012345 00 00000000 abcdef 00 0f 10 8b f0"
       "0002c90300000002 a1a2a3a4",
       rep()},
      {"Rtu", "0014 0000 00000000 11223344 55667788 a1a2a3a4", with_ids<CmRtu>()},
      {"Dreq", "0015 0000 00000000 11223344 55667788 012345 00 a1a2a3a4", dreq()},
      {"Drep", "0016 0000 00000000 11223344 55667788 a1a2a3a4", with_ids<CmDrep>()},
      {"SidrReq", "0017 0000 00000000 11223344 8012 0000 0000000001111234 a1a2a3a4", sidr_req()},
      {"SidrRep", sidr_rep_hex, sidr_rep()},
      {"Lap", "0019 0000 00000000 11223344 55667788", with_ids<CmLap>()},
      {"Apr", "001a 0000 00000000 11223344 55667788 00 02", with_ids<CmApr>()},
  };
  return all;
}

class CmMessages : public testing::TestWithParam<Example> {
 protected:
  static std::vector<std::uint8_t> golden() {
    auto bytes = from_hex("01 07 02 03 0000 0000 0102030405060708" + std::string(GetParam().hex));
    bytes.resize(CmMad::kSize);
    return bytes;
  }
};
INSTANTIATE_TEST_SUITE_P(Message, CmMessages, testing::ValuesIn(examples()),
                         [](const auto& one) { return one.param.name; });

TEST_P(CmMessages, HasTheLayoutOfIba) {
  expect_golden(CmMad{kTransaction, GetParam().message}, golden());
}

TEST_P(CmMessages, EmitsWhatItParses) { expect_stable<CmMad>(golden()); }

TEST_P(CmMessages, RejectsTruncatedInput) { expect_truncations_refused<CmMad>(golden()); }

TEST(CmMad, RejectsOtherMads) {
  std::array<std::uint8_t, CmMad::kSize> mad;
  CmMad{kTransaction, req()}.emit(mad);
  const auto with = [&](std::size_t at, std::uint8_t value) {
    auto other = mad;
    other[at] = value;
    return CmMad::parse(other).has_value();
  };
  EXPECT_TRUE(CmMad::parse(mad));
  EXPECT_FALSE(with(1, 0x03)) << "class";
  EXPECT_FALSE(with(2, 1)) << "class version";
  EXPECT_FALSE(with(3, 0x01)) << "method";
  EXPECT_FALSE(with(17, 0x1b)) << "attribute";
}

TEST(CmReq, KeepsNeighbouringFieldsApart) {
  CmReq all = req();
  all.remote_response_timeout = all.local_response_timeout = 0xff;
  all.retry_count = all.rnr_retry_count = all.max_cm_retries = all.mtu = 0xff;
  all.flow_control = all.srq = false;
  all.extended_transport = 0;
  all.primary.flow_label = 0xffffffff;
  all.primary.rate = 0xff;
  all.primary.sl = ServiceLevel(0xff);
  all.primary.is_subnet_local = false;
  std::array<std::uint8_t, CmMad::kSize> mad;
  CmMad{0, all}.emit(mad);
  const auto got = std::get<CmReq>(CmMad::parse(mad)->message);
  EXPECT_EQ(got.remote_response_timeout, 0x1f);
  EXPECT_EQ(got.transport, CmTransport::extended);
  EXPECT_FALSE(got.flow_control);
  EXPECT_EQ(got.retry_count, 7);
  EXPECT_EQ(got.rnr_retry_count, 7);
  EXPECT_EQ(got.max_cm_retries, 15);
  EXPECT_FALSE(got.srq);
  EXPECT_EQ(got.extended_transport, 0);
  EXPECT_EQ(got.primary.flow_label, 0xfffffU);
  EXPECT_EQ(got.primary.rate, 0x3f);
  EXPECT_FALSE(got.primary.is_subnet_local);
}

TEST(CmReq, TellsWhetherItHasAnAlternatePath) {
  CmReq one = req();
  EXPECT_FALSE(one.has_alternate());
  one.alternate.remote_lid = Lid(5);
  EXPECT_TRUE(one.has_alternate());
}

TEST(CmAdditionalInfo, IsBounded) {
  const std::vector<std::uint8_t> much(100, 0xff);
  EXPECT_EQ(CmAdditionalInfo::of(much).length, CmAdditionalInfo::kSize);
  auto one = rej();
  one.info.length = 127;
  std::array<std::uint8_t, CmMad::kSize> mad;
  CmMad{0, one}.emit(mad);
  mad[kMadHeaderSize + 9] = 0xff;
  EXPECT_EQ(std::get<CmRej>(CmMad::parse(mad)->message).info.length, CmAdditionalInfo::kSize);
}

const CmIpHeader kIpv4Header{40000, Ipv4Address(0x7f4d0001), Ipv4Address(0x7f4d0002)};
constexpr std::string_view kIpv4Hex =
    "00 40 9c40 000000000000000000000000 7f4d0001 000000000000000000000000 7f4d0002";

TEST(CmIpHeader, HasTheLayoutOfTheAnnex) {
  expect_golden(kIpv4Header, from_hex(kIpv4Hex));
  expect_golden(CmIpHeader{7, *parse_ip_address("fd00::1"), *parse_ip_address("fd00::2")},
                from_hex("00 60 0007 fd000000000000000000000000000001"
                         "fd000000000000000000000000000002"));
}

TEST(CmIpHeader, RejectsOtherInput) {
  expect_truncations_refused<CmIpHeader>(from_hex(kIpv4Hex));
  expect_stable<CmIpHeader>(from_hex(kIpv4Hex));
  auto other = from_hex(kIpv4Hex);
  other[0] = 0x10;
  EXPECT_FALSE(CmIpHeader::parse(other)) << "version of the header";
  other = from_hex(kIpv4Hex);
  other[1] = 0x50;
  EXPECT_FALSE(CmIpHeader::parse(other)) << "version of IP";
}

TEST(CmIpHeader, ServiceIdNamesProtocolAndPort) {
  EXPECT_EQ(ip_service_id(6, 0x1234), ServiceId(0x0000000001061234));
}

}  // namespace
}  // namespace ipoib::wire::cm_messages_test
