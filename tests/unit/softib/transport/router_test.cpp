// A router whose network and other processes are the test.
#include "softib/transport/router.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "packets.hpp"
#include "softib/core/mad_route.hpp"
#include "test_subnet.hpp"
#include "wire/cm_messages.hpp"
#include "wire/mad.hpp"
#include "wire/packet.hpp"

namespace softib::transport {
namespace {

using fabric::PortCounter;
using test::TestSubnet;

constexpr NodeIndex kHca = 1;

/// Other processes: they take so many packets of each call, for the others there is a reason.
struct FakeWire final : Wire {
  std::size_t send(ProcessAddress to, std::uint8_t port,
                   std::span<const OutgoingPacket* const> packets, SendMode mode, Delivery& why,
                   std::uint64_t& lost) override {
    EXPECT_EQ(port, 1);
    last_mode = mode;
    receivers.push_back(to);
    sent.push_back({to.slot, packets.size(), packets.front()->purpose});
    lost += died;
    if (packets.size() <= takes) return packets.size();
    why = failure;
    return takes;
  }
  Delivery send_mad(ProcessAddress to, const MadOnWire& mad, std::uint64_t& lost) override {
    EXPECT_EQ(mad.port, 1);
    receivers.push_back(to);
    lost += died;
    return takes != 0 ? Delivery::delivered : failure;
  }
  bool wake(ProcessAddress to, std::uint64_t& lost) override {
    receivers.push_back(to);
    lost += died;
    return takes != 0;
  }
  bool has_untaken(ProcessAddress process) override {
    receivers.push_back(process);
    return true;
  }
  void watch(ProcessAddress process) override { watched.push_back(process); }

  /// Of the last receiver.
  [[nodiscard]] std::optional<NodeIndex> node() const {
    return receivers.empty() ? std::nullopt : std::optional(receivers.back().node);
  }

  struct Sent {
    std::uint32_t slot;
    std::size_t packets;
    Purpose purpose;
    friend bool operator==(const Sent&, const Sent&) = default;
  };
  std::size_t takes = ~std::size_t{0};
  Delivery failure = Delivery::congested;
  std::uint64_t died = 0;  ///< packets that each call finds lost
  std::vector<Sent> sent;
  std::vector<ProcessAddress> receivers;
  std::vector<ProcessAddress> watched;
  std::optional<SendMode> last_mode;
};

/// Sends packets until one that it cannot send.
struct FakeUplink final : Uplink {
  bool is_own(const Gid& gid) const override { return gid == own; }
  std::size_t send(std::span<const OutgoingPacket* const> packets, SendMode /*mode*/,
                   Delivery& why) override {
    ++calls;
    std::size_t done = 0;
    for (; done < packets.size(); ++done, ++sent) {
      if (sent != fails_at) continue;
      why = failure;
      fails_at = repeats ? fails_at : ~std::size_t{0};
      return done;
    }
    return done;
  }

  Gid own;
  std::size_t calls = 0;
  std::size_t sent = 0;
  std::size_t fails_at = ~std::size_t{0};
  bool repeats = true;  ///< else the next call goes on
  Delivery failure = Delivery::congested;
};

/// From and to QP1, as its checks want it.
MadPacket gsi_packet() {
  MadPacket packet;
  packet.source = packet.destination = ipoib::wire::kGsiQpn;
  packet.pkey = ipoib::kDefaultPKey;
  packet.qkey = ipoib::wire::kGsiQKey;
  return packet;
}

class EthernetRouterTest : public ::testing::Test {
 protected:
  EthernetRouterTest() {
    uplink_.own = Gid(1, Guid(1));
    router_.set_uplink(uplink_, kHca);
  }
  /// A packet of 10 bytes behind its headers.
  OutgoingPacket packet(const Gid& to) const {
    using ipoib::wire::Grh;
    using ipoib::wire::Lrh;
    OutgoingPacket out;
    out.header_size = Lrh::kSize + Grh::kSize;
    std::ranges::copy(to.bytes(), out.header.begin() + Lrh::kSize + Grh::kSize - Gid::kSize);
    out.add(payload_);
    out.destination = QpnLayout::make(endpoint_->epoch(), endpoint_->slot(), 5);
    out.purpose = Purpose::request;
    return out;
  }
  [[nodiscard]] std::uint64_t counted(PortCounter counter) {
    return subnet_.fabric().counters(kHca)[static_cast<std::size_t>(counter)];
  }

