#include "daemon/pump/admin.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "daemon/acm/socket.hpp"
#include "ipoib/log.hpp"
#include "tests/support/address_handles.hpp"

namespace ipoib::daemon {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const IpAddress kPeer = Ipv4Address(0x0a2c0002);
const IpAddress kOther = Ipv4Address(0x0a2c0003);
const HwAddress kHardware{0, Qpn(0x401), Gid(Gid::kLinkLocalPrefix, Guid(0x0002c90300000001))};

/// Counters with the values from `first` on, in the order of the members.
template <class Counters, std::size_t kCount>
Counters numbered(std::uint64_t first) {
  std::array<std::uint64_t, kCount> numbers;
  std::iota(numbers.begin(), numbers.end(), first);
  return std::bit_cast<Counters>(numbers);
}

/// The names of the counters that have the next values from `first` on.
std::vector<std::string> named(const std::vector<control::Counter>& counters, std::uint64_t first) {
  constexpr std::uint64_t kMost = 20;
  std::vector<std::string> out;
  for (std::uint64_t value = first; value < first + kMost; ++value) {
    const auto found = std::ranges::find(counters, value, &control::Counter::value);
    if (found != counters.end()) out.push_back(found->name);
  }
  return out;
}

class AdminTest : public ::testing::Test {
 protected:
  control::Response ask(const control::InterfaceRequest& request) {
    return carry_out(request, link_,
                     {identity_, status_, counters_, to_host_, polls_, of_host_, kDefaultPKey, true,
                      ethernet_ ? &*ethernet_ : nullptr},
                     now_);
  }
  template <class T>
  T reply(const control::InterfaceRequest& request) {
    return std::get<T>(ask(request).value());
  }
  control::Response set(const IpAddress& address, control::SetRequest::Mode mode) {
    return ask(control::SetRequest{mode, address, kHardware});
  }

