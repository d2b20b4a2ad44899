// Large sends (IBV_WR_TSO), checked by the datagrams that are sent.
#include "datagrams.hpp"
#include "hca_fixture.hpp"

namespace softib::hca {
namespace {

using namespace test;

using ipoib::load_be;
using ipoib::store_be;
using ipoib::wire::UdPacket;

constexpr std::uint16_t kSegment = 500;  // bytes of payload
constexpr std::uint32_t kSequence = 0xffffff00;
constexpr std::uint8_t kFin = 0x01;
constexpr std::uint8_t kPush = 0x08;
constexpr std::uint8_t kAck = 0x10;
constexpr std::uint8_t kCwr = 0x80;

/// The headers of a large packet with 3000 bytes of payload.
Bytes headers(const Shape& shape) {
  auto out = tso_headers(shape);
  if (shape.protocol == kTcp) {
    store_be(&out[transport_of(shape) + 4], kSequence);
    store_be(&out[transport_of(shape) + 12], std::uint16_t{0x5000 | kAck});
  }
  return out;
}

class LargeSendTest : public HcaTest {
 protected:
  LargeSendTest() { std::iota(a.memory.begin(), a.memory.end(), std::uint8_t{7}); }

  static QueuePairConfig with_large_sends(QueuePairConfig config) {
    config.max_tso_header = 128;
    return config;
  }
  ibv_send_wr large(const Bytes& header, std::vector<ibv_sge>& elements,
                    std::uint16_t size = kSegment) {
    auto wr = a.send_request(handle_, Qpn(0x10000), elements.front());
    wr.num_sge = static_cast<int>(elements.size());
    wr.opcode = IBV_WR_TSO;
    wr.send_flags |= IBV_SEND_IP_CSUM;
    wr.tso.hdr = const_cast<std::uint8_t*>(header.data());
    wr.tso.hdr_sz = static_cast<std::uint16_t>(header.size());
    wr.tso.mss = size;
    return wr;
  }
  /// Posts a large send with the given payload; returns the sent datagrams.
  std::vector<Bytes> sent(const Bytes& header, std::vector<ibv_sge> elements,
                          unsigned flags = IBV_SEND_IP_CSUM) {
    auto wr = large(header, elements);
    wr.send_flags = IBV_SEND_SIGNALED | flags;
    EXPECT_EQ(a.send(from_, wr, sink), 0);
    return sent();
  }
  std::vector<Bytes> sent() const {
    std::vector<Bytes> out;
    for (const auto& bytes : sink.packets) {
      const auto packet = UdPacket::parse(bytes);
      EXPECT_TRUE(packet);
      out.emplace_back(packet->payload.begin(), packet->payload.end());
    }
    return out;
  }
  void expect_failed(ibv_wc_status status) {
    const auto wc = a.poll();
    ASSERT_EQ(wc.size(), 1U);
    EXPECT_EQ(wc[0].status, status);
    EXPECT_EQ(wc[0].byte_len, 0U);
    EXPECT_EQ(a.hca.counters().send_errors, 1U);
    EXPECT_EQ(from_.state(), IBV_QPS_SQE);
  }