  const Gid other_ = Gid(1, Guid(2));
  const std::array<std::uint8_t, 10> payload_{};
  TestSubnet subnet_;
  const std::unique_ptr<endpoint::Endpoint> endpoint_ = subnet_.attach(kHca);
  FakeWire wire_;
  FakeUplink uplink_;
  Router router_{subnet_.folder(),
                 subnet_.fabric(),
                 wire_,
                 kHca,
                 [](const WirePacket&, ipoib::Duration) {},
                 1};
};

TEST_F(EthernetRouterTest, PacketsGoToProcessesOfTheHcaOrToTheNetwork) {
  const std::array batch{packet(uplink_.own), packet(uplink_.own), packet(other_),
                         packet(uplink_.own)};
  router_.send(batch, SendMode::blocking);
  using Sent = FakeWire::Sent;
  EXPECT_EQ(wire_.sent, (std::vector<Sent>{{0, 2, Purpose::request}, {0, 1, Purpose::request}}));
  EXPECT_EQ(wire_.node(), kHca);
  EXPECT_EQ(uplink_.sent, 1U);
  EXPECT_EQ(counted(PortCounter::sent_packets), 4U);
  EXPECT_EQ(router_.try_send(batch).done, 4U) << "those of a connection have one GID";
  EXPECT_EQ(router_.try_send({&batch[2], 1}).done, 1U);
  EXPECT_EQ(wire_.sent.back(), (Sent{0, 4, Purpose::request}));
  EXPECT_EQ(uplink_.sent, 2U);
  EXPECT_EQ(counted(PortCounter::sent_packets), 9U);
}

TEST_F(EthernetRouterTest, WhatTheNetworkDoesNotTakeIsCountedByItsReason) {
  const std::vector batch(3, packet(other_));
  for (const auto& [why, counter] : {std::pair(Delivery::congested, PortCounter::drop_congested),
                                     {Delivery::unreachable, PortCounter::drop_unreachable}}) {
    uplink_.failure = why;
    uplink_.sent = 0;
    uplink_.fails_at = 1;
    router_.send(batch, SendMode::non_blocking);
    EXPECT_EQ(counted(counter), 2U);
  }
  uplink_.failure = Delivery::too_long;
  uplink_.sent = 0;
  uplink_.repeats = false;
  router_.send(batch, SendMode::non_blocking);
  EXPECT_EQ(counted(PortCounter::drop_too_long), 1U);
  EXPECT_EQ(uplink_.sent, 2U) << "those behind the long one are sent";
}

TEST_F(EthernetRouterTest, PacketsOfConnectionsWithoutRoomAreOfferedAgain) {
  const std::vector batch(3, packet(other_));
  uplink_.fails_at = 1;
  EXPECT_EQ(router_.try_send(batch).done, 1U);
  EXPECT_EQ(counted(PortCounter::drop_congested), 0U);
  EXPECT_EQ(counted(PortCounter::sent_packets), 1U);
  uplink_.failure = Delivery::too_long;
  const auto sent = router_.try_send(batch);
  EXPECT_EQ(sent.done, 0U);
  EXPECT_TRUE(sent.is_too_long);
  EXPECT_EQ(counted(PortCounter::drop_too_long), 1U);
  EXPECT_FALSE(router_.has_untaken(1, TestSubnet::lid(kHca), Qpn(5)))
      << "nobody knows what is behind the network";
}

TEST_F(EthernetRouterTest, PacketsOfTheNetworkGoToTheProcessOfTheirQueuePair) {
  const std::vector<std::uint8_t> datagram(100);
  const Qpn to = QpnLayout::make(endpoint_->epoch(), endpoint_->slot(), 5);
  router_.deliver_from_network(datagram, to);
  EXPECT_EQ(wire_.sent, (std::vector<FakeWire::Sent>{{0, 1, Purpose::datagram}}));
  router_.deliver_from_network(datagram, QpnLayout::make(1, endpoint_->slot() + 1, 5));
  EXPECT_EQ(counted(PortCounter::drop_empty_slot), 1U);
  router_.deliver_from_network(datagram, ipoib::wire::kGsiQpn);
  EXPECT_EQ(counted(PortCounter::drop_malformed), 1U);
  MadPacket mad = gsi_packet();
  ipoib::wire::MadHeader header;
  header.management_class = ipoib::wire::mgmt_class::kSubnAdm;
  header.emit(mad.mad);
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  router_.deliver_from_network(mad.emit(bytes), ipoib::wire::kGsiQpn);
  EXPECT_EQ(counted(PortCounter::drop_mad_no_agent), 1U);
  header.management_class = 7;  // communication management
  header.emit(mad.mad);
  mad.qkey = QKey(1);
  router_.deliver_from_network(mad.emit(bytes), ipoib::wire::kGsiQpn);
  EXPECT_EQ(counted(PortCounter::drop_qkey), 1U);
}

TEST_F(EthernetRouterTest, MadsGoToTheNetworkOrToTheHcaItself) {
  namespace wire = ipoib::wire;
  MadPacket mad = gsi_packet();
  mad.grh.emplace();
  wire::MadHeader header;
  header.management_class = wire::mgmt_class::kCommMgt;
  header.emit(mad.mad);
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  mad.grh->dgid = other_;
  router_.send_mad(1, mad.emit(bytes));
  EXPECT_EQ(uplink_.sent, 1U);
  EXPECT_EQ(counted(PortCounter::sent_packets), 1U);
  mad.grh->dgid = uplink_.own;
  header.management_class = wire::mgmt_class::kSubnAdm;
  header.emit(mad.mad);
  router_.send_mad(1, mad.emit(bytes));
  EXPECT_EQ(uplink_.sent, 1U);
  EXPECT_EQ(counted(PortCounter::drop_mad_no_agent), 1U) << "it is in no subnet";
  router_.send_mad(1, ConstBytes(bytes).first(30));
  EXPECT_EQ(counted(PortCounter::drop_malformed), 1U);
}

/// The router of host1. A packet to host2 goes to its only process, that to host3 too.
class SwitchedRouterTest : public ::testing::Test {
 protected:
  using Counts = std::map<PortCounter, std::uint64_t>;

