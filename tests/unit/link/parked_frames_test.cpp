// The limits of packets that wait for a neighbour or a group, and the fragments among them.
#include "link/parked_frames.hpp"

#include "tests/unit/link/link_fixture.hpp"
#include "wire/ipv4_fragments.hpp"
#include "wire/transport.hpp"

namespace ipoib::link {
namespace {

constexpr std::size_t kLargestIpv4 = 65535;
constexpr std::size_t kSlot = 4224;  ///< of a frame of a port whose largest MTU is 4096
/// What a fragment of MTU 2044 counts for its neighbour.
constexpr std::size_t kFragment = kHeadroom + 2044 + ParkingBudget::kPacketOverhead;

class ParkedDatagrams : public LinkFixture {
 protected:
  ParkedDatagrams() : frames(1024, kSlot) {}
  ~ParkedDatagrams() override { link.reset(); }  // it holds frames

  /// A datagram of the host that its kernel has split, in order.
  [[nodiscard]] std::vector<Frame> datagram(Ipv4Address to, std::uint16_t identification,
                                            std::size_t size = kLargestIpv4,
                                            std::size_t mtu = 2044) {
    std::vector<std::uint8_t> whole(size);
    whole[0] = 0x45;
    store_be(&whole[wire::ipv4::kTotalLength], static_cast<std::uint16_t>(size));
    store_be(&whole[wire::ipv4::kIdentification], identification);
    whole[8] = 64;
    whole[wire::ipv4::kProtocol] = wire::kUdp;
    std::ranges::copy(kOwnIp.bytes(), whole.begin() + 12);
    std::ranges::copy(to.bytes(), whole.begin() + 16);
    std::vector<Frame> fragments;
    for (wire::Ipv4Fragmenter fragmenter(whole, mtu); !fragmenter.done();) {
      Frame frame = frames.take();
      frame.window(kHeadroom, mtu);
      frame.window(kHeadroom, fragmenter.next(frame.bytes()));
      fragments.push_back(std::move(frame));
    }
    return fragments;
  }
  /// Fragments of one UDP datagram over IPv6.
  [[nodiscard]] std::vector<Frame> datagram(const Ipv6Address& from, const Ipv6Address& to,
                                            std::uint32_t identification, std::size_t count) {
    constexpr std::size_t kPayload = 1992;
    constexpr std::uint8_t kFragmentHeader = 44;
    std::vector<Frame> fragments;
    for (std::size_t i = 0; i < count; ++i) {
      Frame frame = frames.take();
      frame.window(kHeadroom, wire::Ipv6Header::kSize + 8 + kPayload);
      std::ranges::fill(frame.bytes(), std::uint8_t{0});
      wire::Ipv6Header{.source = from,
                       .destination = to,
                       .payload_length = 8 + kPayload,
                       .next_header = kFragmentHeader,
                       .hop_limit = 64}
          .emit(frame.bytes());
      std::uint8_t* const header = &frame.bytes()[wire::Ipv6Header::kSize];
      header[0] = wire::kUdp;
      const std::size_t more = i + 1 < count ? 1 : 0;
      store_be(header + 2, static_cast<std::uint16_t>(i * kPayload | more));
      store_be(header + 4, identification);
      fragments.push_back(std::move(frame));
    }
    return fragments;
  }
  void send_all(std::vector<Frame>&& packets) {
    for (Frame& packet : packets) send(std::move(packet));
  }
  void send_small(Ipv4Address to, std::size_t count = 1, std::size_t size = 84) {
    for (std::size_t i = 0; i < count; ++i) {
      Frame frame = frames.take();
      const Frame source = ip_packet(to, kOwnIp, size);
      frame.window(kHeadroom, source.size());
      std::ranges::copy(source.bytes(), frame.bytes().begin());
      send(std::move(frame));
    }
  }
  [[nodiscard]] std::size_t parked(const IpAddress& at = kPeer) const {
    const auto entry = link->get(at, now);
    return entry ? entry->parked : 0;
  }
  /// The peer responds. Returns how many packets it has been sent then.
  std::size_t resolve() {
    receive_arp(arp_from_peer(wire::ArpOperation::reply));
    link->sends().clear();
    grant_paths();
    return link->sends().size();
  }
  [[nodiscard]] static constexpr Ipv4Address neighbour(std::uint32_t i) {
    return Ipv4Address(0x0a2c0020 + i);
  }
  [[nodiscard]] std::uint64_t drops() const {
    return count(Counter::drop_parked_limit) + count(Counter::drop_parked_total_limit) +
           count(Counter::drop_parked_fragment);
  }

