#include "wire/group_membership.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/checksum.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"

namespace ipoib::wire {
namespace {

using Bytes = std::vector<std::uint8_t>;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Ipv4Address kGroup{0xef010203};
constexpr Ipv4Address kOther{0xef010204};
const Ipv6Address kGroup6 = *Ipv6Address::parse("ff15::1");

Bytes igmp(const Bytes& message) {
  Bytes packet{0x46, 0xc0, 0, 0, 0,   0, 0x40, 0,  1,    2, 0, 0,
               10,   44,   0, 1, 224, 0, 0,    22, 0x94, 4, 0, 0};
  packet.insert(packet.end(), message.begin(), message.end());
  packet[2] = static_cast<std::uint8_t>(packet.size() >> 8);
  packet[3] = static_cast<std::uint8_t>(packet.size());
  return packet;
}
Bytes record(std::uint8_t type, std::uint16_t sources, Ipv4Address group,
             std::uint8_t auxiliary = 0) {
  Bytes out{type, auxiliary, 0, static_cast<std::uint8_t>(sources)};
  out.insert(out.end(), group.bytes().begin(), group.bytes().end());
  out.resize(out.size() + 4 * (sources + auxiliary));
  return out;
}
Bytes report(const std::vector<Bytes>& records) {
  Bytes message{0x22,
                0,
                0,
                0,
                0,
                0,
                static_cast<std::uint8_t>(records.size() >> 8),
                static_cast<std::uint8_t>(records.size())};
  for (const Bytes& one : records) message.insert(message.end(), one.begin(), one.end());
  return igmp(message);
}
Bytes mld(std::uint8_t type, const Bytes& rest) {
  Bytes packet(Ipv6Header::kSize + 8);
  const Bytes alert{58, 0, 5, 2, 0, 0, 1, 0};
  std::ranges::copy(alert, packet.begin() + Ipv6Header::kSize);
  packet.insert(packet.end(), {type, 0, 0, 0});
  packet.insert(packet.end(), rest.begin(), rest.end());
  Ipv6Header{.source = *Ipv6Address::parse("fe80::1"),
             .destination = *Ipv6Address::parse("ff02::16"),
             .payload_length = static_cast<std::uint16_t>(packet.size() - Ipv6Header::kSize),
             .next_header = 0,
             .hop_limit = 1}
      .emit(packet);
  return packet;
}
Bytes with_group6(Bytes before) {
  before.insert(before.end(), kGroup6.bytes().begin(), kGroup6.bytes().end());
  return before;
}

TEST(GroupMembershipTest, ReadsIgmpV1AndV2) {
  for (const std::uint8_t type : {std::uint8_t{0x12}, std::uint8_t{0x16}}) {
    EXPECT_THAT(group_memberships(igmp({type, 0, 0, 0, 0xef, 1, 2, 3})),
                ElementsAre(GroupMembership{kGroup, true}));
  }
  EXPECT_THAT(group_memberships(igmp({0x17, 0, 0, 0, 0xef, 1, 2, 3})),
              ElementsAre(GroupMembership{kGroup, false}));
}

TEST(GroupMembershipTest, RFC3376_4_2_12_RecordTypes) {
  const auto one = [](std::uint8_t type, std::uint16_t sources) {
    return group_memberships(report({record(type, sources, kGroup)}));
  };
  const auto member = ElementsAre(GroupMembership{kGroup, true});
  const auto left = ElementsAre(GroupMembership{kGroup, false});
  EXPECT_THAT(one(1, 1), member);
  EXPECT_THAT(one(1, 0), left);
  EXPECT_THAT(one(2, 0), member);
  EXPECT_THAT(one(3, 0), left);
  EXPECT_THAT(one(3, 2), member);
  EXPECT_THAT(one(4, 0), member);
  EXPECT_THAT(one(4, 1), member);
  EXPECT_THAT(one(5, 1), member);
  EXPECT_THAT(one(5, 0), IsEmpty());
  EXPECT_THAT(one(6, 1), IsEmpty());
  EXPECT_THAT(one(7, 0), IsEmpty());
}

TEST(GroupMembershipTest, ReadsAllRecords) {
  EXPECT_THAT(group_memberships(report({record(4, 2, kGroup, 3), record(3, 0, kOther)})),
              ElementsAre(GroupMembership{kGroup, true}, GroupMembership{kOther, false}));
}

/// RFC 3376, 4.2: as many as fit; at an MTU of 4092, and with a header of 24 bytes.
TEST(GroupMembershipTest, ReadsAllRecordsOfALargeReport) {
  constexpr std::size_t kRecords = (4092 - 24 - 8) / 8;
  EXPECT_EQ(group_memberships(report(std::vector<Bytes>(kRecords, record(4, 0, kGroup)))).size(),
            kRecords);
  constexpr std::size_t kOfMld = (4092 - 40 - 8 - 8) / 20;
  Bytes message = mld(143, with_group6({0, 0, 0, 1, 4, 0, 0, 0}));
  const Bytes one(message.end() - 20, message.end());
  for (std::size_t i = 1; i < kOfMld; ++i) message.insert(message.end(), one.begin(), one.end());
  message[5] = static_cast<std::uint8_t>((message.size() - 40) & 0xff);
  message[4] = static_cast<std::uint8_t>((message.size() - 40) >> 8);
  message[40 + 8 + 7] = kOfMld;
  EXPECT_EQ(group_memberships(message).size(), kOfMld);
}

TEST(GroupMembershipTest, ReadsMld) {
  EXPECT_THAT(group_memberships(mld(131, with_group6({0, 0, 0, 0}))),
              ElementsAre(GroupMembership{kGroup6, true}));
  EXPECT_THAT(group_memberships(mld(132, with_group6({0, 0, 0, 0}))),
              ElementsAre(GroupMembership{kGroup6, false}));
  EXPECT_THAT(group_memberships(mld(143, with_group6({0, 0, 0, 1, 4, 0, 0, 0}))),
              ElementsAre(GroupMembership{kGroup6, true}));
}

TEST(GroupMembershipTest, MalformedMessagesSayNothing) {
  Bytes two = report({record(4, 0, kGroup)});
  two[24 + 7] = 2;  // says that there is another record
  EXPECT_THAT(group_memberships(two), ElementsAre(GroupMembership{kGroup, true}));
  Bytes sources = report({record(4, 0, kGroup)});
  sources[24 + 8 + 3] = 1;
  EXPECT_THAT(group_memberships(sources), IsEmpty());
  EXPECT_THAT(group_memberships(igmp({0x16, 0, 0, 0})), IsEmpty());
  EXPECT_THAT(group_memberships(report({record(4, 0, Ipv4Address(0x0a000001))})), IsEmpty())
      << "no multicast address";
  EXPECT_THAT(group_memberships(mld(131, {0, 0, 0, 0})), IsEmpty());
  EXPECT_THAT(group_memberships(mld(143, {})), IsEmpty());
  EXPECT_THAT(group_memberships({}), IsEmpty());
  for (std::size_t size = 0; size < two.size(); ++size) {
    EXPECT_THAT(group_memberships(ConstBytes(two).first(size)), IsEmpty());
  }
}

TEST(GroupMembershipTest, QueriesAreValid) {
  for (const std::optional<IpAddress> group : {std::optional<IpAddress>(), {IpAddress(kGroup)}}) {
    Bytes packet(GroupQuery::kMaxEmitted);
    packet.resize(GroupQuery{.source = Ipv4Address(0xc0000008), .group = group}.emit(packet));
    ASSERT_EQ(packet.size(), 36U);
    EXPECT_TRUE(is_group_query(packet));
    EXPECT_EQ(internet_checksum(ConstBytes(packet).first(24)), 0);
    EXPECT_EQ(internet_checksum(ConstBytes(packet).subspan(24)), 0);
    EXPECT_EQ(packet[8], 1) << "TTL";
    EXPECT_EQ(packet[25], 100) << "tenths of a second (RFC 3376, 4.1.1)";
    EXPECT_EQ(packet[33], 125) << "seconds (RFC 3376, 4.1.7)";
    const auto header = Ipv4Header::parse(packet);
    EXPECT_EQ(header->destination, group ? kGroup : Ipv4Address(0xe0000001));
  }
  const auto source = *Ipv6Address::parse("fe80::1");
  for (const std::optional<IpAddress> group : {std::optional<IpAddress>(), {IpAddress(kGroup6)}}) {
    Bytes packet(GroupQuery::kMaxEmitted);
    packet.resize(GroupQuery{.source = source, .group = group}.emit(packet));
    ASSERT_EQ(packet.size(), 76U);
    EXPECT_TRUE(is_group_query(packet));
    const auto header = Ipv6Header::parse(packet);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->hop_limit, 1);
    const ConstBytes message = ConstBytes(packet).subspan(48);
    EXPECT_EQ(message[4] * 256 + message[5], 10'000) << "milliseconds (RFC 3810, 5.1.3)";
    EXPECT_EQ(message[25], 125) << "seconds (RFC 3810, 5.1.9)";
    EXPECT_EQ(InternetChecksum()
                  .add_pseudo_header(source, header->destination, kIcmpv6, 28)
                  .add(message)
                  .value(),
              0);
  }
}

TEST(GroupMembershipTest, ReportsAreNoQueries) {
  EXPECT_FALSE(is_group_query(report({record(4, 0, kGroup)})));
  EXPECT_FALSE(is_group_query(mld(143, with_group6({0, 0, 0, 1, 4, 0, 0, 0}))));
}

}  // namespace
}  // namespace ipoib::wire