  /// Where a packet to host2 arrives, twice in a row, as a datagram and as one of a connection.
  std::optional<NodeIndex> arrival() {
    const auto to = QpnLayout::make(second_->epoch(), second_->slot(), 5);
    const test::TextPacket text(TestSubnet::lid(1), TestSubnet::lid(2), to, "text");
    std::vector<std::optional<NodeIndex>> nodes;
    for (int i = 0; i < 4; ++i) {
      wire_.receivers.clear();
      const auto packet = text.outgoing();
      if (i < 2) {
        router_.send({&packet, 1}, SendMode::non_blocking);
      } else {
        EXPECT_EQ(router_.try_send({&packet, 1}).done, 1U);
      }
      nodes.push_back(wire_.node());
    }
    EXPECT_EQ(nodes, std::vector(4, nodes.front()));
    return nodes.front();
  }

  /// Packets from host1 to a queue pair of host2, or to a multicast LID.
  std::vector<OutgoingPacket> packets(std::size_t count, Lid to = TestSubnet::lid(2)) {
    const Qpn qpn = ipoib::is_multicast(to) ? ipoib::kMulticastQpn
                                            : QpnLayout::make(second_->epoch(), second_->slot(), 5);
    texts_.emplace_back(TestSubnet::lid(1), to, qpn, "text");
    return std::vector(count, texts_.back().outgoing());
  }
  /// Lets the switch pass only packets of one partition, 0x8012, to host2.
  void filter_partition() {
    subnet::PartitionFilter filter{false, true, {}};
    filter.pkeys[0] = PKey(0x8012);
    subnet_.set_filter(2, filter);
  }
  /// The counters of host1 that have changed since the last call.
  Counts changes() {
    Counts changes;
    const auto now = subnet_.fabric().counters(1);
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i] != counted_[i]) changes[static_cast<PortCounter>(i)] = now[i] - counted_[i];
    }
    counted_ = now;
    return changes;
  }
  /// What packets that are sent count, and a further counter, or none.
  static Counts sent(std::size_t count, Counts more = {}) {
    more[PortCounter::sent_packets] = count;
    more[PortCounter::sent_bytes] = count * kTextBytes;
    return more;
  }
  Counts send(std::size_t count, Lid to = TestSubnet::lid(2)) {
    router_.send(packets(count, to), SendMode::blocking);
    return changes();
  }

  static constexpr std::uint64_t kTextBytes = 8 + 12 + 8 + 4;  ///< LRH, BTH, DETH, "text"
  TestSubnet subnet_{3};
  std::deque<test::TextPacket> texts_;
  decltype(subnet_.fabric().counters(1)) counted_{};
  const std::unique_ptr<endpoint::Endpoint> second_ = subnet_.attach(2);
  const std::unique_ptr<endpoint::Endpoint> third_ = subnet_.attach(3);
  FakeWire wire_;
  std::vector<std::pair<WirePacket, ipoib::Duration>> held_;
  Router router_{subnet_.folder(),
                 subnet_.fabric(),
                 wire_,
                 1,
                 [this](WirePacket packet, ipoib::Duration delay) {
                   held_.emplace_back(std::move(packet), delay);
                 },
                 1};
};

