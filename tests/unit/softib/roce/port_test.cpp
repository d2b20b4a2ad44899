#include "softib/roce/port.hpp"

#include <net/if.h>
#include <poll.h>

#include "softib/roce/udp_socket.hpp"
#include "udp_fixture.hpp"

namespace softib::roce {
namespace {

using transport::Delivery;
using transport::SendMode;

class PortTest : public ::testing::Test {
 protected:
  static BorrowedSockets sockets_at(const std::vector<Gid>& addresses, unsigned interface = 0) {
    BorrowedSockets found;
    found.interface = interface;
    for (const auto& address : addresses) {
      auto opened = ReceiveSockets::open(address, 0);
      EXPECT_TRUE(opened) << opened.error().message;
      found.sockets.push_back({address, ipoib::FileDescriptor(::dup(opened->own().front()))});
    }
    return found;
  }
  [[nodiscard]] static bool is_readable(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  }
  Delivery send(const OutgoingPacket& packet) {
    const auto* const one = &packet;
    Delivery why{};
    const auto sent = port_.send({&one, 1}, SendMode::blocking, why);
    EXPECT_EQ(sent, why == Delivery::delivered ? 1U : 0U);
    return why;
  }
  Delivery send(const Gid& to) {
    PacketMaker packets(own_address(1), to);
    return send(packets.write(64, 1024, Qpn(1)));
  }
  std::size_t poll(std::size_t least) {
    return poll_until(arrivals_, least, [&] { return port_.poll(); });
  }

  Arrivals arrivals_;
  Port port_{arrivals_};
};

TEST(ReceiveSocketsTest, SocketsThatAreLentAreReadByOthers) {
  auto opened = ReceiveSockets::open(own_address(3), 0);
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_EQ(opened->own().size(), 1U) << "that of QP0 and QP1";
  const auto special = opened->own().front();
  const auto lent = opened->lend(1);
  ASSERT_TRUE(lent);
  const auto own = opened->own();
  EXPECT_EQ(own.size(), 3U) << "and both of slot 0";
  EXPECT_EQ(own.front(), special);
  for (const int fd : {lent->others, lent->responses}) EXPECT_EQ(std::ranges::count(own, fd), 0);
}

TEST_F(PortTest, ReceivesAtItsAddressesAndGroups) {
  const Gid group = gid_of_ipv4(0xef000000 | (ipv4_of(own_address(5)) & 0xffffff));
  port_.set_sockets(sockets_at({own_address(1), own_address(2)}, ::if_nametoindex("lo")));
  ASSERT_TRUE(port_.set_groups(std::array{group}));
  EXPECT_TRUE(port_.is_own(own_address(1)));
  EXPECT_TRUE(port_.is_own(own_address(2)));
  EXPECT_FALSE(port_.is_own(own_address(3)));
  for (const auto& to : {own_address(1), own_address(2), group}) {
    EXPECT_EQ(send(to), Delivery::delivered);
  }
  EXPECT_EQ(poll(3), 3U);
  EXPECT_EQ(port_.poll(), 0U);
  EXPECT_FALSE(port_.set_groups(std::array{own_address(1)})) << "no group";
}

TEST_F(PortTest, GetsNothingAtAnAddressThatItHasLost) {
  port_.set_sockets(sockets_at({own_address(1), own_address(2)}));
  port_.set_sockets(sockets_at({own_address(2)}));
  EXPECT_FALSE(port_.is_own(own_address(1)));
  EXPECT_EQ(send(own_address(1)), Delivery::delivered) << "as far as a sender can see";
  EXPECT_EQ(send(own_address(2)), Delivery::delivered);
  EXPECT_EQ(poll(1), 1U);
  EXPECT_EQ(arrivals_.packets.size(), 1U);
}

TEST_F(PortTest, WaitsForResponsesApartUntilTheLenderHasGone) {
  for (const bool is_mixed : {false, true}) {
    auto sockets = sockets_at({own_address(1)});
    sockets.sockets[0].is_for_responses = true;
    sockets.is_mixed = is_mixed;
    sockets.lender = ipoib::FileDescriptor(::dup(sockets.sockets[0].fd.get()));
    const int lender = sockets.lender.get();
    port_.set_sockets(std::move(sockets));
    EXPECT_EQ(send(own_address(1)), Delivery::delivered);
    EXPECT_TRUE(is_readable(port_.descriptor()));
    EXPECT_EQ(is_readable(port_.descriptor_of_others()), is_mixed);
    port_.lender_gone(lender + 1);
    EXPECT_EQ(is_readable(port_.descriptor_of_others()), is_mixed);
    port_.lender_gone(lender);
    EXPECT_TRUE(is_readable(port_.descriptor_of_others()));
    EXPECT_EQ(poll(1), 1U);
  }
}

TEST_F(PortTest, SaysWhyPacketsAreNotSent) {
  EXPECT_EQ(send(gid_of_ipv4(0x0a000001)), Delivery::unreachable);
  OutgoingPacket no_route;
  const std::vector<std::uint8_t> bytes(64);
  no_route.add(bytes);
  EXPECT_EQ(send(no_route), Delivery::unreachable);
}

}  // namespace
}  // namespace softib::roce
