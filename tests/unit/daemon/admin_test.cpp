#include "daemon/pump/admin.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "ipoib/log.hpp"
#include "tests/support/address_handles.hpp"

namespace ipoib::daemon {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const IpAddress kPeer = Ipv4Address(0x0a2c0002);
const IpAddress kOther = Ipv4Address(0x0a2c0003);
const HwAddress kHardware{0, Qpn(0x401), Gid(Gid::kLinkLocalPrefix, Guid(0x0002c90300000001))};

class AdminTest : public ::testing::Test {
 protected:
  control::Response ask(const control::InterfaceRequest& request) {
    return carry_out(request, link_,
                     {identity_, status_, counters_, to_host_, polls_, host::HostDrops(),
                      kDefaultPKey, true, ethernet_ ? &*ethernet_ : nullptr},
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

TEST_F(AdminTest, CollectsCountersOfAllObjects) {
  to_host_.refused = 3;
  counters_.send_errors = 5;
  const auto counters = reply<std::vector<control::Counter>>(control::StatsRequest{});
  EXPECT_THAT(counters, Contains(control::Counter{"drop_host_refused", 3, true}));
  EXPECT_THAT(counters, Contains(control::Counter{"drop_send_error", 5, true}));
  EXPECT_THAT(counters, Contains(control::Counter{"tx_packets", 0, false}));
  std::vector<std::string> names;
  for (const auto& counter : counters) names.push_back(counter.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << "a duplicate name";
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

TEST_F(AdminTest, TheManualExplainsEachCounter) {
  ethernet_.emplace(ethernet::View::Limits{16, 4}, HashKey{1, 2}, frames_);
  std::ifstream file(IPOIB_MANUAL);
  std::vector<std::string> explained;
  for (std::string line; std::getline(file, line) && line != ".Ss Metrics";) {
    std::istringstream words(line);
    std::string macro;
    std::string word;
    if (!(words >> macro) || macro != ".It") continue;
    while (words >> word && word != "Ev") {
      // The control server documents its own.
      const bool is_ours = !word.starts_with("control_");
      if (is_ours && word.find('_') != std::string::npos) explained.push_back(word);
    }
  }
  std::vector<std::string> counted{missing_receives_counter(0).name};
  for (const auto& counter : sa_counters({})) counted.push_back(counter.name);
  for (const auto& counter : reply<std::vector<control::Counter>>(control::StatsRequest{})) {
    if (counter.name.find('_') != std::string::npos) counted.push_back(counter.name);
  }
  EXPECT_THAT(explained, ::testing::UnorderedElementsAreArray(counted));
}

TEST_F(AdminTest, DescribesTheInterface) {
  status_.port.lid = Lid(4);
  status_.port.gid = kHardware.gid;
  const auto info = reply<control::InterfaceInfo>(control::InfoRequest{});
  EXPECT_EQ(info.interface, "ibx");
  EXPECT_EQ(info.device, "mlx5_0");
  EXPECT_EQ(info.port, 2);
  EXPECT_EQ(info.pid, 4711U);
  EXPECT_EQ(info.pkey, kDefaultPKey);
  EXPECT_EQ(info.qpn, Qpn(0x77));
  EXPECT_EQ(info.lid, Lid(4));
  EXPECT_EQ(info.gid, kHardware.gid);
  EXPECT_EQ(info.state, name(link::LinkState::port_down));
  EXPECT_FALSE(info.waiting_for.empty());
}

}  // namespace
}  // namespace ipoib::daemon