TEST_F(SwitchedRouterTest, PacketsFollowEachChangeOfTheSubnet) {
  EXPECT_EQ(arrival(), NodeIndex{2});
  subnet_.set_route(TestSubnet::lid(2), 3);
  EXPECT_EQ(arrival(), NodeIndex{3});
  subnet_.set_route(TestSubnet::lid(2), 2);
  EXPECT_EQ(arrival(), NodeIndex{2});
  for (const NodeIndex down : {NodeIndex{1}, NodeIndex{2}}) {
    subnet_.set_port_state(down, PortState::down);
    EXPECT_EQ(arrival(), std::nullopt) << down;
    subnet_.set_port_state(down, PortState::active);
    EXPECT_EQ(arrival(), NodeIndex{2});
  }
  filter_partition();
  EXPECT_EQ(arrival(), std::nullopt);
  subnet_.set_filter(2, {});
  EXPECT_EQ(arrival(), NodeIndex{2});
  subnet_.fabric().remove_node(2);
  EXPECT_EQ(arrival(), std::nullopt);
}

TEST_F(SwitchedRouterTest, PacketsToMoreLidsThanAreKnownAtATimeArrive) {
  const auto to = QpnLayout::make(second_->epoch(), second_->slot(), 5);
  const auto node_of = [](std::uint16_t lid) { return static_cast<NodeIndex>(2 + lid % 2); };
  for (std::uint16_t lid = 100; lid < 400; ++lid) subnet_.set_route(Lid(lid), node_of(lid));
  for (int round = 0; round < 2; ++round) {
    for (std::uint16_t lid = 100; lid < 400; ++lid) {
      const test::TextPacket text(TestSubnet::lid(1), Lid(lid), to, "text");
      const auto packet = text.outgoing();
      router_.send({&packet, 1}, SendMode::non_blocking);
      ASSERT_EQ(wire_.node(), node_of(lid)) << lid;
    }
  }
}

TEST_F(SwitchedRouterTest, PacketsThatAProcessDoesNotTakeAreCountedByTheReason) {
  for (const auto& [why, counter] : {std::pair(Delivery::congested, PortCounter::drop_congested),
                                     {Delivery::refused, PortCounter::drop_congested},
                                     {Delivery::no_process, PortCounter::drop_empty_slot},
                                     {Delivery::lost, PortCounter::drop_lost_peer}}) {
    wire_.failure = why;
    wire_.takes = 1;
    EXPECT_EQ(send(3), sent(3, {{counter, 2}}));
    EXPECT_EQ(wire_.last_mode, SendMode::blocking);
    // Those for which there is no room are offered again by their connection.
    const bool waits = why == Delivery::congested;
    EXPECT_EQ(router_.try_send(packets(3)).done, waits ? 1U : 3U);
    EXPECT_EQ(wire_.last_mode, SendMode::as_room_permits);
    EXPECT_EQ(changes(), waits ? sent(1) : sent(3, {{counter, 2}}));
  }
  wire_.takes = 3;
  wire_.died = 4;
  EXPECT_EQ(send(1), sent(1, {{PortCounter::drop_lost_peer, 4}}));
  EXPECT_EQ(router_.try_send(packets(1)).done, 1U);
  EXPECT_EQ(changes(), sent(1, {{PortCounter::drop_lost_peer, 4}}));
}

