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

TEST(SourceLimitTest, WithAGrhTheGidIsTheSource) {
  SourceLimit limit(1, kHashKey);
  Incoming datagram;
  datagram.has_grh = true;
  datagram.destination_gid = port_gid(1);
  datagram.source_gid = port_gid(2);
  EXPECT_TRUE(limit.take(datagram, 0, TimePoint(1h)));
  EXPECT_FALSE(limit.take(datagram, 0, TimePoint(1h)));
  datagram.source_gid = port_gid(3);
  EXPECT_TRUE(limit.take(datagram, 0, TimePoint(1h))) << "to the same port";
}

}  // namespace
}  // namespace ipoib::link
