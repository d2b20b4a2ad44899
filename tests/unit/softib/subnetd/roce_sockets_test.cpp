// The process of a RoCE port with a network interface of the test.
#include "softib/subnetd/roce_sockets.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/socket.h>

#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "softib/roce/socket_address.hpp"
#include "tests/support/softib/temporary_folder.hpp"
#include "tests/unit/linux/namespace_fixture.hpp"

namespace softib::subnetd {
namespace {

class RoceSocketsTest : public ipoib::test::NamespaceTest {
 protected:
  void SetUp() override {
    NamespaceTest::SetUp();
    if (IsSkipped()) return;
    ip("link add roce0 type veth peer name peer0");
    ip("link set peer0 addrgenmode none up");
    ip("link set roce0 addrgenmode none up");
    ip("addr add 10.7.0.1/24 dev roce0");
    ASSERT_TRUE(folder_.create());
  }
  void open(const std::string& interface) {
    sockets_.emplace(context_, folder_, interface, log_);
    sockets_->start([this](const roce::NetworkInterface& now) { now_ = now; }, [this] { ++lent_; });
  }
  /// Handles events until `done`; false after ten seconds.
  template <class Done>
  [[nodiscard]] bool run_until(Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done() && std::chrono::steady_clock::now() < end) {
      context_.run_one_for(std::chrono::milliseconds(100));
    }
    return done();
  }
  [[nodiscard]] bool run_until_gids(const std::vector<Gid>& gids) {
    return run_until([&] { return now_.gids == gids; });
  }
  /// The addresses of the sockets that the process itself reads.
  [[nodiscard]] std::vector<Gid> own() const {
    std::vector<Gid> addresses;
    for (const auto& each : sockets_->own().sockets) addresses.push_back(each.address);
    return addresses;
  }
  /// Another program at an address.
  static ipoib::FileDescriptor occupy(const Gid& address) {
    ipoib::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const roce::SocketAddress at(address, roce::kUdpPort, 0);
    EXPECT_EQ(::bind(socket.get(), at.get(), at.size), 0);
    return socket;
  }

  const test::TemporaryFolder root_;
  const fabric::SubnetFolder folder_{root_ / "roce"};
  const Gid first_ = gid_of_ipv4(0x0a070001);
  const Gid second_ = gid_of_ipv4(0x0a070002);
  std::ostringstream logged_;
  ipoib::Logger log_{"roce", std::make_shared<spdlog::sinks::ostream_sink_mt>(logged_)};
  boost::asio::io_context context_;
  std::optional<RoceSockets> sockets_;
  roce::NetworkInterface now_;
  int lent_ = 0;
};

TEST_F(RoceSocketsTest, FollowTheAddressesOfTheInterface) {
  open("roce0");
  EXPECT_EQ(now_.gids, std::vector{first_}) << "at the start";
  EXPECT_EQ(own(), std::vector{first_});
  EXPECT_EQ(sockets_->own().interface, now_.index);
  ip("addr add 10.7.0.2/24 dev roce0");
  ASSERT_TRUE(run_until_gids({first_, second_}));
  EXPECT_EQ(own(), (std::vector{first_, second_}));
  ip("addr del 10.7.0.1/24 dev roce0");
  ip("addr add 10.7.0.2/24 dev roce0");
  ASSERT_TRUE(run_until_gids({second_}));
  EXPECT_EQ(own(), std::vector{second_});
}

TEST_F(RoceSocketsTest, AnInterfaceThatHasGoneLeavesAPortThatIsDown) {
  open("10.7.0.1");
  EXPECT_TRUE(now_.has_carrier);
  ip("link del roce0");
  ASSERT_TRUE(run_until_gids({}));
  EXPECT_FALSE(now_.has_carrier);
  EXPECT_TRUE(own().empty());
}

TEST_F(RoceSocketsTest, AnAddressThatAnotherProgramServesIsNoGid) {
  open("roce0");
  ip("addr add 10.7.0.2/32 dev lo");
  const auto other = occupy(second_);
  ip("addr add 10.7.0.2/24 dev roce0");
  ASSERT_TRUE(run_until([&] { return !logged_.str().empty(); }));
  EXPECT_NE(logged_.str().find("cannot receive at UDP port 4791"), std::string::npos);
  EXPECT_EQ(now_.gids, std::vector{first_});
  EXPECT_EQ(own(), std::vector{first_});
}

TEST_F(RoceSocketsTest, DoNotStartWithoutTheInterfaceOrItsPort) {
  EXPECT_THROW(open("roce1"), std::runtime_error);
  const auto other = occupy(first_);
  EXPECT_THROW(open("roce0"), std::runtime_error);
}

// Sockets of slots before it are opened, and read by the process of the port until they are lent.
TEST_F(RoceSocketsTest, ASlotGetsSocketsOfEachAddress) {
  ip("addr add 10.7.0.2/24 dev roce0");
  open("roce0");
  for (const std::uint32_t slot : {2U, 0U}) {
    std::optional<ipoib::Result<roce::BorrowedSockets>> borrowed;
    std::thread program([&] { borrowed = roce::borrow_sockets(folder_, slot); });
    const int before = lent_;
    EXPECT_TRUE(run_until([&] { return lent_ != before; }));
    program.join();
    ASSERT_TRUE(*borrowed) << borrowed->error().message;
    EXPECT_EQ((*borrowed)->interface, now_.index);
    EXPECT_FALSE((*borrowed)->is_mixed);
    ASSERT_EQ((*borrowed)->sockets.size(), 4U);
    EXPECT_EQ((*borrowed)->sockets[0].address, first_);
    EXPECT_EQ((*borrowed)->sockets[2].address, second_);
    EXPECT_EQ(own().size(), slot == 2 ? 10U : 6U);
  }
}

}  // namespace
}  // namespace softib::subnetd
