#include "daemon/interfaces/handover_messages.hpp"

#include <gmock/gmock.h>

#include <cerrno>

namespace ipoib::daemon::handover::message_tests {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr PKey kRed{0x8001};
const Gid kGid(Gid::kLinkLocalPrefix, Guid(0x0002c90300000001));
const HwAddress kHardware{0, Qpn(0x401), kGid};

link::SavedNeighbour neighbour(std::uint32_t number) {
  return {.address = Ipv4Address(0x0a2c0000 + number),
          .hardware = {0, Qpn(number), kGid},
          .path = {.attributes = {.dlid = Lid(7),
                                  .sl = ServiceLevel(3),
                                  .rate = 3,
                                  .source_path_bits = 1,
                                  .sgid_index = 2,
                                  .hop_limit = 64,
                                  .traffic_class = 5,
                                  .flow_label = 0xfedcb},
                   .mtu = 2048},
          .reachable_for = 1500ms,
          .used = std::nullopt,
          .uses = 0x1'0000'0002};
}

std::vector<Message> messages() {
  auto stale = neighbour(2);
  stale.address = *Ipv6Address::parse("fe80::1:2");
  stale.reachable_for.reset();
  stale.used = 0ms;
  Neighbours many;
  for (std::uint32_t i = 0; i < kMaxRecords; ++i) many.neighbours.push_back(neighbour(i));
  return {Hello{1, 2, "0.2.0", "mlx5_0", 1, Guid(0x0002c90300000001), {kDefaultPKey, kRed}},
          Hello{},
          Refusal{EBUSY, "busy"},
          Offer{1, 4711, "0.2.0", {{kRed, "red"}}, {kDefaultPKey}},
          Offer{},
          Interface{kRed, 2044, {{"mlx5_1", 2}, true, 32}},
          Statics{{{Ipv4Address(0x0a2c0002), kHardware, {}},
                   {*Ipv6Address::parse("fe80::9"), kGid, {}}}},
          Neighbours{{neighbour(1), stale}},
          many,
          SendGroups{{*Gid::parse("ff12:401b:ffff::16")}},
          Complete{},
          Ready{{kDefaultPKey}},
          Released{},
          Stations{{{Ipv4Address(0x0a2c0011), MacAddress(0x020000000011), false, 1500ms},
                    {*Ipv6Address::parse("fe80::11"), MacAddress(0x020000000011), true, 0ms}}},
          StationGroups{{{Ipv4Address(0xef010203), MacAddress(0x020000000011)},
                         {*Ipv6Address::parse("ff15::7"), MacAddress(0x020000000012)}}}};
}

/// Of a daemon that did not tell which port serves.
constexpr std::size_t kInterfaceWithoutPort = 8 + 2 + 4;

TEST(HandoverMessagesTest, RoundTrip) {
  for (const auto& message : messages()) {
    const auto bytes = emit(message);
    EXPECT_LE(bytes.size(), kMaxMessage);
    const auto parsed = parse(bytes);
    ASSERT_TRUE(parsed) << message.index() << ": " << parsed.error().message;
    EXPECT_TRUE(*parsed == message) << message.index();
  }
}

TEST(HandoverMessagesTest, RefusesWhatIsTooShort) {
  for (const auto& message : messages()) {
    const auto bytes = emit(message);
    for (std::size_t size = 0; size < std::min<std::size_t>(bytes.size(), 200); ++size) {
      if (std::holds_alternative<Interface>(message) && size == kInterfaceWithoutPort) continue;
      EXPECT_FALSE(parse(ConstBytes(bytes).first(size))) << message.index() << " with " << size;
    }
  }
}

TEST(HandoverMessagesTest, IgnoresWhatALaterVersionAppends) {
  for (const auto& message : messages()) {
    auto bytes = emit(message);
    bytes.insert(bytes.end(), {1, 2, 3});
    const auto parsed = parse(bytes);
    ASSERT_TRUE(parsed) << message.index();
    EXPECT_TRUE(*parsed == message) << message.index();
  }
}

/// The header, the number of records and their size; then a group, and two bytes more.
TEST(HandoverMessagesTest, RecordsMayBeLonger) {
  const SendGroups groups{{*Gid::parse("ff12:401b:ffff::16")}};
  auto bytes = emit(groups);
  constexpr std::size_t kSizeAt = 8 + 2;
  bytes[kSizeAt + 1] = Gid::kSize + 2;
  bytes.insert(bytes.end(), {7, 7});
  EXPECT_TRUE(parse(bytes) && *parse(bytes) == Message(groups));
  bytes[kSizeAt + 1] = Gid::kSize - 1;
  EXPECT_FALSE(parse(bytes)) << "a shorter one";
}

TEST(HandoverMessagesTest, RefusesOtherTypesAndOtherPrograms) {
  auto bytes = emit(Complete{});
  bytes[4] = 99;
  EXPECT_THAT(parse(bytes).error().message,
              HasSubstr("the other daemon sends a message of the unknown type 99: "));
  EXPECT_EQ(parse(bytes).error().code, EPROTO);
  bytes[4] = 0;
  EXPECT_FALSE(parse(bytes));
  bytes = emit(Complete{});
  bytes[0] ^= 1;
  EXPECT_THAT(parse(bytes).error().message, HasSubstr("not a message"));
}

TEST(HandoverMessagesTest, TextsAreShortAndPrintable) {
  const auto parsed = parse(emit(Refusal{EIO, std::string(5000, 'x') + "\n"}));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(std::get<Refusal>(*parsed).text, std::string(kMaxText, 'x'));
  auto bytes = emit(Refusal{EIO, "a\x1b[31mb"});
  EXPECT_EQ(std::get<Refusal>(*parse(bytes)).text, "a?[31mb");
  bytes.back() = '\n';
  EXPECT_FALSE(parse(bytes)) << "from another program";
}

TEST(HandoverMessagesTest, RefusesInvalidValues) {
  EXPECT_THAT(parse(emit(Interface{PKey(0), 2044})).error().message,
              HasSubstr("the other daemon sends an invalid message of type "));
  EXPECT_EQ(parse(emit(Interface{PKey(0), 2044})).error().code, EPROTO);
  EXPECT_FALSE(parse(emit(Interface{PKey(0x0001), 2044}))) << "a limited member's key";
  EXPECT_FALSE(parse(emit(Ready{{PKey(0x8000)}})));
  EXPECT_FALSE(parse(emit(Offer{1, 1, "", {{kRed, "a/b"}}, {}})));
  EXPECT_FALSE(parse(emit(SendGroups{{kGid}}))) << "not a group";
  EXPECT_FALSE(parse(emit(StationGroups{{{Ipv4Address(0xef010203), kBroadcastMac}}})));
  EXPECT_FALSE(parse(emit(StationGroups{{{Ipv4Address(1), MacAddress(1)}}}))) << "not a group";
  EXPECT_FALSE(parse(emit(Stations{{{Ipv4Address(1), kBroadcastMac, false, 1ms}}})));
  auto station = emit(Stations{{{Ipv4Address(1), MacAddress(0x020000000011), true, 1ms}}});
  constexpr std::size_t kIsRouterAt = 8 + 4 + 17 + 6;
  ASSERT_EQ(station[kIsRouterAt], 1);
  station[kIsRouterAt] = 2;
  EXPECT_FALSE(parse(station));
  station[kIsRouterAt] = 0;
  EXPECT_TRUE(parse(station));
  std::fill_n(station.end() - 8, 8, std::uint8_t{0xff});
  EXPECT_FALSE(parse(station)) << "it must have been heard";
  EXPECT_FALSE(parse(emit(Hello{.oldest = 2, .newest = 1})));
  EXPECT_FALSE(parse(emit(Refusal{5000, ""})));
  auto bytes = emit(Statics{{{Ipv4Address(0x0a2c0002), kHardware, {}}}});
  constexpr std::size_t kFamilyAt = 8 + 4;
  bytes[kFamilyAt] = 5;
  EXPECT_FALSE(parse(bytes));
}

TEST(HandoverMessagesTest, AnInterfaceMayNotTellItsPort) {
  auto bytes = emit(Interface{kRed, 2044, {{"mlx5_1", 2}, true, 32}});
  bytes[bytes.size() - 2] = 2;
  EXPECT_FALSE(parse(bytes)) << "neither chosen nor not";
  bytes[bytes.size() - 2] = 1;
  for (const int factor : {0, 33}) {
    bytes.back() = static_cast<std::uint8_t>(factor);
    EXPECT_FALSE(parse(bytes)) << factor;
  }
  const auto older = parse(ConstBytes(bytes).first(kInterfaceWithoutPort));
  ASSERT_TRUE(older) << older.error().message;
  EXPECT_TRUE(*older == Message(Interface{kRed, 2044}));
}

TEST(HandoverMessagesTest, LongTimesAreLimited) {
  auto one = neighbour(1);
  one.used = Duration::max();
  const auto parsed = parse(emit(Neighbours{{one}}));
  ASSERT_TRUE(parsed);
  const auto used = std::get<Neighbours>(*parsed).neighbours[0].used;
  EXPECT_EQ(used, std::chrono::hours(24 * 365));
}

}  // namespace
}  // namespace ipoib::daemon::handover::message_tests
