#include "control/filter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "control/protocol.hpp"

namespace ipoib::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const IpAddress kOfIpv4 = Ipv4Address(0x0a2c0002);
const IpAddress kOfIpv6 = *parse_ip_address("2001:db8::2");

TEST(Filter, MatchesEverythingWithoutConditions) {
  const Filter filter;
  EXPECT_TRUE(filter.is_empty());
  EXPECT_TRUE(filter.matches(kOfIpv4, "reachable"));
  EXPECT_TRUE(filter.matches(kOfIpv6, "permanent"));
}

TEST(Filter, RequiresAllConditions) {
  const Filter family{.family = IpFamily::v6};
  EXPECT_FALSE(family.matches(kOfIpv4, "stale"));
  EXPECT_TRUE(family.matches(kOfIpv6, "stale"));
  const Filter states{.states = {"stale", "failed"}};
  EXPECT_TRUE(states.matches(kOfIpv4, "failed"));
  EXPECT_FALSE(states.matches(kOfIpv4, "reachable"));
  const Filter both{.prefix = parse_prefix("10.44.0.0/16"), .states = {"stale"}};
  EXPECT_TRUE(both.matches(kOfIpv4, "stale"));
  EXPECT_FALSE(both.matches(kOfIpv4, "failed"));
  EXPECT_FALSE(both.matches(Ipv4Address(0x0a2d0002), "stale"));
  EXPECT_FALSE(both.matches(kOfIpv6, "stale"));
}

TEST(Filter, ParsesPrefixes) {
  EXPECT_EQ(parse_prefix("10.44.0.2"), (IpPrefix{kOfIpv4, 32}));
  EXPECT_EQ(parse_prefix("10.44.0.2/0"), (IpPrefix{kOfIpv4, 0}));
  EXPECT_EQ(parse_prefix("2001:db8::2/128"), (IpPrefix{kOfIpv6, 128}));
  EXPECT_EQ(to_string(*parse_prefix("2001:db8::2/64")), "2001:db8::2/64");
  for (const char* const text : {"", "/", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x",
                                 "10.0.0/8", "::/129", "::/ 8", "10.0.0.0/8/8"}) {
    EXPECT_FALSE(parse_prefix(text)) << text;
  }
}

TEST(Filter, ParsesStates) {
  EXPECT_THAT(*parse_states("stale"), ElementsAre("stale"));
  EXPECT_THAT(*parse_states("stale,failed"), ElementsAre("stale", "failed"));
  for (const char* const text : {"", "stale,", ",stale", "asleep", "stale failed", "Stale"}) {
    const auto states = parse_states(text);
    ASSERT_TRUE(states.has_error()) << text;
    EXPECT_EQ(states.error().code, EINVAL);
    EXPECT_THAT(states.error().message, HasSubstr("the states are incomplete, "));
  }
}

TEST(Filter, TheFilterOfARequestMustBeValid) {
  for (const char* const line : {R"({"op":"flush_matching","family":5})",
                                 R"({"op":"flush_matching","prefix":"10.0.0.0/40"})",
                                 R"({"op":"flush_matching","states":"asleep"})"}) {
    const auto request = parse_request(line);
    ASSERT_TRUE(request.has_error()) << line;
    EXPECT_EQ(request.error().code, EINVAL);
  }
}

}  // namespace
}  // namespace ipoib::control
