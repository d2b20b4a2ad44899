#include "control/neighbour_file.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace ipoib::control::neighbour_file {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const Gid kGid = *Gid::parse("fe80::2:c903:0:1");
const HwAddress kHardware{0, Qpn(0x401), kGid};

std::string error_of(const std::string& text) {
  const auto parsed = parse_neighbours(text, "file");
  if (parsed.has_value()) return "no error";
  EXPECT_EQ(parsed.error().code, EINVAL);
  return parsed.error().message;
}

TEST(NeighbourFile, HasLinkLayerAddressesAndGids) {
  const auto parsed = parse_neighbours(
      "# of ib0\n"
      "00:00:04:01:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01  10.44.0.2\n"
      "\n"
      "\t0x401@fe80::2:c903:0:1\t10.44.0.3 ib0.8001 # a partition\r\n"
      "1025@fe80::2:c903:0:1 10.44.0.3#all\n"
      "fe80::2:c903:0:1 2001:db8::4",
      "file");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed,
            (std::vector<StaticNeighbour>{{Ipv4Address(0x0a2c0002), kHardware, ""},
                                          {Ipv4Address(0x0a2c0003), kHardware, "ib0.8001"},
                                          {Ipv4Address(0x0a2c0003), kHardware, ""},
                                          {*Ipv6Address::parse("2001:db8::4"), kGid, ""}}));
}

TEST(NeighbourFile, EmptyFileHasNoEntries) {
  EXPECT_TRUE(parse_neighbours("", "file")->empty());
  EXPECT_TRUE(parse_neighbours("\n# only a comment\n", "file")->empty());
}

TEST(NeighbourFile, LinesForTheInterfaceComeAfterThoseForAll) {
  const StaticNeighbour one{Ipv4Address(1), kGid, "ib0"};
  const StaticNeighbour all{Ipv4Address(1), kGid, ""};
  const StaticNeighbour other{Ipv4Address(2), kGid, "ib0.8001"};
  const std::vector file = {one, all, other};
  EXPECT_THAT(neighbours_for("ib0", file), testing::ElementsAre(all, one));
  EXPECT_THAT(neighbours_for("ib0.8001", file), testing::ElementsAre(all, other));
  EXPECT_THAT(neighbours_for("ib1", file), testing::ElementsAre(all));
}

TEST(NeighbourFile, ErrorsNameFileAndLine) {
  EXPECT_EQ(error_of("\nfe80::1\n"), "file:2: the IP address is missing");
  EXPECT_THAT(error_of("10.44.0.2 fe80::1"),
              StartsWith("file:1: \"10.44.0.2\" is no link-layer address; expected "));
  EXPECT_EQ(error_of("fe80::1 host"), "file:1: \"host\" is no IP address");
  EXPECT_EQ(error_of("fe80::1 10.0.0.1 ib0 up"), "file:1: \"up\" is not expected here");
  EXPECT_EQ(error_of("fe80::1 10.0.0.1 a/b"), "file:1: \"a/b\" is no name of an interface");
  EXPECT_THAT(error_of("fe80::1 10.0.0.1 a234567890123456"), HasSubstr("no name"));
  EXPECT_EQ(error_of("fe80::1 10.0.0.1\nfe80::2 10.0.0.1"), "file:2: 10.0.0.1 was given before");
  EXPECT_THAT(error_of("16777216@fe80::1 10.0.0.1"), HasSubstr("no link-layer address"));
  EXPECT_EQ(error_of("fe80::1 \x1b[2J"), "file:1: \"?[2J\" is no IP address");
  EXPECT_LT(error_of(std::string(100000, 'x')).size(), 300U);
}

TEST(NeighbourFile, NumberOfEntriesIsLimited) {
  std::string text;
  for (std::uint32_t i = 0; i < kMaxStaticNeighbours; ++i) {
    text += "fe80::1 " + Ipv4Address(0x0a000000 + i).to_string() + "\n";
  }
  EXPECT_EQ(parse_neighbours(text, "file")->size(), kMaxStaticNeighbours);
  EXPECT_THAT(error_of(text + "fe80::1 11.0.0.1\n"), HasSubstr(":65537: more than 65536 entries"));
}

TEST(NeighbourFile, IsReadFromDisk) {
  const auto path = std::filesystem::path(testing::TempDir()) / "neighbours";
  std::ofstream(path) << "fe80::2:c903:0:1 10.44.0.2\n";
  const auto read = read_neighbours(path);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, (std::vector<StaticNeighbour>{{Ipv4Address(0x0a2c0002), kGid, ""}}));
  std::ofstream(path) << "nothing\n";
  EXPECT_THAT(read_neighbours(path).error().message, StartsWith(path.string() + ":1: "));
  std::ofstream(path) << std::string(kMaxNeighbourFile + 1, '\n');
  EXPECT_EQ(read_neighbours(path).error().code, EFBIG);
  std::filesystem::remove(path);
  const auto missing = read_neighbours(path);
  EXPECT_EQ(missing.error().code, ENOENT);
  EXPECT_THAT(missing.error().message, HasSubstr("No such file"));
  EXPECT_FALSE(read_neighbours(testing::TempDir()).has_value()) << "a folder";
}

}  // namespace
}  // namespace ipoib::control::neighbour_file
