// Rows of docs/states.md, "Station address".
#include "ethernet/station_address.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/unit/link/states_document.hpp"

namespace ipoib::ethernet::station_address_test {
namespace {

using namespace std::chrono_literals;
using Disposition = StationAddress::Disposition;
using Kind = StationEvent::Kind;

constexpr MacAddress kOwner{0x0200'0000'0011};
constexpr MacAddress kOther{0x0200'0000'0022};
constexpr Ipv4Address kAddress{0x0a2c0011};
const HwAddress kHost{.flags = 0, .qpn = Qpn(7), .gid = Gid(Gid::kLinkLocalPrefix, Guid(7))};

class StationStates : public ::testing::Test {
 protected:
  void expect(Disposition got, StationState wanted) {
    EXPECT_EQ(got, Disposition::keep);
    EXPECT_STREQ(name(entry.state_name()), name(wanted));
  }
  static void expect_gone(Disposition got) { EXPECT_EQ(got, Disposition::erase); }
  [[nodiscard]] Disposition seen(MacAddress mac) { return entry.on_seen(mac, out, now); }
  [[nodiscard]] Disposition claimed(MacAddress mac) { return entry.on_claimed(mac, out, now); }
  [[nodiscard]] Disposition owned(MacAddress mac) { return entry.on_owned(mac, out, now); }
  [[nodiscard]] Disposition fabric() { return entry.on_fabric(kHost, out, now); }
  /// Passes the deadline, which is so far ahead.
  [[nodiscard]] Disposition deadline(Duration ahead) {
    EXPECT_EQ(entry.deadline(), now + ahead);
    now += ahead;
    return entry.on_deadline(out, now);
  }
  void be_unconfirmed() { expect(seen(kOwner), StationState::unconfirmed), out = {}; }
  void be_routed() {
    be_unconfirmed();
    for (unsigned i = 0; i < times.probes; ++i) (void)deadline(times.probe);
    expect(Disposition::keep, StationState::routed), out = {};
  }
  void be_checking() { expect(claimed(kOwner), StationState::checking), out = {}; }
  void be_reachable() {
    be_checking();
    expect(deadline(times.check), StationState::reachable), out = {};
  }
  void be_probing() {
    be_reachable();
    expect(deadline(times.reachable), StationState::probing), out = {};
  }
  /// A packet has come for it, and it was silent.
  void be_suspect() {
    be_reachable();
    now += times.silent;
    expect(entry.on_packet(now), StationState::probing), out = {};
  }
  /// It has not answered any request, and the fabric was asked.
  void be_searched() {
    for (unsigned i = 0; i <= times.probes && out.searches.empty(); ++i) {
      (void)deadline(times.contest);
    }
    ASSERT_EQ(out.searches.size(), 1U);
    out = {};
  }
  void be_contested(bool by_fabric = false) {
    be_reachable();
    expect(by_fabric ? fabric() : claimed(kOther), StationState::contested), out = {};
  }
  /// Another station has sent packets from it, while the owner was silent.
  void be_contested_by_packets() {
    be_reachable();
    now += times.quiet;
    expect(seen(kOther), StationState::contested), out = {};
  }
  void be_checking_again() {
    be_checking();
    (void)fabric();
    expect(deadline(times.check), StationState::checking), out = {};
  }
  void be_refused() {
    be_checking_again();
    expect(fabric(), StationState::refused), out = {};
  }
  /// The number of requests to the owner since the last state was prepared, and to nobody else.
  [[nodiscard]] std::size_t asked() const {
    for (const auto& probe : out.probes) EXPECT_EQ(probe.mac, kOwner);
    return out.probes.size();
  }
  void expect_event(Kind kind, MacAddress mac = kOwner,
                    const std::optional<StationRival>& rival = {}) const {
    ASSERT_EQ(out.events.size(), 1U);
    EXPECT_STREQ(name(out.events[0].kind), name(kind));
    EXPECT_EQ(out.events[0].mac, mac);
    EXPECT_EQ(out.events[0].rival, rival);
    EXPECT_EQ(out.event_counts[static_cast<std::size_t>(kind)], 1U);
  }
  /// Whether it was served or withdrawn; nullopt: neither.
  [[nodiscard]] std::optional<bool> service() const {
    return out.services.empty() ? std::nullopt : std::optional(out.services.back().on);
  }
  void expect_nothing() const {
    EXPECT_EQ(
        asked() + out.checks.size() + out.services.size() + out.events.size() + out.searches.size(),
        0U);
  }

