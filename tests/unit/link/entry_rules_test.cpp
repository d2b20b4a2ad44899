// Rules of the cache of which each is one line in the source: which entry goes, what counts, and
// what is not done twice.
#include "tests/unit/link/link_fixture.hpp"
#include "tests/unit/link/neighbour_fixture.hpp"

namespace ipoib::link {
namespace {

class EvictionRules : public ObjectFixture {
 protected:
  static constexpr Ipv4Address kFirst{0x0a2c0010};
  static constexpr Ipv4Address kSecond{0x0a2c0011};
  static constexpr Ipv4Address kThird{0x0a2c0012};

  /// A table of two entries.
  Config small = [] {
    Config made;
    made.limits.neighbours = 2;
    return made;
  }();
  NeighbourTable few{
      {small, paths, solicitor, icmp, pool, out, parking, statistics, random, *silent_logger()},
      kHashKey};

  ~EvictionRules() override { few.clear(Counter::drop_link_down); }
  Neighbour& reachable(const IpAddress& address) {
    prepare_path(kPeerHw.gid);
    Neighbour& made = *few.create(address, Purpose::packet);
    few.address(made, kPeerHw, Evidence::confirmed, now);
    few.packet(made, packet(), now);
    return made;
  }
};

TEST_F(EvictionRules, OfActiveEntriesTheLeastRecentlyUsedGoes) {
  for (const bool first_is_used_last : {false, true}) {
    reachable(kFirst);
    now += 1s;
    reachable(kSecond);
    now += 1s;
    if (first_is_used_last) few.packet(*few.find(kFirst), packet(), now);
    ASSERT_NE(few.create(kThird, Purpose::packet), nullptr);
    EXPECT_EQ(few.find(kFirst) != nullptr, first_is_used_last);
    EXPECT_EQ(few.find(kSecond) != nullptr, !first_is_used_last);
    few.address(*few.find(kThird), kPeerHw, Evidence::confirmed, now);
    few.clear(Counter::drop_link_down);
  }
}

TEST_F(EvictionRules, AnEntryWithParkedFramesStays) {
  Neighbour& waiting = *few.create(kFirst, Purpose::packet);
  few.packet(waiting, packet(), now);
  few.address(waiting, kNewPeerHw, Evidence::confirmed, now);
  ASSERT_EQ(waiting.state_name(), NeighbourState::resolving);
  now += 1s;
  reachable(kSecond);
  ASSERT_NE(few.create(kThird, Purpose::packet), nullptr);
  EXPECT_NE(few.find(kFirst), nullptr) << "although it was used least recently";
  EXPECT_EQ(few.find(kSecond), nullptr);
  few.address(*few.find(kThird), kPeerHw, Evidence::confirmed, now);
}

using EntryRules = NeighbourStates;

/// A gateway that has failed is asked about at its deadlines, within the limit for probes.
TEST_F(EntryRules, ProbesOfAFailedGatewayAreLimited) {
  make_failed();
  const NeighbourDependencies deps{config, paths,   solicitor,  icmp,   pool,
                                   out,    parking, statistics, random, *silent_logger()};
  (void)entry()->on_gateway_deadline(deps, now);
  EXPECT_EQ(sent_arp().size(), 1U);
  forget();
  while (solicitor.admit_revalidation(now)) {
  }
  (void)entry()->on_gateway_deadline(deps, now);
  EXPECT_TRUE(sent_arp().empty());
}

TEST_F(EntryRules, UsesBeyond32BitsAreRestored) {
  prepare_path(kPeerHw.gid);
  restore({});
  EXPECT_EQ(entry()->info(now).uses, 0x1'0000'0005U);
  EXPECT_EQ(entry()->saved(now)->uses, 0x1'0000'0005U);
}

/// The host's own advertisements are replies, which wait for a path like those of the link.
TEST_F(EntryRules, TheWaitOfAReplyIsNoResolution) {
  learn(kPeerHw);
  neighbours.packet(*entry(), packet(), now, Purpose::reply);
  now += 1s;
  grant(path_requests().at(0));
  EXPECT_EQ(sent_packets(), 1U);
  for (const auto count : statistics.resolution.counts()) EXPECT_EQ(count, 0U);
}

TEST_F(EntryRules, APermanentAddressIsNotReportedAsLearnt) {
  config.reports_neighbours = true;
  make_permanent();
  learn(kNewPeerHw);
  EXPECT_TRUE(out.known_neighbours.empty());
  remove();
  learn(kNewPeerHw);
  EXPECT_EQ(out.known_neighbours.size(), 1U);
}

/// A host without an address of the family cannot be answered.
TEST_F(EntryRules, NothingIsSolicitedWithoutASource) {
  prepare_path(kPeerHw.gid);
  const Ipv6Address target = *Ipv6Address::parse("fe80::2");
  nd.unicast_solicitation(target, kPeerHw, *kept.back()->usable());
  EXPECT_TRUE(out.sends.empty());
  EXPECT_EQ(count(Counter::nd_solicitations_unicast), 0U);
}

TEST_F(EntryRules, ARepliesTargetHasNoFlags) {
  wire::Arp request;
  request.operation = wire::ArpOperation::request;
  request.sender_hardware = kPeerHw;
  request.sender_hardware.flags = 0x80;  // it supports connected mode
  const Frame reply = arp.make_reply(request);
  const auto sent = wire::Arp::parse(reply.bytes().subspan(wire::kEncapsulationSize));
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->target_hardware, kPeerHw);
}

/// The option does not fit: the host's message is sent without it.
TEST_F(EntryRules, AnOptionStaysWithinFrameAndMtu) {
  wire::NdMessage message;
  message.type = wire::NdType::neighbour_advertisement;
  message.source = message.target = *Ipv6Address::parse("fe80::1");
  message.destination = *Ipv6Address::parse("fe80::2");
  std::array<std::uint8_t, wire::NdMessage::kMaxEmitted> bytes{};
  const std::size_t size = message.emit(bytes);
  const std::size_t whole = size + wire::kLinkLayerOptionSize;
  FramePool frames(1, 2048);
  const auto put = [&](std::size_t room, std::size_t mtu) {
    Frame frame = frames.take();
    frame.window(frame.capacity() - room, size);
    std::copy_n(bytes.begin(), size, frame.bytes().begin());
    put_link_layer_option(frame, wire::LinkLayerOption::target, kOwn, mtu);
    return frame.size();
  };
  EXPECT_EQ(put(whole, whole), whole);
  EXPECT_EQ(put(whole, whole - 1), size) << "over the MTU";
  EXPECT_EQ(put(whole - 1, 2044), size) << "beyond the end of the frame";
}

}  // namespace
}  // namespace ipoib::link
