#include "softib/rdma_cm/ports.hpp"

#include <gtest/gtest.h>

#include "fake_node.hpp"
#include "softib/rdma_cm/limits.hpp"

namespace softib::rdma_cm {
namespace {

class PortsTest : public ::testing::Test {
 protected:
  static Ports::Request request(std::uint32_t id, const char* address, std::uint16_t port) {
    return {IdHandle(id), PortSpace::tcp,
            IpEndpoint{ipoib::parse_ip_address(address).value(), port}};
  }
  /// 0, or the error.
  int bind(const Ports::Request& what) {
    const auto port = ports_.bind(what, node_, random_);
    why_ = port ? "" : port.error().message;
    return port ? 0 : port.error().code;
  }

  FakeNode node_{1};
  ipoib::Random random_{7};
  Ports ports_;
  std::string why_;  ///< the last bind() has failed
};

TEST_F(PortsTest, AnAddressHasAPortOnce) {
  EXPECT_EQ(bind(request(1, "127.77.0.1", 5000)), 0);
  EXPECT_EQ(bind(request(2, "127.77.0.1", 5000)), EADDRINUSE);
  EXPECT_EQ(why_, "another ID of the process has the port: choose another one, or 0 for any");
  EXPECT_EQ(bind(request(2, "127.77.0.2", 5000)), 0);
  EXPECT_EQ(bind(request(3, "0.0.0.0", 5000)), EADDRNOTAVAIL) << "others have it";
  auto udp = request(3, "0.0.0.0", 5000);
  udp.space = PortSpace::udp;
  EXPECT_EQ(bind(udp), 0) << "another port space";
  EXPECT_EQ(bind(request(4, "0.0.0.0", 5001)), 0);
  EXPECT_EQ(bind(request(5, "127.77.0.1", 5001)), EADDRNOTAVAIL);
  ports_.release(IdHandle(1), PortSpace::tcp, 5000, node_);
  EXPECT_TRUE(node_.locked.contains(5000)) << "another ID has it";
  EXPECT_EQ(bind(request(6, "127.77.0.1", 5000)), 0);
}

TEST_F(PortsTest, OtherProcessesHavePorts) {
  node_.taken.insert(5000);
  EXPECT_EQ(bind(request(1, "0.0.0.0", 5000)), EADDRINUSE);
  EXPECT_EQ(bind(request(1, "0.0.0.0", 5001)), 0);
  EXPECT_TRUE(node_.locked.contains(5001));
  ports_.release(IdHandle(1), PortSpace::tcp, 5001, node_);
  EXPECT_TRUE(node_.locked.empty());
}

TEST_F(PortsTest, SharedAddressesEndWithAListener) {
  auto one = request(1, "0.0.0.0", 5000);
  auto other = request(2, "0.0.0.0", 5000);
  one.reuses_address = other.reuses_address = true;
  EXPECT_EQ(bind(one), 0);
  EXPECT_EQ(bind(other), 0);
  EXPECT_EQ(bind(request(3, "0.0.0.0", 5000)), EADDRNOTAVAIL) << "does not share";
  EXPECT_EQ(ports_.listen(one, node_).error().code, EADDRNOTAVAIL);
  ports_.release(other.id, PortSpace::tcp, 5000, node_);
  EXPECT_TRUE(ports_.listen(one, node_));
  EXPECT_EQ(bind(other), EADDRNOTAVAIL);
}

TEST_F(PortsTest, OtherProcessesShareAddressesUntilOneListens) {
  auto one = request(1, "0.0.0.0", 5000);
  node_.shared.insert(5000);
  EXPECT_EQ(bind(one), EADDRINUSE);
  EXPECT_TRUE(node_.locked.empty());
  one.reuses_address = true;
  EXPECT_EQ(bind(one), 0);
  EXPECT_EQ(ports_.listen(one, node_).error().code, EADDRINUSE);
  node_.shared.clear();
  EXPECT_TRUE(ports_.listen(one, node_));
}

TEST_F(PortsTest, LoopbackIsAWildcard) {
  EXPECT_EQ(bind(request(1, "127.77.0.1", 5000)), 0);
  EXPECT_EQ(bind(request(2, "127.0.0.1", 5000)), EADDRNOTAVAIL);
}

TEST_F(PortsTest, FamiliesCanShareAPort) {
  auto v4 = request(1, "0.0.0.0", 5000);
  auto v6 = request(2, "::", 5000);
  v4.is_family_only = true;
  EXPECT_EQ(bind(v4), 0);
  EXPECT_EQ(bind(v6), EADDRNOTAVAIL);
  v6.is_family_only = true;
  EXPECT_EQ(bind(v6), 0);
}

TEST_F(PortsTest, FreePortsAreEphemeral) {
  std::set<std::uint16_t> chosen;
  for (std::uint32_t id = 1; id <= 100; ++id) {
    const auto port = ports_.bind(request(id, "0.0.0.0", 0), node_, random_).value();
    EXPECT_TRUE(port >= kFirstEphemeralPort && port <= kLastEphemeralPort);
    EXPECT_TRUE(chosen.insert(port).second);
  }
  for (std::uint32_t port = kFirstEphemeralPort; port <= kLastEphemeralPort; ++port) {
    node_.taken.insert(static_cast<std::uint16_t>(port));
  }
  EXPECT_EQ(bind(request(101, "0.0.0.0", 0)), EADDRNOTAVAIL);
  EXPECT_EQ(why_,
            "all ports from 32768 to 60999 are in use: destroy some IDs, or choose a port outside "
            "of these");
  const auto free = *chosen.begin();
  node_.taken.erase(free);
  for (std::uint32_t id = 1; id <= 100; ++id) {
    ports_.release(IdHandle(id), PortSpace::tcp, free, node_);
  }
  EXPECT_EQ(ports_.bind(request(101, "0.0.0.0", 0), node_, random_).value(), free);
}

TEST_F(PortsTest, PrivilegedPortsNeedTheRight) {
  EXPECT_EQ(bind(request(1, "0.0.0.0", 1023)), EACCES);
  EXPECT_EQ(why_, "ports below 1024 need the capability CAP_NET_BIND_SERVICE");
  EXPECT_EQ(bind(request(1, "0.0.0.0", 1024)), 0);
  node_.is_privileged = true;
  EXPECT_EQ(bind(request(2, "0.0.0.0", 1023)), 0);
}

}  // namespace
}  // namespace softib::rdma_cm