  using Mode = control::SetRequest::Mode;
  TimePoint now_{std::chrono::seconds(1000)};
  Logger log_{"test"};
  FakeAddressHandles handles_;
  FramePool frames_{8, ethernet::View::kMessageSize};
  FramePool packets_{8, 4096};
  link::Link link_{{}, {handles_, frames_, packets_, log_, {1, 2}}, Qpn(0x77), 1};
  InterfaceIdentity identity_{"ibx", "mlx5_0", 2, 4711};
  InterfaceStatus status_;
  verbs::UdCounters counters_;
  offload::Coalescer::Counters to_host_;
  PollPolicy::Counters polls_;
  linux::HostDrops of_host_;
  std::optional<ethernet::View> ethernet_;  ///< of a TAP
};

TEST_F(AdminTest, AnEntryOfATapHasAMac) {
  EXPECT_TRUE(set(kPeer, Mode::replace));
  EXPECT_EQ(reply<control::Entry>(control::GetRequest{kPeer}).mac, std::nullopt);
  ethernet_.emplace(ethernet::View::Limits{16, 4}, HashKey{1, 2}, frames_);
  const auto mac = ethernet_->mac_of(kHardware);
  EXPECT_EQ(reply<control::Entry>(control::GetRequest{kPeer}).mac, mac);
  EXPECT_EQ(reply<control::EntryPage>(control::ListRequest{}).entries.at(0).mac, mac);
}

TEST_F(AdminTest, CountersOfTheEthernetViewAreThoseOfATap) {
  const auto has = [this](const std::string& name) {
    const auto all = reply<std::vector<control::Counter>>(control::StatsRequest{});
    return std::ranges::find(all, name, &control::Counter::name) != all.end();
  };
  EXPECT_FALSE(has("drop_ethernet_type"));
  ethernet_.emplace(ethernet::View::Limits{16, 4}, HashKey{1, 2}, frames_);
  EXPECT_TRUE(has("drop_ethernet_type"));
  EXPECT_TRUE(has("ethernet_requests"));
  EXPECT_TRUE(has("drop_station_address"));
  EXPECT_TRUE(has("stations"));
}

TEST_F(AdminTest, ListsStationsInPages) {
  EXPECT_EQ(ask(control::StationsRequest{}).error().code, EOPNOTSUPP);
  EXPECT_THAT(ask(control::ResolveRequest{kPeer, {}}).error().message,
              HasSubstr(": nobody waits for it"));
  ethernet_.emplace(ethernet::View::Limits{16, 64}, HashKey{1, 2}, frames_);
  EXPECT_TRUE(reply<control::StationPage>(control::StationsRequest{}).stations.empty());
  HostView host;
  host.mac = MacAddress(0x0200'0000'0001);
  ethernet_->on_host_changed(host, now_);
  const std::size_t count = control::kPageEntries + 3;
  std::vector<std::optional<IpAddress>> hops;
  for (std::uint32_t i = 0; i < count; ++i) {
    const MacAddress mac(0x0200'0001'0000 + i / 16);
    std::vector<Frame> batch;
    batch.push_back(frames_.take());
    batch[0].window(ethernet::View::kHeadroom, wire::EthernetArp::kSize);
    const Ipv4Address ip(0x0a2c0100 + i);
    wire::EthernetArp{wire::ArpOperation::request, mac, ip, {}, ip}.emit(batch[0].bytes());
    wire::EthernetHeader{kBroadcastMac, mac, 0x0806}.emit(batch[0].bytes().data() -
                                                          wire::EthernetHeader::kSize);
    ethernet_->from_host(batch, hops, now_);
  }
  const auto first = reply<control::StationPage>(control::StationsRequest{});
  ASSERT_EQ(first.stations.size(), control::kPageEntries);
  EXPECT_EQ(first.stations[0].state, "checking");
  EXPECT_FALSE(first.stations[0].served);
  ASSERT_TRUE(first.next);
  const auto rest = reply<control::StationPage>(control::StationsRequest{*first.next});
  EXPECT_EQ(rest.stations.size(), 3U);
  EXPECT_FALSE(rest.next);
}

TEST_F(AdminTest, SetsGetsAndDeletesAnEntry) {
  EXPECT_TRUE(set(kPeer, Mode::replace));
  const auto entry = reply<control::Entry>(control::GetRequest{kPeer});
  EXPECT_EQ(entry.address, kPeer);
  EXPECT_EQ(entry.state, "permanent");
  EXPECT_EQ(entry.hardware, kHardware);
  EXPECT_TRUE(ask(control::DeleteRequest{kPeer}));
  EXPECT_EQ(ask(control::GetRequest{kPeer}).error().code, ENOENT);
  EXPECT_EQ(ask(control::DeleteRequest{kPeer}).error().code, ENOENT);
}

TEST_F(AdminTest, AddsOnlyMissingAndChangesOnlyExistingEntries) {
  EXPECT_EQ(set(kPeer, Mode::change).error().code, ENOENT);
  EXPECT_TRUE(set(kPeer, Mode::add));
  const auto second = set(kPeer, Mode::add);
  EXPECT_EQ(second.error().code, EEXIST);
  EXPECT_THAT(second.error().message, HasSubstr("10.44.0.2"));
  EXPECT_TRUE(set(kPeer, Mode::change));
}

TEST_F(AdminTest, ListsEachEntryOnceOverAllPages) {
  constexpr std::uint32_t kEntries = 1000;
  for (std::uint32_t i = 0; i < kEntries; ++i) {
    ASSERT_TRUE(set(Ipv4Address(0x0a2c0100 + i), Mode::add));
  }
  std::vector<IpAddress> seen;
  control::ListRequest request;
  for (bool more = true; more;) {
    const auto page = reply<control::EntryPage>(request);
    for (const auto& entry : page.entries) seen.push_back(entry.address);
    more = page.next.has_value();
    if (more) request.cursor = *page.next;
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_THAT(seen, SizeIs(kEntries));
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

TEST_F(AdminTest, ReturnsTheNumberOfFlushedEntries) {
  EXPECT_TRUE(set(kOther, Mode::add));
  EXPECT_EQ(reply<control::Flushed>(control::FlushRequest{}).entries, 0U) << "permanent ones stay";
}

TEST_F(AdminTest, FlushesWhatMatches) {
  const auto flushed = [&](const control::Filter& filter) {
    return reply<control::Flushed>(control::FlushRequest{filter}).entries;
  };
  for (std::uint32_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(set(Ipv4Address(0x0a2c0100 + i), Mode::add));
  }
  EXPECT_EQ(flushed({.prefix = control::parse_prefix("10.44.1.0/24")}), 0U) << "they are permanent";
  EXPECT_EQ(flushed({.family = IpFamily::v6, .states = {"permanent"}}), 0U);
  EXPECT_EQ(flushed({.states = {"stale"}}), 0U);
  EXPECT_EQ(flushed({.prefix = control::parse_prefix("10.44.1.0/24"), .states = {"permanent"}}),
            256U);
  EXPECT_EQ(flushed({.states = {"permanent"}}), 44U);
}

TEST_F(AdminTest, PinsAnAddress) {
  const auto pin = [this](Mode mode) {
    return ask(control::PinRequest{mode, kPeer, kHardware.gid});
  };
  EXPECT_EQ(pin(Mode::change).error().code, ENOENT);
  EXPECT_TRUE(pin(Mode::add));
  EXPECT_EQ(pin(Mode::add).error().code, EEXIST);
  EXPECT_TRUE(pin(Mode::change));
  const auto entry = reply<control::Entry>(control::GetRequest{kPeer});
  EXPECT_EQ(entry.state, "pinned");
  EXPECT_EQ(entry.pinned, kHardware.gid);
  EXPECT_FALSE(entry.hardware);
  const auto first = reply<control::EntryPage>(control::ListRequest{});
  EXPECT_THAT(first.entries, SizeIs(0));
  ASSERT_TRUE(first.next) << "the pins";
  EXPECT_THAT(reply<control::EntryPage>(control::ListRequest{*first.next}).entries, SizeIs(1));
  EXPECT_TRUE(ask(control::DeleteRequest{kPeer}));
  EXPECT_EQ(ask(control::GetRequest{kPeer}).error().code, ENOENT);
}

TEST_F(AdminTest, FlushDeletesPinsOnlyIfTheyAreNamed) {
  const auto flushed = [&](const control::Filter& filter) {
    return reply<control::Flushed>(control::FlushRequest{filter}).entries;
  };
  ASSERT_TRUE(ask(control::PinRequest{Mode::add, kPeer, kHardware.gid}));
  ASSERT_TRUE(ask(control::PinRequest{Mode::add, kOther, kHardware.gid}));
  EXPECT_EQ(flushed({}), 0U);
  EXPECT_EQ(flushed({.prefix = control::parse_prefix("0.0.0.0/0")}), 0U);
  EXPECT_EQ(flushed({.states = {"permanent", "stale"}}), 0U);
  EXPECT_EQ(flushed({.prefix = IpPrefix{kPeer, 32}, .states = {"pinned"}}), 1U);
  EXPECT_EQ(flushed({.states = {"pinned"}}), 1U);
  EXPECT_EQ(flushed({.states = {"pinned"}}), 0U);
}

TEST_F(AdminTest, FiltersKnowTheStatesOfTheLink) {
  const auto last = static_cast<std::size_t>(link::NeighbourState::pinned);
  ASSERT_EQ(control::kNeighbourStates.size(), last + 1);
  for (std::size_t i = 0; i <= last; ++i) {
    EXPECT_EQ(control::kNeighbourStates[i], name(static_cast<link::NeighbourState>(i)));
  }
}

TEST_F(AdminTest, EachCounterHasTheValueOfItsObject) {
  counters_ = numbered<verbs::UdCounters, 11>(1);
  to_host_ = numbered<offload::Coalescer::Counters, 3>(31);
  polls_ = numbered<PollPolicy::Counters, 3>(61);
  of_host_ = {.malformed = 91, .vlan_queue = 92};
  status_ = {.port = {}, .messages_lost = 93, .tx_timeouts = 94, .failovers = 95};
  ethernet_.emplace(ethernet::View::Limits{16, 4}, HashKey{1, 2}, frames_);
  const auto counters = reply<std::vector<control::Counter>>(control::StatsRequest{});
  EXPECT_THAT(named(counters, counters_.receive_errors),
              ElementsAre("drop_receive_error", "drop_send_error", "drop_send_flushed",
                          "drop_receive_reset", "drop_receive_malformed", "send_queue_full",
                          "receive_starved", "post_refused", "queue_pair_bring_ups",
                          "tx_large_packets", "tx_segments"));
  EXPECT_THAT(named(counters, to_host_.large),
              ElementsAre("rx_large_packets", "rx_segments", "drop_host_refused"));
  EXPECT_THAT(named(counters, polls_.sleeps), ElementsAre("sleeps", "spins", "spins_in_vain"));
  EXPECT_THAT(named(counters, of_host_.malformed),
              ElementsAre("drop_host_malformed", "drop_vlan_queue", "messages_lost", "tx_timeouts",
                          "failovers"));
  EXPECT_THAT(
      named(sa_counters(numbered<sa::Counters, 17>(1)), 1),
      ElementsAre("sa_requests", "sa_mads_sent", "sa_retries", "sa_refusals", "sa_groups_missing",
                  "sa_busy", "sa_redirects", "sa_timeouts", "sa_send_errors",
                  "drop_sa_malformed_response", "drop_sa_unmatched", "drop_sa_foreign_response",
                  "drop_sa_foreign_report", "sa_reports", "sa_overloaded", "sa_without_sm"));
  std::set<std::string> names;
  for (const auto& counter : counters) {
    EXPECT_TRUE(names.insert(counter.name).second) << counter.name << " is there twice";
    EXPECT_EQ(counter.is_drop, counter.name.starts_with("drop_")) << counter.name;
  }
}

/// Those of both ports, and of a part that was replaced.
TEST(CounterSums, HaveTheSumOfEachCounter) {
  const auto sums = [](auto one, auto numbers) {
    auto sum = one;
    sum += sum;
    EXPECT_EQ((std::bit_cast<decltype(numbers)>(sum)), numbers);
  };
  const auto doubled = []<std::size_t kCount>(std::array<std::uint64_t, kCount> numbers) {
    for (std::uint64_t i = 0; i < kCount; ++i) numbers[i] = 2 * (i + 1);
    return numbers;
  };
  sums(numbered<verbs::UdCounters, 11>(1), doubled(std::array<std::uint64_t, 11>()));
  sums(numbered<offload::Coalescer::Counters, 3>(1), doubled(std::array<std::uint64_t, 3>()));
  sums(numbered<sa::Counters, 17>(1), doubled(std::array<std::uint64_t, 17>()));
}

TEST_F(AdminTest, CountsEntriesByState) {
  EXPECT_TRUE(set(kPeer, Mode::add));
  const auto counters = reply<std::vector<control::Counter>>(control::StatsRequest{});
  EXPECT_THAT(counters, Contains(control::Counter{"neighbours", 1, false, true}));
  EXPECT_THAT(counters, Contains(control::Counter{"neighbours_permanent", 1, false, true}));
  EXPECT_THAT(counters, Contains(control::Counter{"neighbours_failed", 0, false, true}));
}

TEST_F(AdminTest, HistogramsHaveTheBoundsOfTheLink) {
  const auto all = reply<std::vector<control::Histogram>>(control::HistogramsRequest{});
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].name, "resolution_time");
  ASSERT_THAT(all[0].bounds, SizeIs(DurationHistogram::kBounds.size()));
  EXPECT_EQ(all[0].bounds.front(), 100'000U);
  EXPECT_EQ(all[0].bounds.back(), 10'000'000'000U);
  EXPECT_THAT(all[0].counts, SizeIs(all[0].bounds.size() + 1));
}

TEST(AdminValues, AnEntryAndAGroupHaveWhatTheLinkKnows) {
  link::NeighbourInfo info;
  info.address = kPeer;
  info.state = link::NeighbourState::reachable;
  control::Entry entry{.address = kPeer, .state = "reachable", .hardware = {}, .path = {}};
  EXPECT_EQ(to_entry(info, nullptr), entry);
  info.hardware = entry.hardware = kHardware;
  info.pinned = entry.pinned = kHardware.gid;
  info.path.emplace();
  info.path->dlid = Lid(3);
  info.path->sl = ServiceLevel(4);
  info.path->mtu = 2048;
  info.path->rate = 3;  // IBA's code of 10 Gb/s
  entry.path = control::Path{Lid(3), ServiceLevel(4), 2048, 10'000};
  info.used = entry.idle = std::chrono::seconds(5);
  info.confirmed = std::chrono::seconds(6);
  info.uses = entry.uses = 7;
  info.references = entry.references = 8;
  info.parked = entry.waiting = 9;
  EXPECT_EQ(to_entry(info, nullptr), entry);

  const Gid mgid = Gid::parse("ff12:401b:ffff::1").value();
  EXPECT_EQ(to_group({mgid, Lid(0xc001), link::GroupState::full, 5, kPeer}),
            (control::Group{mgid, Lid(0xc001), "full", kPeer, 5}));
}

/// The link of the port that is not in use is kept as that of the one that is.
TEST_F(AdminTest, ChangesOfTheOperatorAreRepeatedOnTheOtherLink) {
  link::Link idle{{}, {handles_, frames_, packets_, log_, {1, 2}}, Qpn(0x78), 1};
  const auto states = [&] {
    std::map<IpAddress, std::string> found;
    for (std::optional<link::NeighbourCursor> next = link::NeighbourCursor{}; next;) {
      const auto page = idle.list(*next, control::kPageEntries, now_);
      for (const auto& info : page.entries) found[info.address] = name(info.state);
      next = page.next;
    }
    return found;
  };
  using States = std::map<IpAddress, std::string>;
  const auto repeat = [&](const control::InterfaceRequest& request) {
    repeat_on(idle, request, now_);
    return states();
  };
  EXPECT_EQ(repeat(control::SetRequest{Mode::add, kPeer, kHardware}),
            (States{{kPeer, "permanent"}}));
  EXPECT_EQ(idle.get(kPeer, now_)->hardware, kHardware);
  const States both{{kPeer, "permanent"}, {kOther, "pinned"}};
  EXPECT_EQ(repeat(control::PinRequest{Mode::add, kOther, kHardware.gid}), both);
  EXPECT_EQ(idle.get(kOther, now_)->pinned, kHardware.gid);
  EXPECT_EQ(repeat(control::ListRequest{}), both);
  EXPECT_EQ(repeat(control::FlushRequest{{.states = {"permanent"}}}), (States{{kOther, "pinned"}}));
  EXPECT_EQ(repeat(control::DeleteRequest{kOther}), States());
}

TEST_F(AdminTest, TheManualExplainsEachCounter) {
  ethernet_.emplace(ethernet::View::Limits{16, 4}, HashKey{1, 2}, frames_);
  std::ifstream file(IPOIB_MANUAL);
  std::vector<std::string> explained;
  for (std::string line; std::getline(file, line) && line != ".Ss Metrics";) {
    std::istringstream words(line);
    std::string macro;
    std::string word;
    if (!(words >> macro) || macro != ".It") continue;
    while (words >> word && word != "Ev" && word != "Cm") {
      // The control server documents its own.
      const bool is_ours = !word.starts_with("control_");
      if (is_ours && word.find('_') != std::string::npos) explained.push_back(word);
    }
  }
  std::vector<std::string> counted;
  for (const auto& each : port_counters({.missing_receives = 0})) counted.push_back(each.name);
  for (const auto& counter : sa_counters({})) counted.push_back(counter.name);
  for (const auto& counter : acm::as_values({})) counted.push_back(counter.name);
  for (const auto& counter : reply<std::vector<control::Counter>>(control::StatsRequest{})) {
    if (counter.name.find('_') != std::string::npos) counted.push_back(counter.name);
  }
  EXPECT_THAT(explained, ::testing::UnorderedElementsAreArray(counted));
}

TEST_F(AdminTest, DescribesTheInterface) {
  status_.port.lid = Lid(4);
  status_.port.sm_lid = Lid(1);
  status_.port.gid = kHardware.gid;
  const auto info = reply<control::InterfaceInfo>(control::InfoRequest{});
  EXPECT_EQ(info.interface, "ibx");
  EXPECT_EQ(info.device, "mlx5_0");
  EXPECT_EQ(info.port, 2);
  EXPECT_EQ(info.pid, 4711U);
  EXPECT_EQ(info.pkey, kDefaultPKey);
  EXPECT_EQ(info.qpn, Qpn(0x77));
  EXPECT_EQ(info.lid, Lid(4));
  EXPECT_EQ(info.sm_lid, Lid(1));
  EXPECT_EQ(info.gid, kHardware.gid);
  EXPECT_EQ(info.state, name(link::LinkState::port_down));
  EXPECT_FALSE(info.waiting_for.empty());
}

}  // namespace
}  // namespace ipoib::daemon
