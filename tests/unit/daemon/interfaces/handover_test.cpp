// The connection of a handover, and what the new daemon accepts.
#include "daemon/interfaces/handover.hpp"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "control/socket_folder.hpp"
#include "daemon/options/options.hpp"
#include "ethernet/station_groups.hpp"
#include "ethernet/station_table.hpp"
#include "ipoib/ancillary_descriptors.hpp"
#include "tests/support/emulator.hpp"
#include "tests/unit/control/temporary_run_folder.hpp"
#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::daemon::handover::assembly_tests {
namespace {

using ::testing::HasSubstr;

constexpr PKey kRed{0x8001};
const SavedSelection kSelection{{"mlx5_1", 2}, true, 3};
const Gid kGid(Gid::kLinkLocalPrefix, Guid(0x0002c90300000001));

std::array<FileDescriptor, 2> socket_pair() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

/// Sends bytes with copies of a descriptor.
void send_raw(int socket, ConstBytes bytes, int descriptor, std::size_t copies) {
  iovec piece{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  AncillaryDescriptors control;
  control.attach(header, std::vector<int>(copies, descriptor));
  ASSERT_GT(::sendmsg(socket, &header, 0), 0);
}

TEST(HandoverConnectionTest, CarriesMessagesAndDescriptors) {
  auto [one, other] = socket_pair();
  Connection from(std::move(one));
  Connection to(std::move(other));
  EXPECT_EQ(to.receive().error().code, EAGAIN);
  ASSERT_TRUE(from.send(emit(Complete{})));
  ASSERT_TRUE(from.send(emit(Interface{kRed, 2044}), STDOUT_FILENO));
  const auto first = to.receive();
  ASSERT_TRUE(first && *first);
  EXPECT_TRUE((*first)->message == Message(Complete{}));
  EXPECT_FALSE((*first)->descriptor);
  const auto second = to.receive();
  ASSERT_TRUE(second && *second);
  EXPECT_TRUE((*second)->message == Message(Interface{kRed, 2044}));
  EXPECT_TRUE((*second)->descriptor);
}

TEST(HandoverConnectionTest, SaysThatThePeerHasGoneOrDoesNotRead) {
  auto [one, other] = socket_pair();
  Connection from(std::move(one));
  int sent = 0;
  while (from.send(emit(Complete{}))) ASSERT_LT(++sent, 100000);
  EXPECT_EQ(from.send(emit(Complete{})).error().code, EAGAIN);
  other.reset();
  EXPECT_EQ(from.send(emit(Complete{})).error().code, EPIPE);
  const auto received = from.receive();
  ASSERT_TRUE(received);
  EXPECT_FALSE(*received);
}

TEST(HandoverConnectionTest, ARefusalArrivesAlthoughThePeerDoesNotReadEverything) {
  auto [one, other] = socket_pair();
  Connection here(std::move(one));
  {
    Connection there(std::move(other));
    ASSERT_TRUE(here.send(emit(Ready{{kRed}})));
    ASSERT_TRUE(there.send(emit(Refusal{EIO, "no"})));
  }
  const auto refusal = here.receive();
  ASSERT_TRUE(refusal && *refusal);
  EXPECT_TRUE((*refusal)->message == Message(Refusal{EIO, "no"}));
  const auto end = here.receive();
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);
}

TEST(HandoverConnectionTest, NoDescriptorOfAnInvalidMessageStaysOpen) {
  SKIP_UNDER_EMULATOR("does not say that descriptors were cut off");
  auto [one, other] = socket_pair();
  Connection to(std::move(other));
  const auto before = open_descriptors();
  const auto valid = emit(Interface{kRed, 0});
  send_raw(one.get(), valid, STDOUT_FILENO, 3);
  EXPECT_EQ(to.receive().error().code, EPROTO) << "three descriptors";
  send_raw(one.get(), valid, STDOUT_FILENO, 8);
  EXPECT_EQ(to.receive().error().code, EPROTO) << "more than there is room for";
  const std::array<std::uint8_t, 3> invalid{1, 2, 3};
  send_raw(one.get(), invalid, STDOUT_FILENO, 1);
  EXPECT_EQ(to.receive().error().code, EPROTO);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(HandoverConnectionTest, RefusesAMessageThatIsTooLong) {
  auto [one, other] = socket_pair();
  Connection to(std::move(other));
  auto bytes = emit(Complete{});
  bytes.resize(kMaxMessage + 1);
  ASSERT_EQ(::send(one.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(to.receive().error().message,
            "the other daemon sends a message that is too long, or has lost a descriptor: it is of "
            "another version, or this process has no free descriptor");
}

TEST(RequestHandoverTest, DoesNotWaitForEverForADaemonThatDoesNotRespond) {
  auto folder =
      control::SocketFolder::take(control::own_network_namespace().value(), "t-silent", {}).value();
  const FileDescriptor listener = folder.listen_for_handover().value();
  EXPECT_THAT(
      [] {
        (void)request_handover({}, false, *link::silent_logger(), std::chrono::milliseconds(1));
      },
      testing::ThrowsMessage<std::runtime_error>(testing::StrEq(
          "cannot take over: the other daemon does not respond: end it, and start this one without "
          "--takeover")));
}

class HandoverAssemblyTest : public ::testing::Test {
 protected:
  [[nodiscard]] Result<bool> add(Message message) { return assembly.add({std::move(message), {}}); }
  [[nodiscard]] Result<bool> begin(PKey pkey) {
    return assembly.add({Interface{pkey, 2044, kSelection}, FileDescriptor(::dup(STDOUT_FILENO))});
  }
  void offer() { ASSERT_TRUE(add(Offer{})); }

  Assembly assembly;
  const Neighbours some{std::vector<link::SavedNeighbour>(2)};
};

TEST_F(HandoverAssemblyTest, PutsTogetherWhatBelongsToAnInterface) {
  offer();
  ASSERT_TRUE(begin(kDefaultPKey));
  EXPECT_FALSE(*add(some));
  EXPECT_FALSE(*add(some));
  ASSERT_TRUE(begin(kRed));
  EXPECT_FALSE(*add(Statics{{{Ipv4Address(1), kGid, {}}}}));
  EXPECT_FALSE(*add(SendGroups{{kGid}}));
  EXPECT_FALSE(*add(Stations{std::vector<ethernet::SavedStation>(2)}));
  EXPECT_FALSE(*add(StationGroups{std::vector<ethernet::SavedGroup>(3)}));
  EXPECT_TRUE(*add(Complete{}));
  auto& all = assembly.interfaces();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[kDefaultPKey].cache.neighbours.size(), 4U);
  EXPECT_TRUE(all[kDefaultPKey].tun);
  EXPECT_EQ(all[kDefaultPKey].mtu, 2044U);
  EXPECT_EQ(all[kDefaultPKey].cache.selection, kSelection);
  EXPECT_TRUE(all[kRed].cache.neighbours.empty());
  EXPECT_EQ(all[kRed].statics.size(), 1U);
  EXPECT_EQ(all[kRed].cache.send_groups.size(), 1U);
  EXPECT_EQ(all[kRed].cache.stations.size(), 2U);
  EXPECT_EQ(all[kRed].cache.station_groups.size(), 3U);
}

TEST_F(HandoverAssemblyTest, RefusesWhatIsOutOfPlace) {
  EXPECT_FALSE(begin(kRed)) << "no offer";
  EXPECT_FALSE(add(Complete{}));
  offer();
  EXPECT_FALSE(add(Offer{})) << "a second one";
  EXPECT_FALSE(add(Complete{})) << "no interface";
  EXPECT_FALSE(add(some)) << "no interface";
  EXPECT_FALSE(add(Statics{{{Ipv4Address(1), kGid, {}}}}));
  EXPECT_FALSE(add(SendGroups{{kGid}}));
  EXPECT_FALSE(add(Stations{std::vector<ethernet::SavedStation>(1)}));
  EXPECT_FALSE(add(StationGroups{std::vector<ethernet::SavedGroup>(1)}));
  EXPECT_FALSE(add(Interface{kRed, 0})) << "without its TUN";
  ASSERT_TRUE(begin(kRed));
  EXPECT_FALSE(begin(kRed)) << "the same partition";
  EXPECT_FALSE(add(Hello{}));
  EXPECT_FALSE(add(Ready{}));
  EXPECT_FALSE(add(Released{}));
  EXPECT_EQ(add(Neighbours{}).error().message,
            "the other daemon sends a list of a wrong size: start this one without --takeover, "
            "after the other one has ended");
}

TEST_F(HandoverAssemblyTest, RefusesAnOfferOfAnotherVersion) {
  EXPECT_FALSE(add(Offer{.version = kVersion + 1}));
  EXPECT_FALSE(add(Offer{.version = kOldestVersion - 1}));
}

TEST_F(HandoverAssemblyTest, PassesOnARefusal) {
  const auto refused = add(Refusal{EBUSY, "busy"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY);
  EXPECT_EQ(refused.error().message, "busy");
}

TEST_F(HandoverAssemblyTest, EverythingIsBounded) {
  offer();
  for (std::uint16_t i = 1; i <= kMaxInterfaces; ++i) {
    ASSERT_TRUE(begin(PKey(PKey::kFullMember | i)));
  }
  EXPECT_FALSE(begin(kDefaultPKey));
  SendGroups groups{std::vector<Gid>(kMaxRecords)};
  std::size_t count = 0;
  while (add(groups)) ASSERT_LE(count += kMaxRecords, Assembly::kMaxSendGroups);
  EXPECT_EQ(count, Assembly::kMaxSendGroups);
  const Statics statics{std::vector<control::StaticNeighbour>(kMaxRecords)};
  for (count = 0; add(statics);) ASSERT_LE(count += kMaxRecords, Assembly::kMaxStatics);
  EXPECT_EQ(count, Assembly::kMaxStatics);
  const Stations stations{std::vector<ethernet::SavedStation>(kMaxRecords)};
  for (count = 0; add(stations);) ASSERT_LE(count += kMaxRecords, Assembly::kMaxStations);
  EXPECT_EQ(count, Assembly::kMaxStations);
  const StationGroups of_stations{std::vector<ethernet::SavedGroup>(kMaxRecords)};
  for (count = 0; add(of_stations);) ASSERT_LE(count += kMaxRecords, Assembly::kMaxStationGroups);
  EXPECT_EQ(count, Assembly::kMaxStationGroups);
  static_assert(Assembly::kMaxStationGroups >= ethernet::StationGroups::kMax);
  static_assert(Assembly::kMaxStations ==
                Options::kMaxStations * ethernet::StationTable::kAddressesShare);
}

}  // namespace
}  // namespace ipoib::daemon::handover::assembly_tests
