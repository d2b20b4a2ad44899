// Neighbour Discovery messages of the link, and options in those of the host.
#include <array>

#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {
namespace {

using NdOutputTest = ObjectFixture;

/// A host without an address of the family cannot be answered.
TEST_F(NdOutputTest, NothingIsSolicitedWithoutASource) {
  prepare_path(kPeerHw.gid);
  const Ipv6Address target = *Ipv6Address::parse("fe80::2");
  nd.unicast_solicitation(target, kPeerHw, *kept.back()->usable());
  EXPECT_TRUE(out.sends.empty());
  EXPECT_EQ(count(Counter::nd_solicitations_unicast), 0U);
}

TEST_F(NdOutputTest, WithoutAFrameNothingIsSent) {
  std::vector<Frame> all;
  for (Frame frame = pool.take(); frame; frame = pool.take()) all.push_back(std::move(frame));
  nd.announce(*Ipv6Address::parse("fe80::1"), now);
  EXPECT_TRUE(out.sends.empty());
  EXPECT_EQ(count(Counter::drop_no_frame), 1U);
}

/// The option does not fit: the host's message is sent without it.
TEST_F(NdOutputTest, AnOptionStaysWithinFrameAndMtu) {
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