TEST_F(SwitchedRouterTest, PacketsThatGetNowhereAreCountedByTheReason) {
  const auto expect = [&](Lid to, const Counts& expected) {
    EXPECT_EQ(send(2, to), expected);
    EXPECT_EQ(router_.try_send(packets(2, to)).done, 2U);
    EXPECT_EQ(changes(), expected);
    EXPECT_TRUE(wire_.sent.empty());
  };
  expect(Lid(77), sent(2, {{PortCounter::drop_unknown_lid, 2}}));
  subnet_.set_port_state(2, PortState::armed);
  expect(TestSubnet::lid(2), sent(2, {{PortCounter::drop_port_not_active, 2}}));
  subnet_.set_port_state(2, PortState::active);
  subnet_.set_port_state(1, PortState::armed);
  expect(TestSubnet::lid(2), {{PortCounter::drop_port_not_active, 2}});
  subnet_.set_port_state(1, PortState::active);
  expect(TestSubnet::lid(1), sent(2, {{PortCounter::drop_empty_slot, 2}}));  // nobody is there
  auto from_no_port = packets(2);
  for (auto& packet : from_no_port) packet.port = 2;
  router_.send(from_no_port, SendMode::blocking);
  EXPECT_EQ(router_.try_send(from_no_port).done, 2U);
  EXPECT_EQ(changes(), (Counts{{PortCounter::drop_port_not_active, 4}}));
}

TEST_F(SwitchedRouterTest, PacketsToAGroupGoToEachProcessOfItsMembers) {
  const Lid group(0xc010);
  EXPECT_EQ(send(2, group), sent(2, {{PortCounter::drop_unknown_lid, 2}}));
  subnet_.set_group(group, {2, 3});
  const auto other = subnet_.attach(2);
  EXPECT_EQ(send(2, group), sent(2, {{PortCounter::multicast_copies, 6}}));
  EXPECT_EQ(wire_.receivers, (std::vector<ProcessAddress>{
                                 {2, second_->slot()}, {2, other->slot()}, {3, third_->slot()}}));
  // A member that is down is left out, and is no drop; one that does not read is.
  subnet_.set_port_state(2, PortState::down);
  wire_.takes = 0;
  EXPECT_EQ(send(2, group), sent(2, {{PortCounter::drop_congested, 2}}));
  // With a partition filter anywhere, packets are checked one by one.
  subnet_.set_port_state(2, PortState::active);
  filter_partition();
  wire_.takes = 3;
  EXPECT_EQ(send(2, group), sent(2, {{PortCounter::multicast_copies, 2}}));
  EXPECT_EQ(send(2, Lid(0xc011)), sent(2, {{PortCounter::drop_unknown_lid, 2}}));
}

TEST_F(SwitchedRouterTest, SwitchesLetThePacketsOfAPartitionPass) {
  filter_partition();
  auto batch = packets(4);
  for (const std::size_t member : {1U, 2U}) {
    constexpr std::size_t kPKeyAt = 8 + 2;  // LRH, and bytes of the BTH
    batch[member].header[kPKeyAt] = 0x80;
    batch[member].header[kPKeyAt + 1] = 0x12;
  }
  router_.send(batch, SendMode::non_blocking);
  ASSERT_EQ(wire_.sent.size(), 1U);
  EXPECT_EQ(wire_.sent[0].packets, 2U);
  EXPECT_EQ(changes(), sent(4));
  EXPECT_EQ(router_.try_send(batch).done, 1U) << "the first does not pass, and is done with";
  EXPECT_EQ(router_.try_send(std::span(batch).subspan(1)).done, 2U);
  EXPECT_EQ(wire_.sent.back().packets, 2U);
  EXPECT_EQ(changes(), sent(3));
}

