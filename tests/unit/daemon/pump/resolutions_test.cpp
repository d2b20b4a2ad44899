#include "daemon/pump/resolutions.hpp"

#include <gmock/gmock.h>

#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::daemon {
namespace {

using link::LinkState;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ResolutionsTest : public link::LinkFixture {
 protected:
  static constexpr std::chrono::milliseconds kTimeout{10'000};

  void ask(const IpAddress& address, std::chrono::milliseconds timeout = kTimeout) {
    Resolutions::Callback done = [](const control::Response&) {};
    ASSERT_TRUE(resolutions_.add({address, timeout}, done, now));
  }
  [[nodiscard]] std::vector<Resolutions::Answer> turn() {
    return resolutions_.turn(*link, {port.gid, port.lid, PKey(0x8001)}, now);
  }
  /// The error code of the only answer.
  [[nodiscard]] int refusal() {
    const auto answers = turn();
    if (answers.size() != 1 || answers.front().response) return 0;
    return answers.front().response.error().code;
  }
  void reply_of_peer() { receive_arp(arp_from_peer(wire::ArpOperation::reply)); }

  Resolutions resolutions_;
};

TEST_F(ResolutionsTest, SolicitsAnUnknownNeighbourAndAnswersWhenItsPathIsKnown) {
  bring_up();
  ask(kPeer);
  EXPECT_EQ(resolutions_.next_deadline(), now + kTimeout);
  EXPECT_THAT(turn(), IsEmpty());
  EXPECT_THAT(turn(), IsEmpty());
  EXPECT_THAT(sent_arp(), SizeIs(1)) << "once";
  reply_of_peer();
  EXPECT_THAT(turn(), IsEmpty()) << "the SA has not answered";
  grant_paths(7);
  const auto answers = turn();
  ASSERT_THAT(answers, SizeIs(1));
  ASSERT_TRUE(answers.front().response) << answers.front().response.error().message;
  const auto& found = std::get<control::Resolution>(*answers.front().response);
  EXPECT_EQ(found.hardware, kPeerHw);
  EXPECT_EQ(found.path.dlid, Lid(7));
  EXPECT_EQ(found.path.mtu, 2048U);
  EXPECT_EQ(found.source_gid, port.gid);
  EXPECT_EQ(found.source_lid, port.lid);
  EXPECT_EQ(found.pkey, PKey(0x8001));
  EXPECT_EQ(found.rate, 3);
  EXPECT_EQ(found.lifetime, 17);
  EXPECT_EQ(found.hop_limit, 0);
  EXPECT_EQ(resolutions_.next_deadline(), kNever);
}

TEST_F(ResolutionsTest, AnswersFromTheCacheAndConfirmsAStaleEntry) {
  bring_up();
  resolve_peer();
  ask(kPeer);
  EXPECT_THAT(turn(), SizeIs(1));
  EXPECT_THAT(sent_arp(), IsEmpty());
  tick_to(now + config.ageing.reachable * 2);
  ASSERT_EQ(state_of(kPeer), "stale");
  forget();
  ask(kPeer);
  EXPECT_THAT(turn(), SizeIs(1));
  EXPECT_EQ(state_of(kPeer), "probing");
  EXPECT_THAT(sent_arp(), SizeIs(1));
}

TEST_F(ResolutionsTest, RequestsThePathOfAPermanentEntry) {
  bring_up();
  ASSERT_TRUE(link->set_permanent(kPeer, kPeerHw, now));
  ask(kPeer);
  EXPECT_THAT(turn(), IsEmpty());
  EXPECT_THAT(turn(), IsEmpty());
  EXPECT_THAT(emitted<link::PathRequest>(), SizeIs(1));
  grant_paths();
  EXPECT_THAT(turn(), SizeIs(1));
}

TEST_F(ResolutionsTest, RefusesWhatIsNotOnTheLink) {
  constexpr std::uint32_t kMain = 254;
  const RouteHop router{.gateway = Ipv4Address(0x0a2c00fe)};
  view.tables = {{kMain,
                  {{.destination = {Ipv4Address(0x0a2c0000), 24}, .hops = {RouteHop{}}},
                   {.destination = {Ipv4Address(0xc0000200), 24}, .hops = {router}}}}};
  bring_up();
  for (const char* const off : {"192.0.2.1", "198.51.100.1", "2001:db8::1"}) {
    ask(*parse_ip_address(off));
    EXPECT_EQ(refusal(), ENETUNREACH) << off;
  }
  for (const char* const none : {"10.44.0.1", "10.44.0.255", "224.0.0.1", "ff02::1", "0.0.0.0"}) {
    ask(*parse_ip_address(none));
    EXPECT_EQ(refusal(), EINVAL) << none;
  }
  EXPECT_THAT(sent_arp(), IsEmpty());
  ask(kPeer);
  EXPECT_THAT(turn(), IsEmpty());
  EXPECT_THAT(sent_arp(), SizeIs(1));
}

TEST_F(ResolutionsTest, ANeighbourThatDoesNotRespondIsUnreachable) {
  bring_up();
  ask(kPeer);
  EXPECT_THAT(turn(), IsEmpty());
  tick_to(now + std::chrono::seconds(4));
  ASSERT_EQ(state_of(kPeer), "failed");
  EXPECT_EQ(refusal(), EHOSTUNREACH);
}

TEST_F(ResolutionsTest, WaitsForTheLinkUntilItsDeadline) {
  make();
  ask(kPeer, std::chrono::milliseconds(100));
  ask(Ipv4Address(0x0a2c0003), std::chrono::milliseconds(0));
  EXPECT_EQ(refusal(), ETIMEDOUT);
  now += std::chrono::milliseconds(99);
  EXPECT_THAT(turn(), IsEmpty());
  link->on_port(port, now);
  grant_joins();
  EXPECT_THAT(turn(), IsEmpty());
  EXPECT_THAT(sent_arp(), SizeIs(testing::Ge(1U)));
  now += std::chrono::milliseconds(1);
  EXPECT_EQ(refusal(), ETIMEDOUT);
}

TEST_F(ResolutionsTest, AreBounded) {
  make();
  for (std::size_t i = 0; i < Resolutions::kMax; ++i) ask(kPeer);
  Resolutions::Callback done = [](const control::Response&) {};
  EXPECT_EQ(
      resolutions_.add({kPeer, kTimeout}, done, now).error().message,
      std::to_string(Resolutions::kMax) + " neighbours are being resolved, the maximum: try again");
  EXPECT_TRUE(done) << "it is still the caller's";
}

}  // namespace
}  // namespace ipoib::daemon
