// A router whose network and other processes are the test.
#include "softib/transport/router.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "packets.hpp"
#include "test_subnet.hpp"
#include "wire/mad.hpp"
#include "wire/packet.hpp"

namespace softib::transport {
namespace {

using fabric::PortCounter;
using test::TestSubnet;

constexpr NodeIndex kHca = 1;

struct FakeWire final : Wire {
  std::size_t send(ProcessAddress to, std::uint8_t port,
                   std::span<const OutgoingPacket* const> packets, SendMode /*mode*/,
                   Delivery& /*why*/, std::uint64_t& /*lost*/) override {
    EXPECT_EQ(port, 1);
    node = to.node;
    sent.push_back({to.slot, packets.size(), packets.front()->purpose});
    return packets.size();
  }
  Delivery send_mad(ProcessAddress /*to*/, const MadOnWire& /*mad*/,
                    std::uint64_t& /*lost*/) override {
    return Delivery::delivered;
  }
  bool wake(ProcessAddress /*to*/, std::uint64_t& /*lost*/) override { return true; }
  bool has_untaken(ProcessAddress /*process*/) override { return true; }
  void watch(ProcessAddress /*process*/) override {}

  struct Sent {
    std::uint32_t slot;
    std::size_t packets;
    Purpose purpose;
    friend bool operator==(const Sent&, const Sent&) = default;
  };
  std::vector<Sent> sent;
  std::optional<NodeIndex> node;  ///< of the last one
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
  EXPECT_EQ(wire_.node, kHca);
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
  MadPacket mad;
  mad.source = mad.destination = ipoib::wire::kGsiQpn;
  mad.pkey = ipoib::kDefaultPKey;
  mad.qkey = ipoib::wire::kGsiQKey;
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

/// The router of host1. A packet to host2 goes to its only process, that to host3 too.
class SwitchedRouterTest : public ::testing::Test {
 protected:
  /// Where a packet to host2 arrives, twice in a row, as a datagram and as one of a connection.
  std::optional<NodeIndex> arrival() {
    const auto to = QpnLayout::make(second_->epoch(), second_->slot(), 5);
    const test::TextPacket text(TestSubnet::lid(1), TestSubnet::lid(2), to, "text");
    std::vector<std::optional<NodeIndex>> nodes;
    for (int i = 0; i < 4; ++i) {
      wire_.node.reset();
      const auto packet = text.outgoing();
      if (i < 2) {
        router_.send({&packet, 1}, SendMode::non_blocking);
      } else {
        EXPECT_EQ(router_.try_send({&packet, 1}).done, 1U);
      }
      nodes.push_back(wire_.node);
    }
    EXPECT_EQ(nodes, std::vector(4, nodes.front()));
    return nodes.front();
  }

  TestSubnet subnet_{3};
  const std::unique_ptr<endpoint::Endpoint> second_ = subnet_.attach(2);
  const std::unique_ptr<endpoint::Endpoint> third_ = subnet_.attach(3);
  FakeWire wire_;
  Router router_{
      subnet_.folder(), subnet_.fabric(), wire_, 1, [](const WirePacket&, ipoib::Duration) {}, 1};
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
  subnet::PartitionFilter filter{false, true, {}};
  filter.pkeys[0] = PKey(0x8012);
  subnet_.set_filter(2, filter);
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
      ASSERT_EQ(wire_.node, node_of(lid)) << lid;
    }
  }
}

}  // namespace
}  // namespace softib::transport
