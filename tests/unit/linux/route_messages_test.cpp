#include <gtest/gtest.h>
#include <linux/fib_rules.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include <memory>

#include "linux/route_reader.hpp"

namespace ipoib::linux {
namespace {

constexpr int kOurs = 7;
constexpr int kOther = 8;
constexpr std::uint32_t kObject = 1000;

/// A notification of rtnetlink(7) about a new IPv4 route.
class RouteMessage {
 public:
  RouteMessage() {
    rtmsg header{};
    header.rtm_family = AF_INET;
    header.rtm_type = RTN_UNICAST;
    EXPECT_EQ(nlmsg_append(message_.get(), &header, sizeof header, NLMSG_ALIGNTO), 0);
  }
  RouteMessage& number(int attribute, std::uint32_t value) {
    EXPECT_EQ(nla_put_u32(message_.get(), attribute, value), 0);
    return *this;
  }
  RouteMessage& hop(int interface_index) {
    rtnexthop hop{};
    hop.rtnh_len = sizeof hop;
    hop.rtnh_ifindex = interface_index;
    EXPECT_EQ(nla_put(message_.get(), RTA_MULTIPATH, sizeof hop, &hop), 0);
    return *this;
  }
  [[nodiscard]] bool concerns(int interface_index) const {
    return route_concerns(nlmsg_hdr(message_.get()), interface_index);
  }

  [[nodiscard]] nlmsghdr* message() { return nlmsg_hdr(message_.get()); }
  [[nodiscard]] rtmsg& header() { return *static_cast<rtmsg*>(nlmsg_data(message())); }

 private:
  std::unique_ptr<nl_msg, void (*)(nl_msg*)> message_{nlmsg_alloc_simple(RTM_NEWROUTE, 0),
                                                      &nlmsg_free};
};

TEST(RouteConcerns, AnInterfaceThatItNames) {
  EXPECT_TRUE(RouteMessage().number(RTA_OIF, kOurs).concerns(kOurs));
  EXPECT_FALSE(RouteMessage().number(RTA_OIF, kOther).concerns(kOurs));
  EXPECT_TRUE(RouteMessage().hop(kOurs).concerns(kOurs));
  EXPECT_FALSE(RouteMessage().hop(kOther).concerns(kOurs));
  EXPECT_FALSE(RouteMessage().concerns(kOurs));
}

TEST(RouteConcerns, PerhapsAnInterfaceOfANexthopObject) {
  EXPECT_TRUE(RouteMessage().number(RTA_NH_ID, kObject).concerns(kOurs));
  EXPECT_TRUE(RouteMessage().number(RTA_NH_ID, kObject).number(RTA_OIF, kOurs).concerns(kOurs));
  EXPECT_FALSE(RouteMessage().number(RTA_NH_ID, kObject).number(RTA_OIF, kOther).concerns(kOurs));
  EXPECT_FALSE(RouteMessage().number(RTA_NH_ID, kObject).hop(kOther).concerns(kOurs));
}

TEST(RouteMessages, AGroupOfNexthopObjectsMayBeEmpty) {
  const std::unique_ptr<nl_msg, void (*)(nl_msg*)> message(nlmsg_alloc_simple(RTM_NEWNEXTHOP, 0),
                                                           &nlmsg_free);
  const nhmsg header{};
  ASSERT_EQ(nlmsg_append(message.get(), const_cast<nhmsg*>(&header), sizeof header, NLMSG_ALIGNTO),
            0);
  ASSERT_EQ(nla_put(message.get(), NHA_GROUP, 0, nullptr), 0);
  const auto object = nexthop_of(nlmsg_hdr(message.get()), kOurs);
  ASSERT_TRUE(object);
  EXPECT_TRUE(object->members.empty());
  EXPECT_FALSE(object->hop);
}

TEST(RouteMessages, APrefixThatIsLongerThanAnAddressIsRefused) {
  constexpr std::uint8_t kLongest = 32;
  for (const std::uint8_t length : {kLongest, std::uint8_t{kLongest + 1}}) {
    const bool is_valid = length == kLongest;
    RouteMessage route;
    route.header().rtm_dst_len = length;
    route.number(RTA_DST, 0x01020304).number(RTA_OIF, kOurs);
    EXPECT_EQ(route_of(route.message(), kOurs, {}).has_value(), is_valid);

    RouteMessage rule;  // the headers have the same size
    rule.header().rtm_src_len = length;
    rule.header().rtm_type = FR_ACT_TO_TBL;
    rule.number(FRA_SRC, 0x01020304);
    const auto found = rule_of(rule.message(), "ib0");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->source.has_value(), is_valid);
  }
}

}  // namespace
}  // namespace ipoib::linux
