// The limit for each source of datagrams.
#include "link/source_limit.hpp"

#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::link {
namespace {

TEST(SourceLimitTest, TheLidsOfAPortAreOneSource) {
  SourceLimit limit(1, kHashKey);
  Incoming datagram;
  datagram.source_lid = Lid(8);
  EXPECT_TRUE(limit.take(datagram, 2, TimePoint(1h)));
  datagram.source_lid = Lid(11);
  EXPECT_FALSE(limit.take(datagram, 2, TimePoint(1h)));
  datagram.source_lid = Lid(12);
  EXPECT_TRUE(limit.take(datagram, 2, TimePoint(1h))) << "another port";
}

}  // namespace
}  // namespace ipoib::link