TEST_F(SwitchedRouterTest, ABatchToSeveralProcessesIsSentToEachAtOnceAndInOrder) {
  std::vector<OutgoingPacket> batch;
  for (std::size_t i = 0; i < 100; ++i) {
    const bool is_third = i % 2 != 0;
    const auto& to = is_third ? *third_ : *second_;
    texts_.emplace_back(TestSubnet::lid(1), TestSubnet::lid(is_third ? 3 : 2),
                        QpnLayout::make(to.epoch(), to.slot(), 5), "text");
    batch.push_back(texts_.back().outgoing());
  }
  router_.send(batch, SendMode::non_blocking);
  EXPECT_EQ(changes(), sent(100));
  std::vector<std::size_t> sizes;
  for (const auto& each : wire_.sent) sizes.push_back(each.packets);
  EXPECT_EQ(sizes, (std::vector<std::size_t>{32, 32, 18, 18})) << "64 are looked at together";
  EXPECT_EQ(wire_.receivers.front().node, 2);
  EXPECT_EQ(wire_.receivers.back().node, 3);
}

TEST_F(SwitchedRouterTest, AFaultyCableDelaysPackets) {
  subnet::CableFaults faults;
  faults.delay = 7;
  subnet_.set_cable_faults(2, faults);
  EXPECT_EQ(send(2), sent(2));
  EXPECT_TRUE(wire_.sent.empty());
  ASSERT_EQ(held_.size(), 2U);
  EXPECT_EQ(held_[0].second, std::chrono::milliseconds(7));
  subnet_.set_cable_faults(2, {});
  router_.deliver_late(held_[0].first);
  EXPECT_EQ(wire_.sent, (std::vector<FakeWire::Sent>{{second_->slot(), 1, Purpose::datagram}}));
  EXPECT_EQ(wire_.last_mode, SendMode::blocking);
  held_[1].first.purpose = Purpose::request;
  router_.deliver_late(held_[1].first);
  EXPECT_EQ(wire_.last_mode, SendMode::as_room_permits);
  EXPECT_EQ(changes(), (Counts{}));
  subnet_.set_port_state(2, PortState::down);
  router_.deliver_late(held_[1].first);
  EXPECT_EQ(changes(), (Counts{{PortCounter::drop_port_not_active, 1}}));
}

class RoutedMadsTest : public SwitchedRouterTest {
 protected:
  /// Sends a MAD of host1 to host2; returns what has counted.
  Counts send_mad(std::uint8_t management_class, std::uint8_t method,
                  std::uint64_t transaction = 1) {
    MadPacket packet = gsi_packet();
    packet.slid = TestSubnet::lid(1);
    packet.dlid = to_;
    ipoib::wire::MadHeader header;
    header.management_class = management_class;
    header.method = method;
    header.transaction_id = transaction;
    header.emit(packet.mad);
    wire_.receivers.clear();
    sent_ = packet.emit(bytes_);
    router_.send_mad(1, sent_);
    return changes();
  }
  static Counts one(Counts more = {}) {
    more[PortCounter::sent_packets] = 1;
    more[PortCounter::sent_bytes] = 8 + 12 + 8 + 256;  // LRH, BTH, DETH, MAD
    return more;
  }

  static constexpr auto kVendor = std::uint8_t{0x0a};  ///< a class that nothing else handles
  static constexpr auto kCm = ipoib::wire::mgmt_class::kCommMgt;
  static constexpr auto kGet = ipoib::wire::method::kGet;
  static constexpr auto kGetResp = ipoib::wire::method::kGetResp;
  Lid to_ = TestSubnet::lid(2);
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes_{};
  ConstBytes sent_;
};

TEST_F(RoutedMadsTest, ARequestGoesToAllProcessesAndAResponseToThatOfItsTransaction) {
  const auto other = subnet_.attach(2);
  EXPECT_EQ(send_mad(kVendor, kGet), one());
  EXPECT_EQ(wire_.receivers,
            (std::vector<ProcessAddress>{{2, second_->slot()}, {2, other->slot()}}));
  const auto transaction = [](std::uint32_t slot) {
    return std::uint64_t{MadRoute{.node = 2, .slot = slot}.high_half()} << 32 | 77;
  };
  EXPECT_EQ(send_mad(kVendor, kGetResp, transaction(other->slot())), one());
  EXPECT_EQ(wire_.receivers, (std::vector<ProcessAddress>{{2, other->slot()}}));
  EXPECT_EQ(send_mad(kVendor, kGetResp, transaction(other->slot() + 1)),
            one({{PortCounter::drop_empty_slot, 1}}));
  EXPECT_TRUE(wire_.receivers.empty());
}