  AddressHandle& handle_ = a.handle(6);
  QueuePair& from_ = a.make_qp(IBV_QPS_RTS, with_large_sends(a.config()));
  const Bytes tcp_ = headers({"", 4, kTcp, 0});
};

class LargeSendOf : public LargeSendTest, public testing::WithParamInterface<Shape> {};

TEST_P(LargeSendOf, EachSegmentIsACompleteDatagram) {
  const auto& shape = GetParam();
  const auto header = headers(shape);
  const auto segments = sent(
      header, {a.element(1000, 100), a.element(0, 0), a.element(1100, 1), a.element(1101, 2000)});
  ASSERT_EQ(segments.size(), 5U);
  Bytes payload;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    auto got = segments[i];
    payload.insert(payload.end(), got.begin() + static_cast<std::ptrdiff_t>(header.size()),
                   got.end());
    EXPECT_EQ(got.size() - header.size(), i < 4 ? kSegment : 101U);
    EXPECT_EQ(transport_sum(got, shape), 0);
    EXPECT_EQ(UdPacket::parse(sink.packets[i])->bth.psn.value(), 100 + i);
    EXPECT_TRUE(sink.checksums_valid[i]);

    // Checks the fields that differ from the given headers, and restores them.
    const auto differs = [&](std::size_t at, std::size_t expected) {
      EXPECT_EQ(load_be<std::uint16_t>(&got[at]), static_cast<std::uint16_t>(expected)) << at;
      std::copy_n(&header[at], 2, &got[at]);
    };
    if (shape.version == 4) {
      EXPECT_EQ(
          ipoib::wire::internet_checksum(ConstBytes(got).subspan(kIp, transport_of(shape) - kIp)),
          0);
      differs(kIp + 2, got.size() - kIp);
      differs(kIp + 4, 0x1234 + i);
      std::copy_n(&header[kIp + 10], 2, &got[kIp + 10]);
    } else {
      differs(kIp + 4, got.size() - kIp - 40);
    }
    const auto transport = transport_of(shape);
    if (shape.protocol == kTcp) {
      const auto sequence = static_cast<std::uint32_t>(kSequence + i * kSegment);
      differs(transport + 4, sequence >> 16);
      differs(transport + 6, sequence);
    } else {
      differs(transport + 4, got.size() - transport);
    }
    std::copy_n(&header[checksum_offset(shape)], 2, &got[checksum_offset(shape)]);
    got.resize(header.size());
    EXPECT_EQ(got, header);
  }
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), a.memory.begin() + 1000));
  const auto wc = a.poll();
  ASSERT_EQ(wc.size(), 1U);
  EXPECT_EQ(wc[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc[0].opcode, IBV_WC_TSO);
  EXPECT_EQ(wc[0].byte_len, 2101U);
  EXPECT_EQ(a.hca.counters().sent_packets, 5U);
  EXPECT_EQ(a.hca.counters().sent_bytes, 5 * header.size() + 2101);
}

TEST_P(LargeSendOf, WithoutOffloadChecksumsAreCopiedFromTheHeaders) {
  const auto& shape = GetParam();
  for (const auto& segment : sent(headers(shape), {a.element(0, 1200)}, 0)) {
    EXPECT_EQ(load_be<std::uint16_t>(&segment[checksum_offset(shape)]), kWrongChecksum);
    if (shape.version == 4) {
      EXPECT_EQ(load_be<std::uint16_t>(&segment[kIp + 10]), kWrongChecksum);
    }
  }
  EXPECT_EQ(sink.checksums_valid, std::vector<bool>(3));
}

INSTANTIATE_TEST_SUITE_P(All, LargeSendOf, testing::ValuesIn(kTsoShapes),
                         [](const auto& each) { return each.param.name; });

TEST_F(LargeSendTest, FlagsOfOneSegmentAreSetOnlyThere) {
  auto header = tcp_;
  auto& flags = header[transport_of({"", 4, kTcp, 0}) + 13];
  flags = kAck | kCwr | kFin | kPush;
  std::vector<unsigned> seen;
  for (const auto& segment : sent(header, {a.element(0, 3 * kSegment)})) {
    seen.push_back(segment[static_cast<std::size_t>(&flags - header.data())]);
  }
  EXPECT_EQ(seen, (std::vector<unsigned>{kAck | kCwr, kAck, kAck | kFin | kPush}));
}

TEST_F(LargeSendTest, MayHaveASingleSegment) {
  EXPECT_EQ(sent(tcp_, {a.element(0, 1)}).size(), 1U);
  EXPECT_EQ(a.poll().size(), 1U);
}

TEST_F(LargeSendTest, EachSegmentCountsForTheBatchLimit) {
  auto sge = a.element(0, 4);
  std::vector<ibv_sge> all{a.element(0, (kSendBatch - 1) * kSegment)};
  std::array chain{a.send_request(handle_, Qpn(0x10000), sge), large(tcp_, all),
                   a.send_request(handle_, Qpn(0x10000), sge)};
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i].wr_id = i;
    if (i + 1 < chain.size()) chain[i].next = &chain[i + 1];
  }
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(a.hca.post_send(from_, chain.data(), &bad), 0);
  transmit(a.hca, from_, sink);
  EXPECT_EQ(sink.batches, (std::vector<std::size_t>{2, 1}));
  const auto wc = a.poll();
  ASSERT_EQ(wc.size(), 3U);
  EXPECT_EQ(wc[1].wr_id, 1U);
  EXPECT_EQ(wc[1].opcode, IBV_WC_TSO);
  EXPECT_EQ(wc[1].byte_len, (kSendBatch - 1) * kSegment);
  EXPECT_EQ(wc[2].opcode, IBV_WC_SEND);
  EXPECT_EQ(UdPacket::parse(sink.packets.back())->bth.psn.value(), 100 + kSendBatch);
}

