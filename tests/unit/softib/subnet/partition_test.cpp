#include "softib/subnet/partition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace softib::subnet {
namespace {

using ::testing::HasSubstr;

TEST(Partition, DefaultPartitionHasAllAsFullMembers) {
  const auto partitions = make_partitions({}).value();
  ASSERT_EQ(partitions.size(), 1U);
  EXPECT_EQ(partitions[0].pkey, PKey(0xffff));
  EXPECT_EQ(partitions[0].membership("anybody"), Membership::full);
  EXPECT_TRUE(partitions[0].broadcast_group);
  EXPECT_EQ(partitions[0].rate, 3);
}

TEST(Partition, ParsesMembershipAlone) {
  const auto partition = parse_partition("0x12=limited").value();
  EXPECT_EQ(partition.pkey, PKey(0x8012));
  EXPECT_EQ(partition.others, Membership::limited);
  EXPECT_TRUE(partition.members.empty());
}

TEST(Partition, NamedMembersExcludeOthers) {
  const auto partition = parse_partition("0x8012=full:host1,host2").value();
  EXPECT_EQ(partition.membership("host1"), Membership::full);
  EXPECT_EQ(partition.membership("host2"), Membership::full);
  EXPECT_EQ(partition.membership("host3"), Membership::none);
}

TEST(Partition, NamesOnlySoManyMembers) {
  std::string text = "0x12=full:n0";
  for (std::size_t i = 1; i < kMaxNamedMembers; ++i) text += ",n" + std::to_string(i);
  EXPECT_EQ(parse_partition(text)->members.size(), kMaxNamedMembers);
  EXPECT_THAT(parse_partition(text + ",more").error().message, HasSubstr("too many names"));
}

TEST(Partition, Settings) {
  const auto partition = parse_partition("18=full:a,mtu=4096,rate=2.5,nogroup").value();
  EXPECT_EQ(partition.pkey, PKey(0x8012));
  EXPECT_EQ(partition.members.size(), 1U);
  EXPECT_EQ(partition.mtu, 5);
  EXPECT_EQ(partition.rate, 2);
  EXPECT_FALSE(partition.broadcast_group);
  EXPECT_EQ(parse_partition("18=full,mtu=256").value().mtu, 1);
  EXPECT_EQ(parse_partition("18=full,mtu=0x100").value().mtu, 1);
  EXPECT_EQ(parse_partition("0X12=full,mtu=0X100").value().mtu, 1);
}

TEST(Partition, ParsesNominalRates) {
  const auto rate = [](const std::string& gbits) {
    return parse_partition("1=full,rate=" + gbits).value().rate;
  };
  EXPECT_EQ(rate("10"), 3);
  EXPECT_EQ(rate("40"), 7);
  EXPECT_EQ(rate("56"), 12);
  EXPECT_EQ(rate("100"), 16);
  EXPECT_FALSE(parse_partition("1=full,rate=128")) << "no link has it, and none is named so";
}

TEST(Partition, InvalidTextIsRefusedWithAReason) {
  for (const auto* text : {"",
                           "0x12",
                           "0=full",
                           "0x8000=full",
                           "0x10000=full",
                           "x=full",
                           "0x12=",
                           "0x12=half",
                           "0x12=full:",
                           "0x12=full,",
                           "0x12=full,mtu=1500",
                           "0x12=full,mtu=",
                           "0x12=full,rate=3",
                           "0x12=full,speed=1",
                           "0x12=full,host1",
                           "0x12=full:a,mtu=2048,b",
                           "0x12=full:,a",
                           "0x12=fullx",
                           "0x12=full:a b",
                           "0x12=full:-a",
                           "0x12=full:a/b",
                           "0x12=full:a:b"}) {
    const auto partition = parse_partition(text);
    ASSERT_FALSE(partition) << text;
    EXPECT_NE(partition.error().message.find("partition '"), std::string::npos);
    EXPECT_NE(partition.error().message.find("; expected PKEY=full|limited[:HCA,...][,mtu=BYTES]"
                                             "[,rate=GBITS][,nogroup]"),
              std::string::npos);
  }
  EXPECT_FALSE(parse_partition("0x12=full:" + std::string(kMaxNodeName + 1, 'a')));
  const auto reason = [](const char* text) { return parse_partition(text).error().message; };
  EXPECT_THAT(reason("0x12=full,host1"), HasSubstr("'host1' is not a setting"));
  EXPECT_THAT(reason("0x12=full:mtu=2048"),
              HasSubstr("'0x12=full:mtu=2048': no HCA is named after ':'"));
}

TEST(Partition, MtuThatNoPortHasIsRefused) {
  const auto check = [](const std::string& option, std::uint8_t ports) {
    return check_mtus(make_partitions({option}).value(), ports);
  };
  EXPECT_TRUE(check("0x12=full,mtu=2048", 4));
  EXPECT_TRUE(check("0x12=full", 4));
  EXPECT_TRUE(check("0x12=full,mtu=4096", 5));
  const auto refused = check("0x12=full,mtu=4096", 4);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("0x8012"), std::string::npos);
  EXPECT_NE(refused.error().message.find("4096"), std::string::npos);
}

TEST(Partition, OptionReplacesTheDefaultPartition) {
  const auto partitions = make_partitions({"0x7fff=limited"}).value();
  ASSERT_EQ(partitions.size(), 1U);
  EXPECT_EQ(partitions[0].membership("anybody"), Membership::limited);
  EXPECT_EQ(make_partitions({"0x7fff=full:a"})->front().membership("b"), Membership::none);
  const auto merged = make_partitions({"0x7fff=full:a", "0x7fff=limited:b"}).value();
  EXPECT_EQ(merged.front().membership("a"), Membership::full) << "only the first one replaces";
}

TEST(Partition, OptionsForOnePKeyAreMerged) {
  const auto partitions =
      make_partitions({"0x12=full:a", "0X13=full", "0x8012=limited:b,mtu=4096,rate=40"}).value();
  ASSERT_EQ(partitions.size(), 3U);
  EXPECT_EQ(partitions[1].membership("a"), Membership::full);
  EXPECT_EQ(partitions[1].membership("b"), Membership::limited);
  EXPECT_EQ(partitions[1].membership("c"), Membership::none);
  EXPECT_EQ(partitions[1].mtu, 5);
  EXPECT_EQ(partitions[1].rate, 7);
  for (const auto* const other : {"0x12=full:b", "0x12=full:b,nogroup"}) {
    EXPECT_FALSE(make_partitions({"0x12=full:a,nogroup", other})->back().broadcast_group);
  }
}

TEST(Partition, TooManyPartitionsAreRefused) {
  std::vector<std::string> options;
  for (std::size_t i = 1; i < kMaxPartitions; ++i) options.push_back(std::to_string(i) + "=full");
  EXPECT_TRUE(make_partitions(options));
  options.push_back("0x100=full");
  EXPECT_EQ(make_partitions(options).error().code, EINVAL);
}

}  // namespace
}  // namespace softib::subnet