TEST_F(RoutedMadsTest, OneThatGetsNowhereIsCountedByTheReason) {
  to_ = Lid(77);
  EXPECT_EQ(send_mad(kVendor, kGet), (Counts{{PortCounter::drop_unknown_lid, 1}}));
  to_ = TestSubnet::lid(2);
  subnet_.set_port_state(2, PortState::armed);
  EXPECT_EQ(send_mad(kVendor, kGet), (Counts{{PortCounter::drop_port_not_active, 1}}));
  subnet_.set_port_state(2, PortState::active);
  wire_.takes = 0;
  EXPECT_EQ(send_mad(kVendor, kGet),
            one({{PortCounter::drop_congested, 1}, {PortCounter::drop_mad_no_agent, 1}}));
  wire_.takes = 1;
  wire_.died = 2;
  EXPECT_EQ(send_mad(kVendor, kGet), one({{PortCounter::drop_lost_peer, 2}}));
}

TEST_F(RoutedMadsTest, SwitchesDelayItOrLetItsPartitionPass) {
  subnet::CableFaults faults;
  faults.delay = 7;
  subnet_.set_cable_faults(2, faults);
  EXPECT_EQ(send_mad(kVendor, kGet), (Counts{}));
  EXPECT_TRUE(wire_.receivers.empty());
  ASSERT_EQ(held_.size(), 1U);
  const auto& [late, delay] = held_[0];
  EXPECT_EQ(delay, std::chrono::milliseconds(7));
  EXPECT_EQ(late.kind, WirePacket::Kind::mad);
  EXPECT_EQ(late.port, 1);
  EXPECT_TRUE(late.has_passed_switches);
  EXPECT_TRUE(std::ranges::equal(late.bytes, sent_));
  EXPECT_TRUE(late.with_icrc.empty());
  subnet_.set_cable_faults(2, {});
  router_.deliver_late(late);
  EXPECT_EQ(wire_.node(), NodeIndex{2});
  EXPECT_EQ(changes(), one());

  filter_partition();
  EXPECT_EQ(send_mad(kVendor, kGet), (Counts{}));
  EXPECT_TRUE(wire_.receivers.empty());
  subnet_.set_filter(2, {});
  EXPECT_EQ(send_mad(kVendor, kGet), one());
  EXPECT_EQ(wire_.node(), NodeIndex{2});
}

/// The message names no process, so it is for all of the node.
TEST_F(RoutedMadsTest, AMessageOfAConnectionGoesToProcessesThatAreWatched) {
  EXPECT_EQ(send_mad(kCm, ipoib::wire::method::kSend), one());
  EXPECT_EQ(wire_.receivers, (std::vector<ProcessAddress>{{2, second_->slot()}}));
  EXPECT_EQ(wire_.watched, wire_.receivers);
}

TEST_F(SwitchedRouterTest, AllProcessesOfANodeAreWoken) {
  const auto other = subnet_.attach(2);
  EXPECT_TRUE(router_.wake_processes(2));
  EXPECT_EQ(wire_.receivers,
            (std::vector<ProcessAddress>{{2, second_->slot()}, {2, other->slot()}}));
  wire_.takes = 0;
  wire_.died = 3;
  EXPECT_FALSE(router_.wake_processes(2));
  EXPECT_EQ(changes(), (Counts{{PortCounter::drop_lost_peer, 6}}));
  EXPECT_TRUE(router_.has_untaken(1, TestSubnet::lid(2), QpnLayout::make(1, 1, 5)));
  EXPECT_EQ(wire_.receivers.back(), (ProcessAddress{2, 1}));
  EXPECT_FALSE(router_.has_untaken(2, TestSubnet::lid(2), QpnLayout::make(1, 1, 5)));
  EXPECT_FALSE(router_.has_untaken(1, Lid(77), QpnLayout::make(1, 1, 5)));
}

}  // namespace
}  // namespace softib::transport
