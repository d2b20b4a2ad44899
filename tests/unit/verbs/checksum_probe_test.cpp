#include "verbs/checksum_probe.hpp"

#include <gtest/gtest.h>

#include "offload/segmenter.hpp"
#include "wire/checksum.hpp"
#include "wire/encapsulation.hpp"
#include "wire/transport.hpp"

namespace ipoib::verbs {
namespace {

using Datagram = std::vector<std::uint8_t>;

constexpr std::size_t kMark = 16;  ///< bytes of payload in a segment

/// What a device with correct checksums makes of the probes.
std::vector<Datagram> segments() {
  FramePool pool(1, 2048);
  std::vector<Datagram> out;
  for (const std::uint8_t version : kProbeVersions) {
    Frame frame = pool.take();
    write_probe(frame, version);
    // As the host leaves it to the segmenter, which is in place of the device: with the sum of the
    // pseudo-header.
    constexpr std::uint16_t kUdpSize = wire::kUdpHeader + kProbeSegments * kMark;
    wire::InternetChecksum partial;
    if (version == 4) {
      const Ipv4Address loopback(0x7f000001);
      partial.add_pseudo_header(loopback, loopback, wire::kUdp, kUdpSize);
    } else {
      const Ipv6Address loopback = *Ipv6Address::parse("::1");
      partial.add_pseudo_header(loopback, loopback, wire::kUdp, kUdpSize);
    }
    const auto at = frame.segmentation().transport + wire::checksum_offset(Segmentation::Kind::udp);
    store_be(frame.bytes().data() + at, partial.sum());
    auto segmenter = offload::make_segmenter(frame, wire::kEncapsulationSize);
    while (!segmenter.done()) {
      Datagram& made = out.emplace_back(segmenter.header_size());
      const ConstBytes payload = segmenter.next(made.data());
      made.insert(made.end(), payload.begin(), payload.end());
    }
  }
  return out;
}

TEST(ChecksumProbeTest, PassesWhenEachSegmentIsValid) {
  ChecksumProbe probe;
  probe.begin();
  const auto all = segments();
  ASSERT_EQ(all.size(), kProbeVersions.size() * kProbeSegments);
  for (const Datagram& one : all) {
    EXPECT_TRUE(probe.is_waiting());
    EXPECT_FALSE(probe.passed());
    EXPECT_TRUE(probe.take(one));
  }
  EXPECT_TRUE(probe.passed());
  EXPECT_FALSE(probe.is_waiting());
  EXPECT_FALSE(probe.take(all[0])) << "nothing is awaited";
  EXPECT_FALSE(probe.is_waiting());
}

TEST(ChecksumProbeTest, OneInvalidSegmentFailsIt) {
  auto all = segments();
  for (std::size_t bad = 0; bad < all.size(); ++bad) {
    ChecksumProbe probe;
    probe.begin();
    for (std::size_t i = 0; i < all.size(); ++i) {
      Datagram one = all[i];
      if (i == bad) one[one.size() - kMark - 1] ^= 1;  // the checksum of UDP
      EXPECT_TRUE(probe.take(one));
    }
    EXPECT_TRUE(probe.failed()) << bad;
    EXPECT_FALSE(probe.passed()) << bad;
  }
}

TEST(ChecksumProbeTest, GoesFromTheLoopbackAddressToItself) {
  FramePool pool(1, 2048);
  Frame frame = pool.take();
  const auto number = [&](std::size_t at) {
    return load_be<std::uint32_t>(frame.bytes().data() + wire::kEncapsulationSize + at);
  };
  write_probe(frame, 4);
  for (const std::size_t address : {12U, 16U}) EXPECT_EQ(number(address), 0x7f000001U);
  write_probe(frame, 6);
  for (const std::size_t address : {8U, 24U}) {
    for (const std::size_t part : {0U, 4U, 8U, 12U}) {
      EXPECT_EQ(number(address + part), part == 12 ? 1U : 0U);
    }
  }
}

TEST(ChecksumProbeTest, IsRepeatedSomeTimesIfProbesAreLost) {
  ChecksumProbe probe;
  for (int i = 0; i < kMaxProbeAttempts; ++i) {
    EXPECT_TRUE(probe.is_open());
    probe.begin();
  }
  EXPECT_FALSE(probe.is_open());
  EXPECT_FALSE(probe.failed());
}

TEST(ChecksumProbeTest, OtherDatagramsAreNotTaken) {
  ChecksumProbe probe;
  probe.begin();
  EXPECT_FALSE(probe.take(Datagram(100)));
  EXPECT_FALSE(probe.take(Datagram()));
  EXPECT_TRUE(probe.is_open());
}

}  // namespace
}  // namespace ipoib::verbs
