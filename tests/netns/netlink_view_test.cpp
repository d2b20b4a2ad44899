// NetlinkView against the kernel's own tables.
#include "linux/netlink_view.hpp"

#include <gmock/gmock.h>

#include "linux/tun_device.hpp"
#include "namespace_fixture.hpp"

namespace ipoib::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Ipv4Prefix prefix(const char* address, std::uint8_t length) {
  return {*Ipv4Address::parse(address), length};
}

class NetlinkViewTest : public test::NamespaceTest {
 protected:
  void SetUp() override {
    NamespaceTest::SetUp();
    if (IsSkipped()) return;
    tun_ = TunDevice::open({.name = "ib0"}).value();
    view_ = NetlinkView::open(tun_->interface_index()).value();
    EXPECT_THAT(snapshot().addresses(), IsEmpty());
  }

  /// Waits for a change of what is mirrored.
  HostSnapshot snapshot() {
    for (;;) {
      if (auto update = view_->update().value()) return *update;
      if (!test::wait_readable(view_->descriptor())) {
        ADD_FAILURE() << "no change was announced";
        return {};
      }
    }
  }

  std::unique_ptr<TunDevice> tun_;
  std::unique_ptr<NetlinkView> view_;
};

TEST_F(NetlinkViewTest, MirrorsAddressesThatComeAndGo) {
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses(), ElementsAre(prefix("10.9.0.1", 24)));
  ip("addr add 10.8.0.1/16 dev ib0");
  EXPECT_THAT(snapshot().addresses(), ElementsAre(prefix("10.9.0.1", 24), prefix("10.8.0.1", 16)));
  ip("addr del 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses(), ElementsAre(prefix("10.8.0.1", 16)));
}

TEST_F(NetlinkViewTest, GivesAnInterfaceThatIsDownNoAddresses) {
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses(), ElementsAre(prefix("10.9.0.1", 24)));
  ip("link set ib0 down");
  EXPECT_THAT(snapshot().addresses(), IsEmpty());
  ip("link set ib0 up");
  EXPECT_THAT(snapshot().addresses(), ElementsAre(prefix("10.9.0.1", 24)));
}

TEST_F(NetlinkViewTest, IgnoresOtherInterfaces) {
  ip("addr add 10.7.0.1/24 dev lo");
  EXPECT_FALSE(view_->update().value());
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses(), ElementsAre(prefix("10.9.0.1", 24)));
}

TEST_F(NetlinkViewTest, NoticesThatTheInterfaceIsGone) {
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses(), ElementsAre(prefix("10.9.0.1", 24)));
  EXPECT_TRUE(view_->interface_exists());
  ip("link del ib0");
  EXPECT_THAT(snapshot().addresses(), IsEmpty());
  EXPECT_FALSE(view_->interface_exists());
}

TEST_F(NetlinkViewTest, SurvivesMoreNotificationsThanItsSocketHolds) {
  // Each address is two notifications; all of them are far more than the socket's buffer.
  ip("-batch - <<END\n$(for i in $(seq 4000); do"
     " echo \"addr add 10.9.$((i / 250)).$((i % 250 + 1))/32 dev ib0\"; done)\nEND");
  EXPECT_EQ(snapshot().addresses().size(), 4000U);
  ip("addr flush dev ib0");
  ip("addr add 10.9.0.1/24 dev ib0");
  EXPECT_THAT(snapshot().addresses(), ElementsAre(prefix("10.9.0.1", 24)));
}

}  // namespace
}  // namespace ipoib::host
