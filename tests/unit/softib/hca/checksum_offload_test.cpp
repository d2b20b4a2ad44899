// Sends with checksum offload, checked by the received bytes.
#include "datagrams.hpp"
#include "hca_fixture.hpp"

namespace softib::hca {
namespace {

using namespace test;

using ipoib::load_be;
using ipoib::store_be;
using ipoib::wire::InternetChecksum;

class ChecksumOffloadTest : public HcaTest {
 protected:
  /// Sends `bytes` from elements split at `splits`; returns the received bytes.
  Bytes sent(const Bytes& bytes, std::vector<std::size_t> splits = {},
             unsigned flags = IBV_SEND_IP_CSUM) {
    std::ranges::copy(bytes, a.memory.begin());
    splits.insert(splits.begin(), 0);
    splits.push_back(bytes.size());
    std::vector<ibv_sge> elements;
    for (std::size_t i = 0; i + 1 < splits.size(); ++i) {
      elements.push_back(a.element(splits[i], splits[i + 1] - splits[i]));
    }
    auto wr = a.send_request(handle_, to_.number(), elements.front());
    wr.num_sge = static_cast<int>(elements.size());
    wr.send_flags |= flags;
    EXPECT_EQ(a.send(from_, wr, sink), 0);
    EXPECT_EQ(a.poll().size(), 1U);
    EXPECT_EQ(b.receive_into(to_, 0, 4096), 0);
    deliver();
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), a.memory.begin()));
    const auto completions = b.poll();
    EXPECT_EQ(completions.size(), 1U);
    is_reported_valid_ = (completions.at(0).wc_flags & IBV_WC_IP_CSUM_OK) != 0;
    const auto begin = b.memory.begin() + kGrh;
    return {begin, begin + static_cast<std::ptrdiff_t>(completions[0].byte_len - kGrh)};
  }
  void expect_untouched(const Bytes& bytes, const char* what) {
    EXPECT_EQ(sent(bytes), bytes) << what;
    EXPECT_FALSE(is_reported_valid_) << what;
  }

  AddressHandle& handle_ = a.handle(6);
  QueuePair& from_ = a.make_qp();
  QueuePair& to_ = b.make_qp();
  bool is_reported_valid_ = false;
};

class ChecksumOffloadOf : public ChecksumOffloadTest, public testing::WithParamInterface<Shape> {};

TEST_P(ChecksumOffloadOf, IsCorrectForAnyScatterElements) {
  const auto& shape = GetParam();
  const auto bytes = datagram(shape);
  const std::size_t odd = transport_of(shape) + 3;
  for (const auto& splits : std::vector<std::vector<std::size_t>>{{},
                                                                  {1},
                                                                  {13},
                                                                  {odd, bytes.size() - 1},
                                                                  {3, odd, odd + 2},
                                                                  {checksum_offset(shape) + 1}}) {
    auto got = sent(bytes, splits);
    ASSERT_EQ(got.size(), bytes.size());
    EXPECT_EQ(transport_sum(got, shape), 0);
    if (shape.version == 4) {
      const auto header = ConstBytes(got).subspan(kIp, transport_of(shape) - kIp);
      EXPECT_EQ(ipoib::wire::internet_checksum(header), 0);
      store_be(&got[kIp + 10], kWrongChecksum);
    }
    store_be(&got[checksum_offset(shape)], kWrongChecksum);
    EXPECT_EQ(got, bytes) << "other bytes are unchanged";
    EXPECT_EQ(is_reported_valid_, shape.version == 4) << "HCAs do not report checksums of IPv6";
  }
}

TEST_P(ChecksumOffloadOf, IsOnlyDoneOnRequest) {
  const auto bytes = datagram(GetParam());
  EXPECT_EQ(sent(bytes, {}, 0), bytes);
  EXPECT_FALSE(is_reported_valid_);
}

TEST_P(ChecksumOffloadOf, TruncatedPacketIsUnchanged) {
  const auto bytes = datagram(GetParam());
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    expect_untouched({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}, "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, ChecksumOffloadOf,
                         testing::Values(Shape{"tcp4", 4, kTcp, 100},
                                         Shape{"tcp4_odd", 4, kTcp, 77},
                                         Shape{"tcp4_options", 4, kTcp, 5, 40},
                                         Shape{"udp4", 4, kUdp, 64}, Shape{"udp4_odd", 4, kUdp, 33},
                                         Shape{"tcp6_odd", 6, kTcp, 77},
                                         Shape{"udp6", 6, kUdp, 80}),
                         [](const auto& each) { return each.param.name; });

TEST_F(ChecksumOffloadTest, ZeroChecksumIsSentAsOnesForUdp) {
  for (const Shape& shape : {Shape{"", 4, kTcp, 2}, Shape{"", 4, kUdp, 2}}) {
    auto bytes = datagram(shape);
    store_be(&bytes[checksum_offset(shape)], std::uint16_t{0});
    const auto rest = transport_sum(bytes, shape);
    const auto last = bytes.size() - 2;
    store_be(&bytes[last],
             InternetChecksum().add(load_be<std::uint16_t>(&bytes[last])).add(rest).sum());
    ASSERT_EQ(transport_sum(bytes, shape), 0);
    EXPECT_EQ(load_be<std::uint16_t>(&sent(bytes)[checksum_offset(shape)]),
              shape.protocol == kUdp ? 0xffff : 0);
  }
}

TEST_F(ChecksumOffloadTest, BytesAfterThePacketAreIgnored) {
  const Shape shape{"", 4, kTcp, 20};
  auto bytes = datagram(shape);
  const auto size = bytes.size();
  bytes.push_back(77);
  auto got = sent(bytes);
  EXPECT_EQ(got.back(), 77);
  got.resize(size);
  EXPECT_EQ(transport_sum(got, shape), 0);
}

TEST_F(ChecksumOffloadTest, OtherPacketsAreUnchanged) {
  const Shape shape{"", 4, kTcp, 100};
  const auto with = [&](std::size_t at, std::uint8_t value, const Shape& of) {
    auto bytes = datagram(of);
    bytes[at] = value;
    return bytes;
  };
  expect_untouched(with(kIp + 6, 0x20, shape), "the first of several fragments");
  expect_untouched(with(kIp + 7, 0x01, shape), "the last one");
  expect_untouched(with(kIp + 9, 1, shape), "ICMP");
  expect_untouched(with(kIp, 0x65, shape), "another version");
  expect_untouched(with(kIp, 0x44, shape), "an IPv4 header of 16 bytes");
  expect_untouched(with(1, 0x06, shape), "ARP");
  expect_untouched(with(kIp + 6, 44, {"", 6, kTcp, 100}), "an extension header");
  expect_untouched(with(transport_of({"", 4, kUdp, 9}) + 5, 3, {"", 4, kUdp, 9}), "UDP's length");
  expect_untouched(Bytes(200, 0xff), "nothing that is known");
}

}  // namespace
}  // namespace softib::hca