TEST_F(LargeSendTest, HeadersAreCopiedWhenPosted) {
  a.modify(from_, IBV_QPS_SQD);
  auto header = tcp_;
  EXPECT_TRUE(sent(header, {a.element(0, 800)}).empty());
  header.assign(header.size(), 0);
  a.modify(from_, IBV_QPS_RTS);
  transmit(a.hca, from_, sink);
  EXPECT_EQ(sent().size(), 2U);
}

TEST_F(LargeSendTest, InactivePortSendsNoSegment) {
  auto port = a.hca.ports()[1];
  port.state = PortState::down;
  a.hca.set_port(port);
  EXPECT_TRUE(sent(tcp_, {a.element(0, 3 * kSegment)}).empty());
  EXPECT_EQ(a.hca.counters().at(1).send_drop_port, 3U);
  EXPECT_EQ(a.poll().size(), 1U);
}

TEST_F(LargeSendTest, CompletesOnlyIfSignalled) {
  std::vector<ibv_sge> all{a.element(0, 1000)};
  auto wr = large(tcp_, all);
  wr.send_flags = 0;
  ASSERT_EQ(a.send(from_, wr, sink), 0);
  EXPECT_TRUE(a.poll().empty());
}

TEST_F(LargeSendTest, MemoryOfAnotherDomainSendsNothing) {
  auto foreign = a.element(0, 1000);
  foreign.lkey ^= 1;
  EXPECT_TRUE(sent(tcp_, {a.element(0, 1100), foreign}).empty());
  expect_failed(IBV_WC_LOC_PROT_ERR);
  a.modify(from_, IBV_QPS_RTS);
  EXPECT_EQ(sent(tcp_, {a.element(0, kSegment)}).size(), 1U) << "the bad send had no effect";
}

TEST_F(LargeSendTest, NoSegmentIsLongerThanTheMtu) {
  std::vector<ibv_sge> all{a.element(0, 4096)};
  const auto fits = static_cast<std::uint16_t>(2048 - tcp_.size());
  auto wr = large(tcp_, all, fits);
  ASSERT_EQ(a.send(from_, wr, sink), 0);
  EXPECT_EQ(sent().at(0).size(), 2048U);
  EXPECT_EQ(a.poll().at(0).status, IBV_WC_SUCCESS);
  wr = large(tcp_, all, fits + 1);
  ASSERT_EQ(a.send(from_, wr, sink), 0);
  EXPECT_EQ(sent().size(), 3U);
  expect_failed(IBV_WC_LOC_LEN_ERR);
}

struct HeaderCase {
  const char* name;
  Shape shape;
  void (*spoil)(Bytes&);
};
void PrintTo(const HeaderCase& one, std::ostream* out) { *out << one.name; }

class LargeSendHeaderTest : public LargeSendTest, public testing::WithParamInterface<HeaderCase> {};

TEST_P(LargeSendHeaderTest, HeadersMustBeTcpOrUdp) {
  auto header = headers(GetParam().shape);
  GetParam().spoil(header);
  EXPECT_TRUE(sent(header, {a.element(0, 1000)}).empty());
  expect_failed(IBV_WC_LOC_QP_OP_ERR);
}