  FramePool frames;
};

TEST_F(ParkedDatagrams, TheLargestDatagramWaitsForItsNeighbour) {
  bring_up();
  send_all(datagram(kPeer, 1));
  EXPECT_EQ(parked(), 33U);
  EXPECT_EQ(resolve(), 33U);
  EXPECT_EQ(drops(), 0U);
}

TEST_F(ParkedDatagrams, TheLargestDatagramWaitsAtTheSmallestMtu) {
  constexpr std::size_t kMtu = 252;
  bring_up();
  std::vector<Frame> fragments = datagram(kPeer, 1, kLargestIpv4, kMtu);
  const std::size_t needed = fragments.size();
  send_all(std::move(fragments));
  EXPECT_EQ(parked(), needed);
  EXPECT_EQ(drops(), 0U);
}

TEST_F(ParkedDatagrams, BytesOfANeighbourAreLimitedAsInLinux) {
  bring_up();
  constexpr std::size_t kUnresolvedQueue = 212'992;  // net.ipv4.neigh.default.unres_qlen_bytes
  send_small(kPeer, 200, 2044);
  EXPECT_EQ(parked(), kUnresolvedQueue / kFragment);
  EXPECT_EQ(count(Counter::drop_parked_limit), 200 - kUnresolvedQueue / kFragment);
}

TEST_F(ParkedDatagrams, ADatagramThatDoesNotFitIsDroppedAsAWhole) {
  bring_up();
  for (std::uint16_t id = 1; id <= 3; ++id) send_all(datagram(kPeer, id));
  EXPECT_EQ(parked(), 66U) << "92 fragments fit";
  EXPECT_EQ(count(Counter::drop_parked_limit), 1U);
  EXPECT_EQ(count(Counter::drop_parked_fragment), 32U);
  send_small(kPeer);
  EXPECT_EQ(parked(), 67U) << "others are not affected";
  EXPECT_EQ(resolve(), 67U);
  EXPECT_EQ(frames.available() + link->sends().size(), frames.capacity());
}

TEST_F(ParkedDatagrams, InterleavedDatagramsAreDroppedAsWholes) {
  config.limits.parked_bytes_per_neighbour = 40 * kFragment;
  bring_up();
  auto first = datagram(kPeer, 1);
  auto second = datagram(kPeer, 2);
  for (std::size_t i = 0; i < first.size(); ++i) {
    send(std::move(first[i]));
    send(std::move(second[i]));
  }
  EXPECT_EQ(parked(), 33U) << "the first fragment that does not fit is of the first one";
  for (const auto& sent : (resolve(), link->sends())) {
    EXPECT_EQ(wire::datagram_of(wire::ip_of(std::as_const(sent.frame).bytes()))->identification,
              2U);
  }
}

TEST_F(ParkedDatagrams, ADatagramIsForgottenWhenItsNeighbourResponds) {
  config.limits.parked_bytes_per_neighbour = 2 * kFragment;
  bring_up();
  send_all(datagram(kPeer, 1));
  EXPECT_EQ(parked(), 0U);
  send_small(kPeer);
  EXPECT_EQ(resolve(), 1U);
  send_all(datagram(kPeer, 1, 6000));
  EXPECT_EQ(link->sends().size(), 1U + 3U) << "another datagram, with the same identification";
}

TEST_F(ParkedDatagrams, IncompleteOnesAreRememberedUpToALimit) {
  FramePool pool_of_one(64, kSlot);
  Counters counters;
  ParkingBudget budget{.bytes_per_neighbour = kFragment,
                       .first_packets = 1,
                       .frames = 8,
                       .bytes = 8 * kSlot,
                       .incomplete_per_neighbour = 2};
  ParkedFrames queue(budget);
  const auto park = [&](Frame&& packet) {
    wire::emit_encapsulation(wire::EtherType::ipv4, packet.prepend(wire::kEncapsulationSize));
    queue.park(std::move(packet), Purpose::packet, counters);
  };
  for (std::uint16_t id = 1; id <= 3; ++id) {
    auto fragments = datagram(kPeer, id, 3000);
    ASSERT_EQ(fragments.size(), 2U);
    for (Frame& fragment : fragments) park(std::move(fragment));
    EXPECT_EQ(queue.size(), 0U);
  }
  park(std::move(datagram(kPeer, 3, 3000)[0]));
  EXPECT_EQ(queue.size(), 0U) << "of an incomplete datagram";
  park(std::move(datagram(kPeer, 1, 3000)[0]));
  EXPECT_EQ(queue.size(), 1U) << "the oldest one was forgotten";
  EXPECT_EQ(budget.used, 1U);
  EXPECT_EQ(budget.bytes_used, kSlot);
  (void)queue.take();
  park(std::move(datagram(kPeer, 3, 3000)[0]));
  EXPECT_EQ(queue.size(), 1U) << "all were forgotten";
}

TEST_F(ParkedDatagrams, OfIpv6AreDroppedAsWholes) {
  const Ipv6Address own = *Ipv6Address::parse("fd44::1");
  const Ipv6Address peer = *Ipv6Address::parse("fd44::2");
  view.addresses.push_back({own, 64});
  config.limits.parked_bytes_per_neighbour = 40 * kFragment;
  bring_up();
  send_all(datagram(own, peer, 1, 30));
  send_all(datagram(own, peer, 2, 20));
  EXPECT_EQ(parked(peer), 30U);
  EXPECT_EQ(count(Counter::drop_parked_fragment), 19U);
  send_all(datagram(own, peer, 3, 10));
  EXPECT_EQ(parked(peer), 40U);
}

TEST_F(ParkedDatagrams, WaitForTheirGroup) {
  bring_up();
  const Ipv4Address group(0xef010203);
  send_all(datagram(group, 1));
  send_all(datagram(group, 2));
  send_all(datagram(group, 3));
  grant_joins();
  EXPECT_EQ(link->sends().size(), 66U) << "two of them, as wholes";
}

TEST_F(ParkedDatagrams, TheTotalIsLimitedToo) {
  bring_up();
  for (std::uint32_t i = 0; i < 20; ++i) send_all(datagram(neighbour(i), 1));
  std::size_t total = 0;
  for (std::uint32_t i = 0; i < 20; ++i) {
    const std::size_t own = parked(neighbour(i));
    EXPECT_TRUE(own == 0 || own == 33) << own;
    total += own;
  }
  EXPECT_GE(total + 33, config.limits.parked * 3 / 4);
  EXPECT_LE(total, config.limits.parked);
  EXPECT_EQ(total + drops(), std::uint64_t{20} * 33);
  EXPECT_GT(count(Counter::drop_parked_total_limit), 0U);
}

TEST_F(ParkedDatagrams, OfOneNeighbourLeaveRoomForTheFirstPacketsOfOthers) {
  bring_up();
  send_small(neighbour(0), 1000);
  EXPECT_EQ(parked(neighbour(0)), config.limits.parked * 3 / 4);
  EXPECT_GT(count(Counter::drop_parked_total_limit), 0U);
  const auto others =
      static_cast<std::uint32_t>(config.limits.parked / 4 / config.limits.parked_first);
  for (std::uint32_t i = 1; i <= others; ++i) {
    send_small(neighbour(i), config.limits.parked_first + 1);
    EXPECT_EQ(parked(neighbour(i)), config.limits.parked_first) << i;
  }
  send_small(neighbour(others + 1));
  EXPECT_EQ(parked(neighbour(others + 1)), 0U) << "the limit of all";
}

TEST(ParkedFramesTest, DestructorReturnsItsFrames) {
  FramePool pool(4, 64);
  Counters counters;
  ParkingBudget budget{
      .bytes_per_neighbour = 1 << 20, .first_packets = 2, .frames = 3, .bytes = 1 << 20};
  {
    ParkedFrames first(budget);
    first.park(pool.take(), Purpose::reply, counters);
    EXPECT_FALSE(first.has_packets());
    first.park(pool.take(), Purpose::packet, counters);
    EXPECT_TRUE(first.has_packets());
    ParkedFrames second(std::move(first));
    EXPECT_EQ(second.size(), 2U);
    EXPECT_TRUE(second.has_packets());
    EXPECT_EQ(budget.used, 1U);
    EXPECT_EQ(budget.replies_used, 1U);
    first = ParkedFrames(budget);
    first.park(pool.take(), Purpose::packet, counters);
    EXPECT_EQ(budget.used, 2U);
    second = std::move(first);
    EXPECT_EQ(budget.used, 1U);
    EXPECT_EQ(budget.replies_used, 0U);
  }
  EXPECT_EQ(budget.used, 0U);
  EXPECT_EQ(pool.available(), 4U);
}

TEST(ParkedFramesTest, BytesAreReturnedToTheBudget) {
  FramePool pool(4, 64);
  Counters counters;
  ParkingBudget budget{
      .bytes_per_neighbour = 1 << 20, .first_packets = 4, .frames = 4, .bytes = 1 << 20};
  {
    ParkedFrames parked(budget);
    parked.park(pool.take(), Purpose::packet, counters);
    parked.park(pool.take(), Purpose::packet, counters);
    EXPECT_EQ(budget.bytes_used, 128U) << "the memory that they occupy";
    (void)parked.take();
    EXPECT_EQ(budget.bytes_used, 0U);
    parked.park(pool.take(), Purpose::packet, counters);
    EXPECT_EQ(budget.bytes_used, 64U);
    parked.drop(Counter::drop_link_down, counters);
    EXPECT_EQ(budget.bytes_used, 0U);
    parked.park(pool.take(), Purpose::packet, counters);
  }
  EXPECT_EQ(budget.bytes_used, 0U);
}

}  // namespace
}  // namespace ipoib::link
