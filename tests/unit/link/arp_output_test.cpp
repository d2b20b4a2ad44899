// ARP messages of the link.
#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {
namespace {

using ArpOutputTest = ObjectFixture;

TEST_F(ArpOutputTest, AddressesInAReplyHaveNoFlags) {
  wire::Arp request;
  request.operation = wire::ArpOperation::request;
  request.sender_hardware = kPeerHw;
  request.sender_hardware.flags = 0x80;  // it supports connected mode
  HwAddress own = kOwn;
  own.flags = 0x80;
  ArpOutput output({host, own, groups.broadcast(), pool, reports, out});
  const Frame reply = output.make_reply(request);
  const auto sent = wire::Arp::parse(reply.bytes().subspan(wire::kEncapsulationSize));
  ASSERT_TRUE(sent);
  EXPECT_EQ(reply.bytes().size(), wire::kEncapsulationSize + wire::Arp::kSize);
  EXPECT_EQ(sent->target_hardware, kPeerHw);
  EXPECT_EQ(sent->sender_hardware, kOwn);
}

}  // namespace
}  // namespace ipoib::link