constexpr Shape kTcp4{"", 4, kTcp, 0};
constexpr Shape kTcp6{"", 6, kTcp, 0};
constexpr Shape kUdp4{"", 4, kUdp, 0};
INSTANTIATE_TEST_SUITE_P(
    All, LargeSendHeaderTest,
    testing::Values(
        HeaderCase{"arp", kTcp4, [](Bytes& header) { header[1] = 0x06; }},
        HeaderCase{"type_of_other_version", kTcp4,
                   [](Bytes& header) { header[0] = 0x86, header[1] = 0xdd; }},
        HeaderCase{"other_version", kTcp4, [](Bytes& header) { header[kIp] = 0x65; }},
        HeaderCase{"short_ipv4", kTcp4, [](Bytes& header) { header[kIp] = 0x44; }},
        HeaderCase{"long_ipv4", kTcp4, [](Bytes& header) { header[kIp] = 0x4f; }},
        HeaderCase{"fragment", kTcp4, [](Bytes& header) { header[kIp + 6] = 0x20; }},
        HeaderCase{"icmp", kTcp4, [](Bytes& header) { header[kIp + 9] = 1; }},
        HeaderCase{"extension_header", kTcp6, [](Bytes& header) { header[kIp + 6] = 44; }},
        HeaderCase{"ends_in_ip", kTcp6, [](Bytes& header) { header.resize(kIp + 39); }},
        HeaderCase{"ends_behind_ip", kTcp6, [](Bytes& header) { header.resize(kIp + 40); }},
        HeaderCase{"ends_in_tcp", kTcp4, [](Bytes& header) { header.pop_back(); }},
        HeaderCase{"more_than_tcp", kTcp4, [](Bytes& header) { header.push_back(0); }},
        HeaderCase{"ends_in_udp", kUdp4, [](Bytes& header) { header.pop_back(); }},
        HeaderCase{"more_than_udp", kUdp4, [](Bytes& header) { header.push_back(0); }},
        HeaderCase{"one_byte", kUdp4, [](Bytes& header) { header.resize(1); }}),
    [](const auto& each) { return each.param.name; });

TEST_F(LargeSendTest, InvalidRequestsAreRefused) {
  std::vector<ibv_sge> some{a.element(0, 1000)};
  const auto good = large(tcp_, some);
  const auto refused = [&](auto spoil, QueuePair& by) {
    auto wr = good;
    spoil(wr);
    ibv_send_wr* bad = nullptr;
    return a.hca.post_send(by, &wr, &bad) == EINVAL && bad == &wr;
  };
  const Bytes too_long(129);
  EXPECT_TRUE(refused([](auto&) {}, a.make_qp())) << "max_tso_header is 0";
  EXPECT_TRUE(refused([](auto& wr) { wr.tso.hdr_sz = 0; }, from_));
  EXPECT_TRUE(refused(
      [&](auto& wr) {
        wr.tso.hdr = const_cast<std::uint8_t*>(too_long.data());
        wr.tso.hdr_sz = 129;
      },
      from_));
  EXPECT_TRUE(refused([](auto& wr) { wr.tso.mss = 0; }, from_));
  EXPECT_TRUE(refused([](auto& wr) { wr.num_sge = 0; }, from_));
  EXPECT_TRUE(refused([](auto& wr) { wr.num_sge = -1; }, from_));
  EXPECT_TRUE(refused([](auto& wr) { wr.num_sge = 5; }, from_));
  EXPECT_TRUE(refused([](auto& wr) { wr.tso.hdr = nullptr; }, from_));
  some[0].length = 100;  // short enough for inline data
  EXPECT_TRUE(refused([](auto& wr) { wr.send_flags |= IBV_SEND_INLINE; }, from_));
  some[0].length = 1000;
  EXPECT_TRUE(refused([](auto& wr) { wr.tso.mss = 3; }, from_)) << "too many segments";
  some[0].length = kMaxTso + 1;
  EXPECT_TRUE(refused([](auto& wr) { wr.tso.mss = 2000; }, from_));
  some[0].length = 1000;
  EXPECT_FALSE(refused([](auto& wr) { wr.tso.mss = 4; }, from_));
  transmit(a.hca, from_, sink);
  EXPECT_EQ(sink.packets.size(), 250U);
}

TEST_F(LargeSendTest, HeaderSizeIsBounded) {
  auto config = a.config();
  config.max_tso_header = kMaxTsoHeader + 1;
  EXPECT_EQ(a.hca.create_queue_pair(config).error().code, EINVAL);
}

}  // namespace
}  // namespace softib::hca
