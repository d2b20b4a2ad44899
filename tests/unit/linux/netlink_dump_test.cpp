#include "linux/netlink_dump.hpp"

#include <gmock/gmock.h>
#include <linux/rtnetlink.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>

#include <deque>
#include <memory>

namespace {
std::deque<int> results;  ///< of the next dumps, as libnl returns them
}  // namespace

// In place of those of libnl: there is no kernel behind the socket.
extern "C" int nl_send_auto(nl_sock* /*socket*/, nl_msg* /*message*/) { return 0; }
extern "C" int nl_recvmsgs_default(nl_sock* /*socket*/) {
  const int result = results.empty() ? 0 : results.front();
  if (!results.empty()) results.pop_front();
  return result;
}

namespace ipoib::linux {
namespace {

class NetlinkDumpTest : public ::testing::Test {
 protected:
  /// Returns the result of a dump, whose parts end with these results.
  [[nodiscard]] Result<void> dump(std::deque<int> with) {
    results = std::move(with);
    starts_ = 0;
    const std::unique_ptr<nl_sock, decltype(&nl_socket_free)> socket(nl_socket_alloc(),
                                                                     &nl_socket_free);
    const rtgenmsg header{};
    return netlink_dump(
        socket.get(),
        {.type = RTM_GETADDR,
         .header = {reinterpret_cast<const std::uint8_t*>(&header), sizeof header},
         .out_interface = 0},
        [this] { ++starts_; }, [](nlmsghdr*) {});
  }

  int starts_ = 0;  ///< how often the caller was told to forget what it has
};

TEST_F(NetlinkDumpTest, IsRepeatedFromTheBeginningIfItWasInterrupted) {
  EXPECT_TRUE(dump({0}));
  EXPECT_EQ(starts_, 1);
  EXPECT_TRUE(dump({-NLE_DUMP_INTR, -NLE_DUMP_INTR, 0}));
  EXPECT_EQ(starts_, 3);
}

TEST_F(NetlinkDumpTest, IsNotRepeatedForEver) {
  EXPECT_FALSE(dump(std::deque<int>(100, -NLE_DUMP_INTR)));
  EXPECT_EQ(starts_, 5);
}

TEST_F(NetlinkDumpTest, OfAFamilyThatTheKernelLacksIsEmpty) {
  EXPECT_TRUE(dump({-NLE_AF_NOSUPPORT}));
  EXPECT_TRUE(dump({-NLE_OPNOTSUPP}));
  EXPECT_FALSE(dump({-NLE_NOMEM}));
}

}  // namespace
}  // namespace ipoib::linux