  TimePoint now{1h};
  StationTimes times;
  StationOutput out;
  StationAddress entry{kAddress, kOwner, times};
};

TEST_F(StationStates, Station_New_Seen) {
  expect(seen(kOwner), StationState::unconfirmed);
  EXPECT_EQ(asked(), 1U);
  EXPECT_FALSE(entry.is_served());
  EXPECT_TRUE(entry.admits(kOwner));
  EXPECT_FALSE(entry.admits(kOther));
}

TEST_F(StationStates, Station_New_Claimed) {
  expect(claimed(kOwner), StationState::checking);
  EXPECT_THAT(out.checks, ::testing::ElementsAre(IpAddress(kAddress)));
  EXPECT_FALSE(entry.is_served());
}

TEST_F(StationStates, Station_New_Owned) {
  expect(owned(kOwner), StationState::reachable);
  EXPECT_EQ(service(), true);
  expect_event(Kind::appeared);
  EXPECT_EQ(asked() + out.checks.size(), 0U);
}

TEST_F(StationStates, Station_New_Restored) {
  const auto heard = now - 1min;
  expect(entry.on_restored(true, out, heard), StationState::reachable);
  ASSERT_EQ(out.services.size(), 1U);
  EXPECT_EQ(out.services[0].address, IpAddress(kAddress));
  EXPECT_TRUE(out.services[0].is_router && out.services[0].on);
  EXPECT_EQ(entry.heard(), heard) << "so a packet makes it suspect";
  EXPECT_EQ(entry.deadline(), heard + times.reachable);
  EXPECT_EQ(asked() + out.checks.size() + out.events.size(), 0U);
}

TEST_F(StationStates, Station_Unconfirmed_Seen) {
  be_unconfirmed();
  expect(seen(kOwner), StationState::unconfirmed);
  expect(seen(kOther), StationState::unconfirmed);
  EXPECT_EQ(entry.mac(), kOwner);
  expect_nothing();
}

TEST_F(StationStates, Station_Unconfirmed_Claimed) {
  be_unconfirmed();
  expect(claimed(kOther), StationState::checking);
  EXPECT_EQ(entry.mac(), kOther);
  EXPECT_EQ(out.checks.size(), 1U);
}

TEST_F(StationStates, Station_Unconfirmed_Fabric) {
  be_unconfirmed();
  expect_gone(fabric());
  expect_nothing();
}

TEST_F(StationStates, Station_Unconfirmed_Asked) {
  be_unconfirmed();
  expect(entry.on_asked(now), StationState::unconfirmed);
  expect_nothing();
}

TEST_F(StationStates, Station_Unconfirmed_Deadline) {
  be_unconfirmed();
  expect(deadline(times.probe), StationState::unconfirmed);
  EXPECT_EQ(asked(), 1U);
}

TEST_F(StationStates, Station_Unconfirmed_Deadline_Last) {
  be_unconfirmed();
  (void)deadline(times.probe);
  (void)deadline(times.probe);
  EXPECT_EQ(asked(), 2U) << "three in all";
  expect(deadline(times.probe), StationState::routed);
  EXPECT_EQ(asked(), 2U);
}

TEST_F(StationStates, Station_Routed_Seen_Same) {
  be_routed();
  now += times.routed / 2;
  expect(seen(kOwner), StationState::routed);
  EXPECT_EQ(entry.deadline(), now + times.routed);
}

TEST_F(StationStates, Station_Routed_Seen_Other) {
  be_routed();
  now += times.routed / 2;
  expect(seen(kOther), StationState::routed);
  EXPECT_EQ(entry.deadline(), now + times.routed / 2);
  EXPECT_TRUE(entry.admits(kOther));
  EXPECT_EQ(entry.mac(), kOwner);
}

TEST_F(StationStates, Station_Routed_Claimed) {
  be_routed();
  expect(claimed(kOther), StationState::checking);
  EXPECT_EQ(entry.mac(), kOther);
}

TEST_F(StationStates, Station_Routed_Fabric) {
  be_routed();
  expect_gone(fabric());
}

TEST_F(StationStates, Station_Routed_Deadline) {
  be_routed();
  expect_gone(deadline(times.routed));
  EXPECT_FALSE(service());
}

TEST_F(StationStates, Station_Checking_Seen) {
  be_checking();
  expect(seen(kOwner), StationState::checking);
  expect(seen(kOther), StationState::checking);
  expect_nothing();
}

TEST_F(StationStates, Station_Checking_Claimed_Same) {
  be_checking();
  now += times.check / 2;
  expect(claimed(kOwner), StationState::checking);
  EXPECT_EQ(entry.deadline(), now + times.check / 2) << "not for longer";
  expect_nothing();
}

TEST_F(StationStates, Station_Checking_Claimed_Other) {
  be_checking();
  expect(claimed(kOther), StationState::checking);
  EXPECT_EQ(entry.mac(), kOwner);
  expect_event(Kind::duplicate, kOwner, kOther);
}

TEST_F(StationStates, Station_Checking_Owned) {
  be_checking();
  expect(owned(kOwner), StationState::reachable);
  EXPECT_EQ(service(), true);
  EXPECT_EQ(entry.deadline(), now + times.reachable);
}

TEST_F(StationStates, Station_Checking_Fabric) {
  be_checking();
  expect(fabric(), StationState::checking);
  expect_nothing();
}

TEST_F(StationStates, Station_Checking_Deadline_Answered) {
  be_checking();
  (void)fabric();
  expect(deadline(times.check), StationState::checking);
  EXPECT_EQ(out.checks.size(), 1U) << "the host may have given it up meanwhile";
  EXPECT_FALSE(service());
  expect(deadline(times.check), StationState::reachable);
  EXPECT_EQ(service(), true);
}

TEST_F(StationStates, Station_Checking_Fabric_Again) {
  be_checking_again();
  expect(fabric(), StationState::refused);
  expect_event(Kind::duplicate, kOwner, kHost);
  EXPECT_FALSE(service());
}

TEST_F(StationStates, Station_Checking_Deadline) {
  be_checking();
  expect(deadline(times.check), StationState::reachable);
  EXPECT_EQ(service(), true);
  EXPECT_TRUE(entry.is_served());
  expect_event(Kind::appeared);
}

TEST_F(StationStates, Station_Reachable_Seen_Same) {
  be_reachable();
  now += 1s;
  expect(seen(kOwner), StationState::reachable);
  EXPECT_EQ(entry.heard(), now);
  expect_nothing();
}

TEST_F(StationStates, Station_Reachable_Seen_Other) {
  be_reachable();
  expect(seen(kOther), StationState::reachable);
  EXPECT_EQ(entry.mac(), kOwner);
  EXPECT_FALSE(entry.admits(kOther));
  expect_nothing();
}

TEST_F(StationStates, Station_Reachable_Seen_Other_Quiet) {
  be_reachable();
  now += times.quiet;
  expect(seen(kOther), StationState::contested);
  EXPECT_EQ(asked(), 1U);
}

TEST_F(StationStates, Station_Reachable_Owned) {
  be_reachable();
  expect(owned(kOwner), StationState::reachable);
  expect_nothing();
  expect(owned(kOther), StationState::reachable);
  EXPECT_EQ(entry.mac(), kOther);
  EXPECT_FALSE(service()) << "the fabric sees no difference";
}

TEST_F(StationStates, Station_Reachable_Claimed_Same) {
  be_reachable();
  now += 1s;
  expect(claimed(kOwner), StationState::reachable);
  EXPECT_EQ(entry.heard(), now);
  expect_nothing();
}

TEST_F(StationStates, Station_Reachable_Claimed_Other) {
  be_reachable();
  expect(claimed(kOther), StationState::contested);
  EXPECT_EQ(asked(), 1U);
  EXPECT_TRUE(entry.is_served());
}

TEST_F(StationStates, Station_Reachable_Fabric) {
  be_reachable();
  expect(fabric(), StationState::contested);
  EXPECT_EQ(asked(), 1U);
}

TEST_F(StationStates, Station_Reachable_Asked) {
  be_reachable();
  expect(entry.on_asked(now), StationState::probing);
  EXPECT_EQ(asked(), 0U) << "the request is passed on by the caller";
  EXPECT_EQ(entry.deadline(), now + times.contest);
}

TEST_F(StationStates, Station_Reachable_Packet) {
  be_reachable();
  now += times.silent - 1ns;
  expect(entry.on_packet(now), StationState::reachable);
  now += 1ns;
  entry.touch(now);
  expect(entry.on_packet(now), StationState::reachable);
  expect_nothing();
}

TEST_F(StationStates, Station_Reachable_Packet_Silent) {
  be_reachable();
  now += times.silent;
  expect(entry.on_packet(now), StationState::probing);
  expect_nothing();
  EXPECT_TRUE(entry.receives());
  expect(deadline(times.contest), StationState::probing);
  EXPECT_EQ(asked(), 1U) << "it has not replied to the packet";
}

TEST_F(StationStates, Station_Reachable_Deadline_Heard) {
  be_reachable();
  entry.touch(now + 10s);
  expect(deadline(times.reachable), StationState::reachable);
  EXPECT_EQ(entry.deadline(), now + 10s);
  expect_nothing();
}

TEST_F(StationStates, Station_Reachable_Deadline) {
  be_reachable();
  expect(deadline(times.reachable), StationState::probing);
  EXPECT_EQ(asked(), 1U);
}

TEST_F(StationStates, Station_Probing_Seen_Same) {
  be_probing();
  expect(seen(kOwner), StationState::reachable);
  EXPECT_EQ(entry.deadline(), now + times.reachable);
}

TEST_F(StationStates, Station_Probing_Seen_Other) {
  be_probing();
  entry.touch(now);
  expect(seen(kOther), StationState::probing);
  expect_nothing();
}

TEST_F(StationStates, Station_Probing_Seen_Other_Quiet) {
  be_probing();
  expect(seen(kOther), StationState::contested);
  EXPECT_EQ(asked(), 1U);
}

TEST_F(StationStates, Station_Probing_Claimed_Same) {
  be_probing();
  expect(claimed(kOwner), StationState::reachable);
  expect_nothing();
}

TEST_F(StationStates, Station_Probing_Claimed_Other) {
  be_probing();
  expect(claimed(kOther), StationState::contested);
  EXPECT_EQ(asked(), 1U);
}

TEST_F(StationStates, Station_Probing_Fabric) {
  be_probing();
  expect(fabric(), StationState::contested);
  EXPECT_EQ(asked(), 1U);
}

TEST_F(StationStates, Station_Probing_Fabric_Searched) {
  be_suspect();
  be_searched();
  expect(fabric(), StationState::contested);
  EXPECT_EQ(asked(), 1U) << "once more";
  expect_gone(deadline(times.contest));
  EXPECT_EQ(service(), false);
  expect_event(Kind::moved_out, kOwner, kHost);
}

TEST_F(StationStates, Station_Probing_Packet) {
  be_probing();
  const TimePoint before = entry.deadline();
  expect(entry.on_packet(now), StationState::probing);
  EXPECT_EQ(entry.deadline(), before);
  expect_nothing();
}

TEST_F(StationStates, Station_Probing_Asked) {
  be_probing();
  const TimePoint before = entry.deadline();
  now += times.contest / 2;
  expect(entry.on_asked(now), StationState::probing);
  EXPECT_EQ(entry.deadline(), before) << "requests of the fabric do not keep it";
}

TEST_F(StationStates, Station_Probing_Asked_Packet) {
  be_suspect();
  be_searched();
  expect(entry.on_asked(now), StationState::probing);
  expect(deadline(times.search), StationState::probing);
  EXPECT_EQ(asked(), 1U) << "it has to answer now";
}

TEST_F(StationStates, Station_Probing_Deadline) {
  be_probing();
  expect(deadline(times.contest), StationState::probing);
  expect(deadline(times.contest), StationState::probing);
  EXPECT_EQ(asked(), 2U) << "three in all";
  EXPECT_EQ(out.searches.size(), 0U);
}

TEST_F(StationStates, Station_Probing_Deadline_Search) {
  be_probing();
  (void)deadline(times.contest);
  (void)deadline(times.contest);
  expect(deadline(times.contest), StationState::probing);
  EXPECT_THAT(out.searches, ::testing::ElementsAre(IpAddress(kAddress)));
  EXPECT_TRUE(entry.is_served());
}

TEST_F(StationStates, Station_Probing_Deadline_Search_Limit) {
  be_probing();
  while (out.limits.searches.take(now + times.probes * times.contest)) {
  }
  for (unsigned i = 0; i < times.probes; ++i) (void)deadline(times.contest);
  EXPECT_EQ(out.searches.size(), 0U);
  EXPECT_EQ(entry.deadline(), now + times.search);
}

TEST_F(StationStates, Station_Probing_Deadline_Searched) {
  be_probing();
  be_searched();
  expect(deadline(times.search), StationState::probing);
  expect(deadline(times.probe), StationState::probing);
  EXPECT_EQ(asked(), 2U);
}

TEST_F(StationStates, Station_Probing_Deadline_Searched_Packet) {
  be_suspect();
  const TimePoint heard = entry.heard();
  be_searched();
  expect(deadline(times.search), StationState::reachable);
  EXPECT_EQ(entry.heard(), heard);
  EXPECT_EQ(entry.deadline(), heard + times.reachable);
  expect_nothing();
  expect(entry.on_packet(now), StationState::probing);
}

TEST_F(StationStates, Station_Probing_Deadline_Limit) {
  be_suspect();
  while (out.limits.probes.take(now + times.contest)) {
  }
  expect(deadline(times.contest), StationState::reachable);
  expect_nothing();
}

TEST_F(StationStates, Station_Probing_Deadline_Last) {
  be_probing();
  be_searched();
  (void)deadline(times.search);
  for (unsigned i = 1; i < times.probes; ++i) (void)deadline(times.probe);
  EXPECT_EQ(asked(), times.probes) << "as many as before";
  expect_gone(deadline(times.probe));
  EXPECT_EQ(service(), false);
  expect_event(Kind::left);
}

TEST_F(StationStates, Station_Contested_Seen) {
  be_contested();
  expect(seen(kOwner), StationState::contested);
  expect(seen(kOther), StationState::contested);
  expect_nothing();
}

TEST_F(StationStates, Station_Contested_Claimed_Same) {
  be_contested();
  expect(claimed(kOwner), StationState::reachable);
  expect_event(Kind::duplicate, kOwner, kOther);
  EXPECT_EQ(entry.mac(), kOwner);
  EXPECT_FALSE(service()) << "it is not announced again";
}

TEST_F(StationStates, Station_Contested_Claimed_Same_Packets) {
  be_contested_by_packets();
  expect(claimed(kOwner), StationState::reachable);
  expect_nothing();
}

TEST_F(StationStates, Station_Contested_Claimed_Other_Packets) {
  be_contested_by_packets();
  expect(claimed(kOther), StationState::contested);
  for (unsigned i = 0; i < times.probes; ++i) (void)deadline(times.contest);
  EXPECT_EQ(entry.mac(), kOther);
  expect_event(Kind::moved, kOther);
}

TEST_F(StationStates, Station_Contested_Claimed_Other) {
  be_contested();
  expect(claimed(kOther), StationState::contested);
  expect_nothing();
}

TEST_F(StationStates, Station_Contested_Fabric) {
  be_contested();
  expect(fabric(), StationState::contested);
  expect_nothing();
}

TEST_F(StationStates, Station_Contested_Deadline) {
  be_contested();
  expect(deadline(times.contest), StationState::contested);
  EXPECT_EQ(asked(), 1U);
}

TEST_F(StationStates, Station_Contested_Deadline_Last) {
  be_contested();
  (void)deadline(times.contest);
  (void)deadline(times.contest);
  expect(deadline(times.contest), StationState::reachable);
  EXPECT_EQ(entry.mac(), kOther);
  expect_event(Kind::moved, kOther);
  EXPECT_FALSE(service()) << "the fabric sees no difference";
}

TEST_F(StationStates, Station_Contested_Deadline_Last_Packets) {
  be_contested_by_packets();
  (void)deadline(times.contest);
  (void)deadline(times.contest);
  expect_gone(deadline(times.contest));
  EXPECT_EQ(service(), false);
  expect_event(Kind::left);
}

TEST_F(StationStates, Station_Contested_Deadline_Last_Fabric) {
  be_contested(true);
  (void)deadline(times.contest);
  (void)deadline(times.contest);
  expect_gone(deadline(times.contest));
  EXPECT_EQ(service(), false);
  expect_event(Kind::moved_out, kOwner, kHost);
}

TEST_F(StationStates, Station_Refused_Seen) {
  be_refused();
  expect(seen(kOwner), StationState::refused);
  EXPECT_FALSE(entry.admits(kOwner));
  EXPECT_FALSE(entry.receives());
  expect_nothing();
}

TEST_F(StationStates, Station_Refused_Claimed) {
  be_refused();
  expect(claimed(kOwner), StationState::refused);
  expect(claimed(kOther), StationState::refused);
  expect_nothing();
}

TEST_F(StationStates, Station_Refused_Claimed_Later) {
  be_refused();
  now += times.recheck;
  expect(claimed(kOther), StationState::checking);
  EXPECT_EQ(entry.mac(), kOther);
  EXPECT_EQ(out.checks.size(), 1U);
}

TEST_F(StationStates, Station_Refused_Fabric) {
  be_refused();
  const TimePoint before = entry.deadline();
  now += 1s;
  expect(fabric(), StationState::refused);
  EXPECT_EQ(entry.deadline(), before);
}

TEST_F(StationStates, Station_Refused_Deadline) {
  be_refused();
  expect_gone(deadline(times.refused));
  EXPECT_FALSE(service());
}

TEST_F(StationStates, Station_Removed_Served) {
  be_reachable();
  entry.on_removed(out);
  EXPECT_EQ(service(), false);
}

TEST_F(StationStates, Station_Removed_NotServed) {
  be_checking();
  entry.on_removed(out);
  EXPECT_FALSE(service());
}

TEST(StatesDocument, HasTheTimesOfStations) {
  std::ifstream file(IPOIB_STATES_DOCUMENT);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const StationTimes times;
  const auto expect = [&](const std::string& name, const std::string& value) {
    EXPECT_THAT(text, ::testing::HasSubstr("\n| `" + name + "` | " + value + " | "));
  };
  const auto is = [&](const char* name, Duration time) {
    if (time % 1min == 0s) return expect(name, std::to_string(time / 1min) + " min");
    if (time % 1s == 0s) return expect(name, std::to_string(time / 1s) + " s");
    expect(name, std::to_string(time / 1ms) + " ms");
  };
  is("reachable", times.reachable);
  is("probe", times.probe);
  is("check", times.check);
  is("contest", times.contest);
  is("silent", times.silent);
  is("search", times.search);
  is("quiet", times.quiet);
  is("refused", times.refused);
  is("recheck", times.recheck);
  is("routed", times.routed);
  expect("probes", std::to_string(times.probes));
}

TEST(StatesDocument, EachRowOfStationsHasATestAndViceVersa) {
  auto rows = rows_of_document(IPOIB_STATES_DOCUMENT);
  std::erase_if(rows, [](const std::string& row) { return !is_about_stations(row); });
  EXPECT_GT(rows.size(), 40U);
  EXPECT_EQ(rows, tests_of_rows());
}

}  // namespace
}  // namespace ipoib::ethernet::station_address_test
