// Several endpoints in one process; each has its own sockets, slot and engine.
#include "softib/endpoint/endpoint.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "ipoib/monotonic_clock.hpp"
#include "ipoib/unix_path.hpp"
#include "open_descriptors.hpp"
#include "packets.hpp"
#include "softib/core/comm_id.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/endpoint/capture.hpp"
#include "softib/fabric/attached_processes.hpp"
#include "softib/fabric/cm_locks.hpp"
#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/transport/process_slot.hpp"
#include "softib/transport/ring_wire.hpp"
#include "softib/transport/socket_engine.hpp"
#include "softib/transport/unix_socket.hpp"
#include "test_subnet.hpp"

namespace softib::endpoint {
namespace {

using test::eventually;
using test::LargeUdpPacket;
using test::Mailbox;
using test::open_descriptors;
using test::send_text;
using test::TestSubnet;
using test::TextPacket;

constexpr Lid kGroup{0xc000};

Qpn qp_of(const Endpoint& endpoint, std::uint32_t index = 1) {
  return QpnLayout::make(endpoint.epoch(), endpoint.slot(), index);
}

std::uint64_t counted(const Endpoint& endpoint, fabric::PortCounter counter) {
  return endpoint.counters()[static_cast<std::size_t>(counter)];
}

void capture(Endpoint& endpoint, const std::string& file) {
  endpoint.observe(std::make_unique<Capture>(CaptureFile::open(file).value(), endpoint.self()));
}

class EndpointTest : public testing::Test {
 protected:
  EndpointTest() {
    one_->set_receiver(&first_);
    one_->add_mad_receiver(first_);
    two_->set_receiver(&second_);
  }
  ~EndpointTest() override {
    one_->set_receiver(nullptr);
    one_->remove_mad_receiver(first_);
    two_->set_receiver(nullptr);
  }

  TestSubnet subnet_;
  Mailbox first_;
  Mailbox second_;
  std::unique_ptr<Endpoint> one_ = subnet_.attach(1);
  std::unique_ptr<Endpoint> two_ = subnet_.attach(2);
};

TEST_F(EndpointTest, KnowsItsNode) {
  EXPECT_EQ(one_->hca_name(), "host1");
  EXPECT_EQ(one_->node(), 1);
  EXPECT_EQ(one_->slot(), 0U);
  EXPECT_EQ(one_->epoch(), 1U);
  EXPECT_EQ(one_->first_port().lid, TestSubnet::lid(1));
}

TEST_F(EndpointTest, IsLostWhenTheHcaFails) {
  send_text(*two_, TestSubnet::lid(1), qp_of(*one_), "alive");
  EXPECT_EQ(first_.next_text(), "alive");
  (void)first_.next_port();  // the initial one
  subnet_.set_failed(1, true);
  ASSERT_TRUE(two_->wake_processes(1));
  EXPECT_TRUE(first_.next_port().failed);
  EXPECT_TRUE(eventually([&] { return first_.is_device_lost(); }));
  EXPECT_TRUE(one_->is_lost());
  EXPECT_FALSE(two_->is_lost());
  EXPECT_EQ(Endpoint::attach(subnet_.folder(), "host1").error().code, ENODEV);
  // The restored HCA needs a new endpoint: the old one stays lost, and detach() frees its slot.
  subnet_.set_failed(1, false);
  EXPECT_TRUE(one_->is_lost());
  EXPECT_EQ(one_->first_port().state, PortState::down);
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "from the lost one");
  one_->detach();
  EXPECT_TRUE(one_->is_lost());
  const auto again = subnet_.attach(1);
  EXPECT_EQ(again->slot(), one_->slot());
  EXPECT_NE(again->epoch(), one_->epoch());
  Mailbox third;
  again->set_receiver(&third);
  send_text(*two_, TestSubnet::lid(1), qp_of(*again), "to the new one");
  EXPECT_EQ(third.next_text(), "to the new one");
  send_text(*again, TestSubnet::lid(2), qp_of(*two_), "from the new one");
  EXPECT_EQ(second_.next_text(), "from the new one") << "the lost one sends nothing";
  again->set_receiver(nullptr);
}

std::size_t mappings_of(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.ends_with(path) ? 1 : 0;
  return count;
}

/// Programs may refer to a lost endpoint until they end.
TEST_F(EndpointTest, ALostEndpointKeepsNeitherDescriptorsNorMappings) {
  std::vector<std::unique_ptr<Endpoint>> lost;
  const auto descriptors = open_descriptors();
  const auto mappings = mappings_of(subnet_.folder().fabric());
  Endpoint::Mapped mapped = subnet_.fabric();
  for (int i = 0; i < 10; ++i) {
    send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "connected");
    EXPECT_EQ(second_.next_text(), "connected");
    subnet_.set_failed(1, true);
    one_->detach();
    lost.push_back(std::move(one_));
    subnet_.set_failed(1, false);
    one_ = Endpoint::attach_node(subnet_.folder(), 1, &mapped).value();
    EXPECT_TRUE(eventually([&] { return open_descriptors() == descriptors; }))
        << "the receiver closes its end, too";
    EXPECT_EQ(mappings_of(subnet_.folder().fabric()), mappings);
  }
  const TestSubnet other;
  ASSERT_TRUE(Endpoint::attach_node(other.folder(), 1, &mapped));
  subnet_.fabric().remove_node(1);
  EXPECT_TRUE(mapped->node(1)) << "that of the other subnet";
  for (const auto& each : lost) {
    EXPECT_EQ(each->first_port().state, PortState::down);
    each->set_mad_deadline(first_, ipoib::TimePoint());
    each->set_receiver(&first_);
    each->set_receiver(nullptr);
    each->set_waiter(0, 0);
    EXPECT_FALSE(each->poll_receive_rings());
  }
}

/// Every process may write to the file.
TEST_F(EndpointTest, ATruncatedFabricFileIsALostHca) {
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "before");
  EXPECT_EQ(second_.next_text(), "before");
  std::filesystem::resize_file(subnet_.folder().fabric(), 0);
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "after");
  EXPECT_EQ(one_->first_port().state, PortState::down);
  for (auto* const endpoint : {one_.get(), two_.get()}) {
    endpoint->remove_mad_receiver(first_);
    endpoint->add_mad_receiver(first_);  // wakes the engine
    EXPECT_TRUE(eventually([&] { return endpoint->is_lost(); }));
    endpoint->remove_mad_receiver(first_);
    endpoint->detach();
  }
  EXPECT_FALSE(Endpoint::attach_node(subnet_.folder(), 1));
}

TEST_F(EndpointTest, DetachReportsTheLossToReceivers) {
  subnet_.set_failed(1, true);
  one_->detach();
  EXPECT_TRUE(first_.is_device_lost());
}

/// Its slot belongs to another endpoint by the time that it is destroyed.
TEST_F(EndpointTest, ALostEndpointLeavesItsSlotOnce) {
  one_->detach();
  auto lost = std::move(one_);
  one_ = subnet_.attach(1);
  one_->set_receiver(&first_);
  ASSERT_EQ(one_->slot(), lost->slot());
  lost.reset();
  EXPECT_EQ(subnet_.fabric().occupied(1), SlotSet(1));
  send_text(*two_, TestSubnet::lid(1), qp_of(*one_), "to the new one");
  EXPECT_EQ(first_.next_text(), "to the new one");
}

TEST_F(EndpointTest, IsLostOnceItIsDetached) {
  one_->detach();
  EXPECT_TRUE(one_->is_lost());
  EXPECT_EQ(one_->first_port().state, PortState::down);
  EXPECT_EQ(one_->first_port().lid, Lid());
  one_->detach();  // does nothing
}

/// A process that was stopped meanwhile sees only the last record.
TEST_F(EndpointTest, IsLostWhenTheHcaFailedAndRecoveredUnseen) {
  subnet_.set_failed(1, true);
  subnet_.set_failed(1, false);
  EXPECT_EQ(subnet_.fabric().port_state(1), PortState::active);
  EXPECT_EQ(one_->first_port().state, PortState::down);
  EXPECT_TRUE(one_->is_lost());
  ASSERT_TRUE(two_->wake_processes(1));
  EXPECT_TRUE(eventually([&] { return first_.is_device_lost(); }));
}

TEST_F(EndpointTest, TheLossIsReportedOnce) {
  struct Losses : MadReceiver {
    bool receive_mad(const MadPacket&) override { return true; }
    void device_lost() override { ++count; }
    std::atomic<int> count = 0;
  } losses;
  one_->add_mad_receiver(losses);
  subnet_.set_failed(1, true);
  ASSERT_TRUE(two_->wake_processes(1));
  EXPECT_TRUE(eventually([&] { return losses.count != 0; }));
  one_->detach();  // lets the engine look once more
  EXPECT_EQ(losses.count, 1);
  one_->remove_mad_receiver(losses);
}

TEST_F(EndpointTest, UnicastReachesTheProcessThatTheQpnNames) {
  Mailbox third;
  const auto neighbour = subnet_.attach(2);
  EXPECT_EQ(neighbour->slot(), 1U);
  neighbour->set_receiver(&third);
  send_text(*one_, TestSubnet::lid(2), qp_of(*neighbour), "to the neighbour");
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "to the second");
  EXPECT_EQ(third.next_text(), "to the neighbour");
  EXPECT_EQ(second_.next_text(), "to the second");
  neighbour->set_receiver(nullptr);
}

TEST_F(EndpointTest, DeliversPacketsToItself) {
  send_text(*one_, TestSubnet::lid(1), qp_of(*one_), "me");
  EXPECT_EQ(first_.next_text(), "me");
}

TEST_F(EndpointTest, BatchesKeepTheirOrderForEachDestination) {
  std::vector<TextPacket> packets;
  for (int i = 0; i < 300; ++i) {
    const auto& to = i % 3 == 0 ? *one_ : *two_;
    packets.emplace_back(TestSubnet::lid(1), TestSubnet::lid(to.node()), qp_of(to),
                         std::to_string(i));
  }
  std::vector<OutgoingPacket> batch;
  for (const auto& packet : packets) batch.push_back(packet.outgoing());
  one_->send(batch);
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ((i % 3 == 0 ? first_ : second_).next_text(), std::to_string(i));
  }
  EXPECT_EQ(counted(*one_, fabric::PortCounter::sent_packets), 300U);
  EXPECT_EQ(counted(*two_, fabric::PortCounter::received_packets), 200U);
}

TEST_F(EndpointTest, ABatchMayBeForSeveralProcessesOfANode) {
  Mailbox third;
  const auto neighbour = subnet_.attach(2);
  neighbour->set_receiver(&third);
  std::vector<TextPacket> packets;
  for (const auto* to : {two_.get(), neighbour.get(), two_.get()}) {
    packets.emplace_back(TestSubnet::lid(1), TestSubnet::lid(2), qp_of(*to),
                         std::to_string(to->slot()));
  }
  std::vector<OutgoingPacket> batch;
  for (const auto& packet : packets) batch.push_back(packet.outgoing());
  one_->send(batch);
  EXPECT_EQ(third.next_text(), "1");
  EXPECT_EQ(second_.next_text(), "0");
  EXPECT_EQ(second_.next_text(), "0");
  neighbour->set_receiver(nullptr);
}

TEST_F(EndpointTest, LargePacketsArriveComplete) {
  const std::string text(4096, 'x');
  std::vector<TextPacket> packets(
      100, TextPacket(TestSubnet::lid(1), TestSubnet::lid(2), qp_of(*two_), text));
  std::vector<OutgoingPacket> batch;
  for (const auto& packet : packets) batch.push_back(packet.outgoing());
  one_->send(batch);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(second_.next_text(), text);
}

/// The wire carries a large packet in one piece; all counters count its segments.
TEST_F(EndpointTest, CountsALargePacketAsItsSegments) {
  const LargeUdpPacket packet(TestSubnet::lid(1), TestSubnet::lid(2), qp_of(*two_), 10);
  one_->send({&packet.outgoing(), 1});
  EXPECT_EQ(second_.next_text(), "no packet") << "it arrives in one piece";
  const auto bytes = 10 * (28 + 4 + 20 + 8 + 1000U);
  EXPECT_EQ(counted(*one_, fabric::PortCounter::sent_packets), 10U);
  EXPECT_EQ(counted(*one_, fabric::PortCounter::sent_bytes), bytes);
  EXPECT_EQ(counted(*two_, fabric::PortCounter::received_packets), 10U);
  EXPECT_EQ(counted(*two_, fabric::PortCounter::received_bytes), bytes);
  const LargeUdpPacket astray(TestSubnet::lid(1), Lid(0x1234), qp_of(*two_), 10);
  one_->send({&astray.outgoing(), 1});
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_unknown_lid), 10U);
  two_->set_receiver(nullptr);
  one_->send({&packet.outgoing(), 1});
  EXPECT_TRUE(
      eventually([&] { return counted(*two_, fabric::PortCounter::drop_no_receiver) == 10; }));
}

TEST_F(EndpointTest, MulticastReachesEveryReceivingProcessOnceAndTheSender) {
  Mailbox third;
  const auto neighbour = subnet_.attach(2);
  neighbour->set_receiver(&third);
  subnet_.set_group(kGroup, {1, 2});
  send_text(*one_, kGroup, ipoib::kMulticastQpn, "all");
  EXPECT_EQ(first_.next_text(), "all");
  EXPECT_EQ(second_.next_text(), "all");
  EXPECT_EQ(third.next_text(), "all");
  subnet_.set_group(kGroup, {1});
  send_text(*one_, kGroup, ipoib::kMulticastQpn, "only me");
  EXPECT_EQ(first_.next_text(), "only me");
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "last");
  EXPECT_EQ(second_.count_until("last"), 1U);
  EXPECT_EQ(counted(*one_, fabric::PortCounter::multicast_copies), 4U);
  neighbour->set_receiver(nullptr);
}

// Switches that check P_Keys, and cables with faults.

class CheckedEndpoints : public EndpointTest {
 protected:
  subnet::PerformanceCounters port_of(NodeIndex node) {
    return subnet_.fabric().cable_counters(0, TestSubnet::port_of(node).port);
  }
  void send(Endpoint& from, NodeIndex to, const Endpoint& receiver, const std::string& text) {
    send_text(from, TestSubnet::lid(to), qp_of(receiver), text);
  }
  /// Packets of the tests have the default P_Key.
  static subnet::PartitionFilter filter(bool inbound, bool outbound, PKey key) {
    subnet::PartitionFilter filter{inbound, outbound, {}};
    filter.pkeys[kPKeyTableSize - 1] = key;
    return filter;
  }
};

TEST_F(CheckedEndpoints, AnOutboundCheckDropsWhatIsForTheNode) {
  subnet_.set_filter(2, filter(false, true, PKey(0x8012)));
  send(*one_, 2, *two_, "dropped");
  const LargeUdpPacket large(TestSubnet::lid(1), TestSubnet::lid(2), qp_of(*two_), 10);
  EXPECT_EQ(one_->try_send({&large.outgoing(), 1}).done, 1U);
  send(*two_, 1, *one_, "passes");
  EXPECT_EQ(first_.next_text(), "passes");
  EXPECT_EQ(port_of(2).transmit_constraints, 11U);
  EXPECT_EQ(port_of(2).receive_constraints, 0U);
  EXPECT_EQ(counted(*one_, fabric::PortCounter::sent_packets), 11U);
  const auto last = subnet_.fabric().last_violation(TestSubnet::port_of(2));
  EXPECT_EQ(last.slid, TestSubnet::lid(1));
  EXPECT_EQ(last.dlid, TestSubnet::lid(2));
  EXPECT_EQ(last.pkey, ipoib::kDefaultPKey);
  EXPECT_EQ(last.destination, qp_of(*two_));
  subnet_.set_filter(2, filter(false, true, PKey(0x7fff)));
  send(*one_, 2, *two_, "a limited member hears full ones");
  EXPECT_EQ(second_.count_until("a limited member hears full ones"), 1U);
}

TEST_F(CheckedEndpoints, AnInboundCheckDropsWhatTheNodeSends) {
  subnet_.set_group(kGroup, {1, 2});
  subnet_.set_filter(2, filter(true, false, PKey(0x7fff)));
  send(*two_, 1, *one_, "a limited member may not send as a full one");
  send_text(*two_, kGroup, ipoib::kMulticastQpn, "nor to a group");
  send(*two_, 2, *two_, "but to itself");
  EXPECT_EQ(second_.count_until("but to itself"), 1U);
  EXPECT_EQ(port_of(2).receive_constraints, 2U);
  subnet_.set_filter(2, filter(true, false, ipoib::kDefaultPKey));
  send_text(*two_, kGroup, ipoib::kMulticastQpn, "as itself");
  EXPECT_EQ(first_.count_until("as itself"), 1U);
  EXPECT_EQ(port_of(2).receive_constraints, 2U);
}

TEST_F(CheckedEndpoints, AGroupReachesThoseWhosePortsLetItPass) {
  subnet_.set_group(kGroup, {1, 2});
  subnet_.set_filter(2, filter(false, true, PKey(0x8012)));
  send_text(*one_, kGroup, ipoib::kMulticastQpn, "group");
  EXPECT_EQ(first_.next_text(), "group");
  subnet_.set_filter(2, {});
  send_text(*one_, kGroup, ipoib::kMulticastQpn, "all");
  EXPECT_EQ(second_.count_until("all"), 1U);
  EXPECT_EQ(port_of(2).transmit_constraints, 1U);
  send_text(*one_, Lid(0xc001), ipoib::kMulticastQpn, "?");
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_unknown_lid), 1U);
}

TEST_F(CheckedEndpoints, ACableLosesPacketsInBothDirections) {
  subnet_.set_group(kGroup, {2});
  subnet_.set_cable_faults(2, {LinkFaults::kAlways, 0});
  send(*one_, 2, *two_, "lost");
  const LargeUdpPacket large(TestSubnet::lid(1), TestSubnet::lid(2), qp_of(*two_), 10);
  EXPECT_EQ(one_->try_send({&large.outgoing(), 1}).done, 1U);
  send_text(*one_, kGroup, ipoib::kMulticastQpn, "lost, too");
  EXPECT_EQ(counted(*two_, fabric::PortCounter::drop_cable_fault), 12U) << "at the HCA";
  EXPECT_EQ(port_of(2).receive_errors, 0U);
  send(*two_, 1, *one_, "lost");
  EXPECT_EQ(port_of(2).receive_errors, 1U) << "at the switch";
  EXPECT_EQ(port_of(2).symbol_errors, 1U);
  subnet_.set_cable_faults(2, {});
  send(*two_, 1, *one_, "repaired");
  EXPECT_EQ(first_.count_until("repaired"), 1U);
}

TEST_F(CheckedEndpoints, ACableLosesAsManyAsItShould) {
  constexpr std::size_t kPackets = 2000;
  subnet_.set_cable_faults(2, {LinkFaults::kAlways / 10, 0});
  subnet_.set_group(kGroup, {2});
  for (std::size_t i = 0; i < kPackets / 2; ++i) {
    send(*one_, 2, *two_, "one of many");
    send_text(*one_, kGroup, ipoib::kMulticastQpn, "to all");
  }
  const auto lost = counted(*two_, fabric::PortCounter::drop_cable_fault);
  EXPECT_GT(lost, kPackets / 20);
  EXPECT_LT(lost, kPackets / 5);
  EXPECT_TRUE(eventually(
      [&] { return counted(*two_, fabric::PortCounter::received_packets) == kPackets - lost; }));
}

TEST_F(CheckedEndpoints, CablesDelayPackets) {
  using std::chrono::milliseconds;
  subnet_.set_group(kGroup, {2});
  subnet_.set_cable_faults(1, {0, 20});
  subnet_.set_cable_faults(2, {0, 40});
  const auto begun = ipoib::monotonic_now();
  send(*one_, 2, *two_, "first");
  send_text(*one_, kGroup, ipoib::kMulticastQpn, "second");
  const LargeUdpPacket large(TestSubnet::lid(1), TestSubnet::lid(2), qp_of(*two_), 2);
  EXPECT_EQ(one_->try_send({&large.outgoing(), 1}).done, 1U);
  EXPECT_EQ(second_.next_text(), "first");
  EXPECT_GE(ipoib::monotonic_now() - begun, milliseconds(60));
  EXPECT_EQ(second_.next_text(), "second") << "in order";
  Mailbox third;
  const auto beside = subnet_.attach(2);
  beside->set_receiver(&third);
  send(*one_, 2, *beside, "for another process");
  EXPECT_EQ(third.next_text(), "for another process");
  beside->set_receiver(nullptr);
  EXPECT_TRUE(
      eventually([&] { return counted(*two_, fabric::PortCounter::received_packets) == 5; }));
}

// Drops are counted.

TEST_F(EndpointTest, CountsPacketsToUnknownLids) {
  send_text(*one_, Lid(0x77), qp_of(*two_), "?");
  send_text(*one_, Lid(0), qp_of(*two_), "?");
  send_text(*one_, Lid(0xc001), ipoib::kMulticastQpn, "?");
  send_text(*one_, Lid(0xfff0), ipoib::kMulticastQpn, "?");
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_unknown_lid), 4U);
}

TEST_F(EndpointTest, CountsPacketsToEmptySlots) {
  send_text(*one_, TestSubnet::lid(2), QpnLayout::make(1, 9, 1), "?");
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_empty_slot), 1U);
}

TEST_F(EndpointTest, CountsPacketsThatAProcessHasLeftUnread) {
  constexpr std::uint32_t kSlot = 5;
  const auto node = subnet_.folder().open_node(2).value();
  const auto listener = transport::listen_at(node.get(), fabric::slot_name(kSlot));
  subnet_.fabric().advance_epoch(2, kSlot);
  subnet_.fabric().set_occupied(2, kSlot, true);
  const auto send = [&] {
    send_text(*one_, TestSubnet::lid(2), QpnLayout::make(1, kSlot, 1), "unread");
  };
  for (int i = 0; i < 3; ++i) send();
  subnet_.fabric().advance_epoch(2, kSlot);  // another process has taken the slot
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_lost_peer), 0U);
  send();
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_lost_peer), 3U);
}

TEST_F(EndpointTest, APortThatIsNotActiveStopsBothDirections) {
  subnet_.set_port_state(2, PortState::down);
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "?");
  send_text(*two_, TestSubnet::lid(1), qp_of(*one_), "?");
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_port_not_active), 1U);
  EXPECT_EQ(counted(*two_, fabric::PortCounter::drop_port_not_active), 1U);

  subnet_.set_port_state(2, PortState::active);
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "up");
  EXPECT_EQ(second_.next_text(), "up");
}

/// The sender looks at the port before; the receiver has the last word.
TEST_F(EndpointTest, DropsPacketsThatArriveAfterThePortHasGoneDown) {
  struct Stopped : PacketReceiver {
    void receive(std::span<const ArrivedPacket>) override {
      entered = true;
      release.lock(), release.unlock();
    }
    void port_changed(const PortAttributes&) override {}
    std::atomic<bool> entered = false;
    std::mutex release;
  } stopped;
  two_->set_receiver(&stopped);
  stopped.release.lock();
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "blocks the engine");
  ASSERT_TRUE(eventually([&] { return stopped.entered.load(); }));
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "waits in the ring");
  subnet_.set_port_state(2, PortState::down);
  stopped.release.unlock();
  EXPECT_TRUE(
      eventually([&] { return counted(*two_, fabric::PortCounter::drop_port_not_active) == 1; }));
  EXPECT_EQ(counted(*two_, fabric::PortCounter::received_packets), 1U);
  two_->set_receiver(&second_);
}

TEST_F(EndpointTest, CountsPacketsWithoutAReceiver) {
  two_->set_receiver(nullptr);
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "?");
  EXPECT_TRUE(
      eventually([&] { return counted(*two_, fabric::PortCounter::drop_no_receiver) == 1; }));
}

TEST_F(EndpointTest, WaitsOnceForAReceiverThatDoesNotDrain) {
  // Blocks the engine of the second endpoint, as if its process were stopped.
  struct Stopped : PacketReceiver {
    void receive(std::span<const ArrivedPacket>) override { release.lock(), release.unlock(); }
    void port_changed(const PortAttributes&) override {}
    std::mutex release;
  } stopped;
  two_->set_receiver(&stopped);
  stopped.release.lock();
  const std::string text(4096, 'x');
  while (counted(*one_, fabric::PortCounter::drop_congested) == 0) {
    send_text(*one_, TestSubnet::lid(2), qp_of(*two_), text);
  }
  // The sender does not wait for it again, and other receivers are not delayed.
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), text);
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_congested), 2U);
  send_text(*one_, TestSubnet::lid(1), qp_of(*one_), "me");
  EXPECT_EQ(first_.next_text(), "me");
  stopped.release.unlock();
  two_->set_receiver(&second_);
  EXPECT_TRUE(eventually([&] {
    const auto dropped = counted(*one_, fabric::PortCounter::drop_congested);
    send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "again");
    return counted(*one_, fabric::PortCounter::drop_congested) == dropped;
  }));
  EXPECT_GT(second_.count_until("again"), 0U);
}

// Process slots.

TEST_F(EndpointTest, ARestartedProcessHasOtherQpns) {
  const Qpn before = qp_of(*two_);
  two_.reset();
  send_text(*one_, TestSubnet::lid(2), before, "?");
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_empty_slot), 1U);
  two_ = subnet_.attach(2);
  two_->set_receiver(&second_);
  EXPECT_EQ(two_->slot(), 0U);
  EXPECT_NE(qp_of(*two_), before);
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "welcome");
  EXPECT_EQ(second_.next_text(), "welcome");
}

TEST_F(EndpointTest, ReconnectsToARestartedProcess) {
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "first");
  EXPECT_EQ(second_.next_text(), "first");
  two_.reset();
  two_ = subnet_.attach(2);
  two_->set_receiver(&second_);
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "second");
  EXPECT_EQ(second_.next_text(), "second");
}

TEST_F(EndpointTest, AnHcaHasALimitOfProcesses) {
  std::vector<std::unique_ptr<Endpoint>> all;
  for (std::uint32_t i = 1; i < QpnLayout::kSlots; ++i) all.push_back(subnet_.attach(2));
  EXPECT_EQ(all.back()->slot(), QpnLayout::kSlots - 1);
  const auto more = Endpoint::attach_node(subnet_.folder(), 2);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, EBUSY);
  EXPECT_THAT(more.error().message, testing::HasSubstr("another HCA (softib run --hca)"));
}

TEST_F(EndpointTest, RefusesALinkedLockFile) {
  const test::TemporaryFolder elsewhere;
  const std::string precious = elsewhere / "precious";
  std::ofstream(precious) << "precious";
  std::filesystem::permissions(precious, std::filesystem::perms(0600));
  const std::string lock = subnet_.folder().slot_socket(2, 1) + ".lock";
  std::filesystem::create_symlink(precious, lock);
  EXPECT_FALSE(Endpoint::attach_node(subnet_.folder(), 2));
  std::filesystem::remove(lock);
  std::filesystem::create_hard_link(precious, lock);
  EXPECT_THAT(
      Endpoint::attach_node(subnet_.folder(), 2).error().message,
      testing::EndsWith(" with a single link: remove it; its files are not those of softib, or "
                        "it is the subnet of another user (softib list)"));
  EXPECT_EQ(std::filesystem::file_size(precious), 8U);
  EXPECT_EQ(std::filesystem::status(precious).permissions(), std::filesystem::perms(0600));
}

TEST_F(EndpointTest, AttachFailsWithoutANode) {
  const auto none = Endpoint::attach_node(subnet_.folder(), 9);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ENODEV);
}

TEST_F(EndpointTest, AttachesToTheGivenPortOnly) {
  ASSERT_EQ(subnet_.fabric().node(1)->port.number, 1);
  EXPECT_TRUE(Endpoint::attach(subnet_.folder(), "host1"));
  EXPECT_TRUE(Endpoint::attach(subnet_.folder(), "host1:1"));
  EXPECT_FALSE(Endpoint::attach(subnet_.folder(), "host1:2"));
}

TEST(DeepFolder, SocketPathsHaveNoLengthLimit) {
  const test::TemporaryFolder root;
  const fabric::SubnetFolder folder(root / (std::string(120, 'd') + "/subnet"));
  ASSERT_TRUE(folder.create());
  auto fabric = fabric::FabricWriter::create_or_adopt(folder.fabric());
  ASSERT_TRUE(fabric);
  subnet::Node node;
  node.name = "host1";
  node.port.lid = Lid(2);
  node.port.state = PortState::active;
  ASSERT_TRUE(folder.create_node(1));
  node.attachment = {0, 2};
  fabric->set_node(1, node);
  const subnet::SubnetConfig config;
  subnet::Switches switches(config);
  switches.connect(node.attachment, 1, {1, 1});
  switches[0].routes.set(node.port.lid, node.attachment.port);
  for (const auto& change : switches.take_changes()) fabric->set_switch(switches[0], change);
  auto endpoint = Endpoint::attach_node(folder, 1);
  ASSERT_TRUE(endpoint) << endpoint.error().message;
  Mailbox mailbox;
  (*endpoint)->set_receiver(&mailbox);
  send_text(**endpoint, Lid(2), qp_of(**endpoint), "deep");
  EXPECT_EQ(mailbox.next_text(), "deep");
  (*endpoint)->set_receiver(nullptr);
}

// Changes of the port.

TEST_F(EndpointTest, AWakeupReportsAPortChange) {
  const auto subnet = subnet_.attach(0);
  EXPECT_EQ(second_.next_port().state, PortState::active);
  subnet_.set_port_state(2, PortState::init);
  EXPECT_TRUE(subnet->wake_processes(2));
  EXPECT_EQ(second_.next_port().state, PortState::init);
  EXPECT_EQ(two_->first_port().state, PortState::init);
}

TEST_F(EndpointTest, APortChangeIsReportedWithoutAWakeup) {
  EXPECT_EQ(second_.next_port().reregister_count, 0U);
  auto node = *subnet_.fabric().node(2);
  node.port.reregister_count = 3;
  subnet_.fabric().set_node(2, node);
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "anything");
  EXPECT_EQ(second_.next_port().reregister_count, 3U);
}

TEST_F(EndpointTest, ARemovedNodeReportsItsPortDown) {
  EXPECT_EQ(second_.next_port().state, PortState::active);
  subnet_.fabric().remove_node(2);
  const auto subnet = subnet_.attach(0);
  EXPECT_TRUE(subnet->wake_processes(2));
  const auto now = second_.next_port();
  EXPECT_EQ(now.state, PortState::down);
  EXPECT_EQ(now.lid, Lid());
  EXPECT_EQ(now.port_guid, Guid(0x0002'c903'0000'0002ULL));
}

TEST_F(EndpointTest, ANewReceiverGetsEarlierPortChanges) {
  EXPECT_EQ(second_.next_port().state, PortState::active);
  two_->set_receiver(nullptr);
  const auto subnet = subnet_.attach(0);
  subnet_.set_port_state(2, PortState::init);
  EXPECT_TRUE(subnet->wake_processes(2));
  // Afterwards the engine has seen the change, without a receiver to report it to.
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "?");
  EXPECT_TRUE(
      eventually([&] { return counted(*one_, fabric::PortCounter::drop_port_not_active) == 1; }));
  Mailbox late;
  two_->set_receiver(&late);
  EXPECT_EQ(late.next_port().state, PortState::init);
  two_->set_receiver(nullptr);
}

TEST_F(EndpointTest, EachNewReceiverGetsThePort) {
  EXPECT_EQ(second_.next_port().state, PortState::active);
  Mailbox other;
  two_->set_receiver(&other);
  EXPECT_EQ(other.next_port().state, PortState::active);
  two_->set_receiver(&second_);
}

TEST_F(EndpointTest, CapturesTheSegmentsOfALargePacket) {
  const auto& root = subnet_.folder().path();
  capture(*one_, root + "/here");
  capture(*two_, root + "/there");
  const auto size = [&](const char* name) { return std::filesystem::file_size(root + name); };
  const auto empty = size("/here");
  const LargeUdpPacket packet(TestSubnet::lid(1), TestSubnet::lid(2), qp_of(*two_), 10);
  one_->send({&packet.outgoing(), 1});
  (void)second_.next_text();
  const auto ten = size("/there") - empty;
  EXPECT_GT(ten, 10 * 1060U);
  EXPECT_EQ(size("/here") - empty, ten);
  const LargeUdpPacket own(TestSubnet::lid(1), TestSubnet::lid(1), qp_of(*one_), 10);
  one_->send({&own.outgoing(), 1});
  (void)first_.next_text();
  EXPECT_EQ(size("/here") - empty, 2 * ten) << "captured as sent, not again as received";
  EXPECT_EQ(one_->try_send({&packet.outgoing(), 1}).done, 1U);
  EXPECT_EQ(size("/here") - empty, 3 * ten);
}

/// Processes of a node share its LID, and may have the same epoch.
TEST_F(EndpointTest, CapturesPacketsOfAnotherProcessOfTheNode) {
  const std::string file = subnet_.folder().path() + "/capture";
  const auto neighbour = subnet_.attach(1);
  capture(*neighbour, file);
  ASSERT_EQ(neighbour->epoch(), one_->epoch());
  Mailbox mailbox;
  neighbour->set_receiver(&mailbox);
  const auto empty = std::filesystem::file_size(file);
  send_text(*one_, TestSubnet::lid(1), qp_of(*neighbour), "from slot 0");
  EXPECT_EQ(mailbox.next_text(), "from slot 0");
  EXPECT_GT(std::filesystem::file_size(file), empty);
  neighbour->set_receiver(nullptr);
}

TEST_F(EndpointTest, KeepsItsSlotUntilTheEngineHasStopped) {
  struct Waiting : PacketReceiver {
    void receive(std::span<const ArrivedPacket>) override {
      entered = true;
      // Leaves the destructor much time to proceed.
      for (int i = 0; i < 2000 && fabric->occupied(2).any(); ++i) std::this_thread::yield();
      occupied_throughout = fabric->occupied(2).any();
    }
    void port_changed(const PortAttributes&) override {}
    const fabric::Fabric* fabric = nullptr;
    std::atomic<bool> entered = false;
    std::atomic<bool> occupied_throughout = false;
  } waiting;
  waiting.fabric = &subnet_.fabric();
  two_->set_receiver(&waiting);
  send_text(*one_, TestSubnet::lid(2), qp_of(*two_), "?");
  ASSERT_TRUE(eventually([&] { return waiting.entered.load(); }));
  delete two_.release();
  EXPECT_TRUE(waiting.occupied_throughout);
  EXPECT_EQ(subnet_.fabric().occupied(2), SlotSet());
  two_ = subnet_.attach(2);
}

/// Signals for the program are delivered to its own threads. A blocked SIGSEGV or SIGSYS would end
/// it without its handler.
TEST_F(EndpointTest, TheEngineBlocksAllSignalsButThoseThatItCauses) {
  std::size_t engines = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    std::uint64_t blocked = 0;
    std::string name;
    for (std::string word; status >> word;) {
      if (word == "Name:") status >> name;
      if (word == "SigBlk:") status >> std::hex >> blocked;
    }
    if (name != "softib") continue;
    ++engines;
    // A new thread starts with all signals blocked.
    EXPECT_TRUE(eventually([&] {
      std::ifstream again(task.path() / "status");
      for (std::string word; again >> word;) {
        if (word == "SigBlk:") again >> std::hex >> blocked;
      }
      return blocked != ~std::uint64_t{0} && (blocked >> (SIGBUS - 1) & 1) == 0;
    }));
    const auto is_blocked = [&](int signal) { return (blocked >> (signal - 1) & 1) != 0; };
    for (const int own : {SIGSEGV, SIGBUS, SIGSYS, SIGABRT}) EXPECT_FALSE(is_blocked(own)) << own;
    for (const int other : {SIGTERM, SIGINT, SIGUSR1}) EXPECT_TRUE(is_blocked(other)) << other;
  }
  EXPECT_GT(engines, 0U);
}

// Captures.

TEST(CaptureFileTest, RecordsAreThoseOfPcapAndErf) {
  const test::TemporaryFolder root;
  const std::string path = root / "capture";
  CaptureFile::open(path).value();  // writes the header, once
  auto file = CaptureFile::open(path).value();
  constexpr auto kWhen =
      std::chrono::seconds(1'700'000'000) + std::chrono::nanoseconds(123'456'789);
  file.add(std::vector<std::uint8_t>(100), Direction::received,
           CaptureFile::WallTime(
               std::chrono::duration_cast<std::chrono::system_clock::duration>(kWhen)));
  file.flush();
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> all(std::istreambuf_iterator<char>(in), {});
  const auto number = [&](std::size_t at, std::size_t size, bool is_little = false) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value = value << 8 | static_cast<std::uint8_t>(all.at(at + (is_little ? size - 1 - i : i)));
    }
    return value;
  };
  EXPECT_EQ(number(0, 8), 0xa1b2c3d4'0002'0004) << "magic number, version";
  EXPECT_EQ(number(8, 8), 0U);
  EXPECT_EQ(number(16, 8), 0x0000ffff'000000c5) << "longest packet, link type";
  EXPECT_EQ(number(24, 8), 1'700'000'000ULL << 32 | 123'456);
  EXPECT_EQ(number(32, 8), 122ULL << 32 | 122) << "with the header of ERF and both CRCs";
  EXPECT_EQ(number(40, 8, true), 1'700'000'000ULL << 32 | 0x1f9add37);
  EXPECT_EQ(number(48, 8), 0x15'05'007a'0000'006a) << "InfiniBand; varying length, interface 1";
  EXPECT_EQ(all.size(), 40U + 122);
}

TEST(CaptureFileTest, EndsAfterACompleteRecordWhenTheDiskIsFull) {
  const test::TemporaryFolder root;
  const std::string path = root / "capture";
  auto file = CaptureFile::open(path).value();
  const std::vector<std::uint8_t> packet(100);
  const auto add = [&](int count) {
    for (int i = 0; i < count; ++i) file.add(packet, Direction::sent, {});
    file.flush();
  };
  add(1);
  const auto one = std::filesystem::file_size(path);
  add(1);
  const auto record = std::filesystem::file_size(path) - one;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full{one + 3 * record + record / 2, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  testing::internal::CaptureStderr();
  add(4);
  add(1);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  add(1);  // the capture has ended
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("ulimit -f"), std::string::npos) << said;
  EXPECT_EQ(std::filesystem::file_size(path), one + 3 * record);
}

/// Whoever may read the file may lock it.
TEST(CaptureFileTest, DoesNotWaitForALockOfAnotherUser) {
  const test::TemporaryFolder root;
  const std::string path = root / "capture";
  const std::vector<std::uint8_t> packet(100);
  const ipoib::FileDescriptor made(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  const ipoib::FileDescriptor reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(reader.get(), LOCK_EX), 0);
  std::atomic<bool> is_done = false;
  std::thread program([&] {
    for (int i = 0; i < 2; ++i) {
      auto file = CaptureFile::open(path).value();
      file.add(packet, Direction::sent, {});
      file.flush();
    }
    is_done = true;
  });
  EXPECT_TRUE(eventually([&] { return is_done.load(); }));
  ASSERT_EQ(::flock(reader.get(), LOCK_UN), 0);
  program.join();
  EXPECT_EQ(std::filesystem::file_size(path), 24U + 2 * (16 + 16 + 100 + 6));
}

/// The reader ends, and later the HCA is restored, and the capture opened again.
TEST(CaptureFileTest, DoesNotWaitForAnotherReaderOfAPipe) {
  const test::TemporaryFolder root;
  const std::string path = root / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  ipoib::FileDescriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const ipoib::FileDescriptor kept(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const auto given = "/proc/self/fd/" + std::to_string(kept.get());
  std::atomic<int> opened = 0;
  const auto capture = [&] {
    auto file = CaptureFile::open(given).value();
    file.add(std::vector<std::uint8_t>(100), Direction::sent, {});
    file.flush();
    ++opened;
  };
  capture();
  std::array<std::uint8_t, 4096> buffer;
  EXPECT_EQ(::read(reader.get(), buffer.data(), buffer.size()), 16 + 16 + 100 + 6);
  reader.reset();
  std::thread program(capture);
  EXPECT_TRUE(eventually([&] { return opened == 2; }));
  reader.reset(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  program.join();
}

/// While a pipe is full, the program waits.
TEST(CaptureFileTest, WaitsForTheReaderOfAPipe) {
  const test::TemporaryFolder root;
  const std::string path = root / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const ipoib::FileDescriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const ipoib::FileDescriptor kept(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  constexpr int kPackets = 1000;  // more than the pipe has room for
  std::thread program([&] {
    auto file = CaptureFile::open("/proc/self/fd/" + std::to_string(kept.get())).value();
    for (int i = 0; i < kPackets; ++i) {
      file.add(std::vector<std::uint8_t>(1000), Direction::sent, {});
      file.flush();
    }
  });
  std::size_t bytes = 0;
  std::array<std::uint8_t, 4096> buffer;
  EXPECT_TRUE(eventually([&] {
    const auto more = ::read(reader.get(), buffer.data(), buffer.size());
    if (more > 0) bytes += static_cast<std::size_t>(more);
    return bytes == kPackets * (16 + 16 + 1000 + 6);
  })) << bytes;
  program.join();
}

/// Each finds it empty before one of them writes.
TEST(CaptureFileTest, HasOneHeaderHoweverManyProcessesBeginIt) {
  constexpr int kTimes = 200;
  for (int time = 0; time < kTimes; ++time) {
    const test::TemporaryFolder root;
    const std::string path = root / "capture";
    std::barrier start(2);
    const auto begin = [&] {
      start.arrive_and_wait();
      auto file = CaptureFile::open(path).value();
      file.add(std::vector<std::uint8_t>(100), Direction::sent, {});
      file.flush();
    };
    std::thread other(begin);
    begin();
    other.join();
    ASSERT_EQ(std::filesystem::file_size(path), 24U + 2 * (16 + 16 + 100 + 6));
  }
}

TEST(CaptureFileTest, NeverFollowsASymbolicLink) {
  const test::TemporaryFolder root;
  std::filesystem::create_symlink(root / "target", root / "capture");
  const auto file = CaptureFile::open(root / "capture");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ELOOP);
  EXPECT_FALSE(std::filesystem::exists(root / "target"));
}

TEST(CaptureFileTest, EmptiesNoFileBehindALink) {
  const test::TemporaryFolder root;
  std::filesystem::permissions(root.path(), std::filesystem::perms::all);  // like that of /tmp
  const auto fill = [](const std::string& path) {
    std::ofstream(path) << "a file of another user";
  };
  fill(root / "victim");
  fill(root / "capture");
  const auto before = std::filesystem::file_size(root / "victim");
  std::filesystem::create_symlink(root / "victim", root / "link");
  std::filesystem::create_hard_link(root / "victim", root / "hard");
  EXPECT_FALSE(CaptureFile::begin(root / "link"));
  EXPECT_FALSE(CaptureFile::begin(root / "hard"));
  EXPECT_EQ(std::filesystem::file_size(root / "victim"), before);
  EXPECT_TRUE(CaptureFile::begin(root / "capture"));
  EXPECT_EQ(std::filesystem::file_size(root / "capture"), std::size_t{24}) << "the file header";
}

// Process slots of a subnet that ends.

TEST_F(EndpointTest, TakesNoSlotOnceTheFabricFileIsReplaced) {
  auto fabric = fabric::Fabric::open(subnet_.folder().fabric()).value();
  ASSERT_EQ(::unlink(subnet_.folder().fabric().c_str()), 0);
  const auto gone = transport::ProcessSlot::take(subnet_.folder(), fabric, 2);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ENOENT);
  const auto another = fabric::FabricWriter::create_or_adopt(subnet_.folder().fabric());
  const auto stale = transport::ProcessSlot::take(subnet_.folder(), fabric, 2);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, ESTALE);
  EXPECT_THAT(stale.error().message,
              testing::MatchesRegex(
                  "cannot attach to the HCA in .*: the subnet has just ended: start it again"));
}

/// The subnet process names a node that is another one each time.
TEST_F(EndpointTest, DoesNotFollowAnHcaThatKeepsChanging) {
  const ipoib::FileDescriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto path = ipoib::UnixPath::of(subnet_.folder().control()).value();
  ASSERT_EQ(::bind(listener.get(), path.address(), ipoib::UnixPath::size()), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);
  std::thread process([&] {
    for (;;) {
      const ipoib::FileDescriptor client(::accept(listener.get(), nullptr, nullptr));
      if (!client) return;
      std::array<char, 256> request{};
      (void)!::recv(client.get(), request.data(), request.size(), 0);
      (void)!::send(client.get(), "node 2\n", 7, MSG_NOSIGNAL);
    }
  });
  const auto attached = Endpoint::attach(subnet_.folder(), "changing");
  (void)::shutdown(listener.get(), SHUT_RDWR);
  process.join();
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code, EBUSY);
  EXPECT_EQ(attached.error().message, "the HCA 'changing' keeps changing: try again");
}

/// Every process of the subnet may open the file for writing, and so lock it.
TEST_F(EndpointTest, DoesNotWaitForEverToTakeASlot) {
  auto locked = fabric::block_attach(subnet_.folder()).value();
  auto fabric = fabric::Fabric::open(subnet_.folder().fabric()).value();
  std::optional<ipoib::Result<transport::ProcessSlot>> slot;
  std::atomic<bool> is_done = false;
  std::thread program([&] {
    slot.emplace(transport::ProcessSlot::take(subnet_.folder(), fabric, 2));
    is_done = true;
  });
  EXPECT_TRUE(eventually([&] { return is_done.load(); }));
  locked.reset();
  program.join();
  ASSERT_FALSE(*slot);
  EXPECT_EQ(slot->error().code, EBUSY);
  EXPECT_THAT(slot->error().message,
              testing::EndsWith("another process keeps the subnet locked: lslocks shows which"));
}

// MADs.

MadPacket make_mad(NodeIndex from, NodeIndex to, std::uint8_t management_class, std::uint8_t method,
                   std::uint64_t transaction_id) {
  MadPacket packet;
  packet.slid = TestSubnet::lid(from);
  packet.dlid = TestSubnet::lid(to);
  const bool smp = is_smp(management_class);
  packet.source = packet.destination = Qpn(smp ? 0 : 1);
  packet.qkey = smp ? QKey(0) : ipoib::wire::kGsiQKey;
  ipoib::wire::MadHeader header;
  header.management_class = management_class;
  header.class_version = 1;
  header.method = method;
  header.transaction_id = transaction_id;
  header.emit(packet.mad);
  return packet;
}

void send_mad(Endpoint& from, const MadPacket& packet) {
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  from.send_mad(1, packet.emit(bytes));
}

class MadTest : public EndpointTest {
 protected:
  MadTest() {
    sm_->add_mad_receiver(sm_mail_);
    two_->add_mad_receiver(second_);
  }
  ~MadTest() override {
    sm_->remove_mad_receiver(sm_mail_);
    two_->remove_mad_receiver(second_);
  }
  static std::uint64_t transaction(Mailbox& mailbox) {
    const auto packet = MadPacket::parse(mailbox.next_mad());
    return ipoib::wire::MadHeader::parse(packet->mad)->transaction_id;
  }
  /// A transaction ID of the process.
  static std::uint64_t id(const Endpoint& of) {
    return std::uint64_t{MadRoute{of.node(), of.slot(), of.epoch(), 4}.high_half()} << 32 | 1;
  }
  std::unique_ptr<Endpoint> sm_ = subnet_.attach(0);
  Mailbox sm_mail_;
};

constexpr std::uint8_t kGet = ipoib::wire::method::kGet;
constexpr std::uint8_t kGetResp = ipoib::wire::method::kGetResp;

TEST_F(MadTest, SaRequestsGoToTheSubnetProcess) {
  send_mad(*one_, make_mad(1, 0, 0x03, kGet, 5));
  EXPECT_EQ(transaction(sm_mail_), 5U);
}

TEST_F(MadTest, SmpsForEveryNodeGoToTheSubnetProcess) {
  send_mad(*one_, make_mad(1, 2, 0x01, kGet, 6));
  EXPECT_EQ(transaction(sm_mail_), 6U);
  auto directed = make_mad(1, 2, 0x81, kGet, 7);
  directed.dlid = ipoib::kPermissiveLid;
  send_mad(*one_, directed);
  EXPECT_EQ(transaction(sm_mail_), 7U);
}

TEST_F(MadTest, CablesDelayThem) {
  using std::chrono::milliseconds;
  subnet_.set_cable_faults(1, {0, 30});
  const auto begun = ipoib::monotonic_now();
  send_mad(*one_, make_mad(1, 2, ipoib::wire::mgmt_class::kSubnAdm, kGetResp, id(*two_)));
  EXPECT_EQ(transaction(second_), id(*two_));
  EXPECT_GE(ipoib::monotonic_now() - begun, milliseconds(30));
  EXPECT_EQ(counted(*one_, fabric::PortCounter::sent_packets), 1U);
}

/// Communication management of a process, which takes all of class 7 or nothing.
struct CmMailbox final : MadReceiver, ProcessWatcher {
  void attach(Endpoint& endpoint) {
    endpoint.add_mad_receiver(*this, {ipoib::wire::mgmt_class::kCommMgt});
    endpoint.set_process_watcher(this);
  }
  void detach(Endpoint& endpoint) {
    endpoint.remove_mad_receiver(*this);
    endpoint.set_process_watcher(nullptr);
  }
  bool receive_mad(const MadPacket& packet) override {
    EXPECT_TRUE(ipoib::wire::CmMad::parse(packet.mad)) << "it is registered for class 7 only";
    return takes && inbox.receive_mad(packet);
  }
  void mad_deadline(ipoib::TimePoint now) override { inbox.mad_deadline(now); }
  void connection_ended(const RemoteProcess& process) override {
    last_ended = process;
    has_ended = true;
  }
  void device_lost() override { inbox.device_lost(); }

  std::atomic<bool> takes = true;
  Mailbox inbox;
  RemoteProcess last_ended;  ///< to be read after `has_ended`
  std::atomic<bool> has_ended = false;
};

/// Node 2 has two processes with communication management, and `two_` is the first one.
class CmTest : public MadTest {
 protected:
  CmTest() {
    cm_.attach(*two_);
    neighbour_->add_mad_receiver(third_);
    neighbour_cm_.attach(*neighbour_);
  }
  ~CmTest() override {
    cm_.detach(*two_);
    neighbour_cm_.detach(*neighbour_);
    neighbour_->remove_mad_receiver(third_);
  }
  void send(const ipoib::wire::CmMessage& message, std::uint64_t id) {
    MadPacket packet = make_mad(1, 2, ipoib::wire::mgmt_class::kCommMgt, 0, 0);
    ipoib::wire::CmMad{id, message}.emit(packet.mad);
    send_mad(*one_, packet);
  }
  [[nodiscard]] static CommId id_of(const Endpoint& endpoint) {
    return CommIdLayout::make(endpoint.epoch(), endpoint.slot(), 5);
  }
  /// A lock of the node's folder, as a process holds it.
  [[nodiscard]] ipoib::FileDescriptor open_locks(const char* name) const {
    return fabric::open_shared(subnet_.folder().open_node(2)->get(), name,
                               fabric::IfMissing::create)
        .value();
  }
  [[nodiscard]] static ipoib::wire::CmReq req() {
    ipoib::wire::CmReq one;
    one.local_id = CommId(3);
    one.service_id = kService;
    return one;
  }

  static constexpr ipoib::wire::ServiceId kService{0x0106'1234};
  CmMailbox cm_;
  CmMailbox neighbour_cm_;
  Mailbox third_;
  std::unique_ptr<Endpoint> neighbour_ = subnet_.attach(2);
};

TEST_F(CmTest, ARequestReachesTheListenersOfTheNode) {
  const auto services = open_locks(fabric::kServicesName);
  ASSERT_TRUE(fabric::lock_service(services.get(), kService));
  neighbour_cm_.takes = false;
  send(req(), 1);
  EXPECT_EQ(transaction(cm_.inbox), 1U);
  EXPECT_EQ(transaction(third_), 1U) << "what it does not take is for agents";
  ipoib::wire::CmSidrReq sidr;
  sidr.service_id = kService;
  send(sidr, 2);
  EXPECT_EQ(transaction(cm_.inbox), 2U);
}

TEST_F(CmTest, TheSubnetProcessGetsRequestsThatNobodyListensFor) {
  send(req(), 3);
  EXPECT_EQ(transaction(sm_mail_), 3U);
  ipoib::wire::CmSidrReq sidr;
  sidr.service_id = kService;
  send(sidr, 4);
  EXPECT_EQ(transaction(sm_mail_), 4U);
}

TEST_F(CmTest, AMessageReachesTheProcessOfItsConnection) {
  ipoib::wire::CmRtu rtu;
  rtu.remote_id = id_of(*neighbour_);
  send(rtu, 5);
  EXPECT_EQ(transaction(neighbour_cm_.inbox), 5U);
  rtu.remote_id = id_of(*two_);
  send(rtu, 6);
  EXPECT_EQ(transaction(cm_.inbox), 6U);
}

TEST_F(CmTest, TheSubnetProcessGetsMessagesOfConnectionsThatHaveGone) {
  ipoib::wire::CmDreq dreq;
  dreq.remote_id = CommIdLayout::make(two_->epoch() + 1, two_->slot(), 5);
  send(dreq, 7);
  EXPECT_EQ(transaction(sm_mail_), 7U) << "another epoch";
  dreq.remote_id = CommIdLayout::make(two_->epoch(), 60, 5);
  send(dreq, 8);
  EXPECT_EQ(transaction(sm_mail_), 8U) << "no process has the slot";
}

TEST_F(CmTest, ARejectionWithoutIdReachesAllProcesses) {
  send(ipoib::wire::CmRej{}, 9);
  EXPECT_EQ(transaction(cm_.inbox), 9U);
  EXPECT_EQ(transaction(neighbour_cm_.inbox), 9U);
}

TEST_F(CmTest, AnAgentGetsMessagesForNobodyElse) {
  const auto agents = open_locks(fabric::kAgentsName);
  ASSERT_TRUE(fabric::try_lock(agents.get(), fabric::agent_lock_offset(2, 7, 3)));
  cm_.takes = neighbour_cm_.takes = false;
  send(req(), 10);
  EXPECT_EQ(transaction(second_), 10U);
  EXPECT_EQ(transaction(third_), 10U);
  ipoib::wire::CmRtu rtu;
  rtu.remote_id = CommId(77);
  send(rtu, 11);
  EXPECT_EQ(transaction(second_), 11U);
  EXPECT_EQ(transaction(third_), 11U);
  rtu.remote_id = id_of(*neighbour_);
  send(rtu, 12);
  EXPECT_EQ(transaction(third_), 12U);
}

TEST_F(CmTest, TheDeadlineOfCommunicationManagementIsItsOwn) {
  const auto now = ipoib::monotonic_now();
  two_->set_mad_deadline(second_, now + std::chrono::hours(1));
  two_->set_mad_deadline(cm_, now);
  EXPECT_GE(cm_.inbox.next_deadline(), now);
  const auto later = ipoib::monotonic_now();
  two_->set_mad_deadline(second_, later);
  EXPECT_GE(second_.next_deadline(), later) << "it had not come before";
}

TEST_F(CmTest, TheLossOfTheDeviceIsReported) {
  subnet_.set_failed(2, true);
  ASSERT_TRUE(one_->wake_processes(2));
  EXPECT_TRUE(eventually([&] { return cm_.inbox.is_device_lost(); }));
}

/// The REQ makes both ends notice when the other one ends.
TEST_F(CmTest, TheEndOfAProcessIsReportedToItsPeers) {
  CmMailbox active;
  active.attach(*one_);
  const auto services = open_locks(fabric::kServicesName);
  ASSERT_TRUE(fabric::lock_service(services.get(), kService));
  auto request = req();
  request.local_id = id_of(*one_);
  send(request, 13);
  EXPECT_EQ(transaction(cm_.inbox), 13U);
  EXPECT_EQ(transaction(neighbour_cm_.inbox), 13U);
  const RemoteProcess passive{2, neighbour_->slot(), neighbour_->epoch()};
  EXPECT_TRUE(one_->is_running(passive));
  neighbour_->detach();
  ASSERT_TRUE(eventually([&] { return active.has_ended.load(); }));
  EXPECT_EQ(active.last_ended, passive);
  EXPECT_FALSE(one_->is_running(passive));
  const RemoteProcess other{1, one_->slot(), one_->epoch()};
  EXPECT_TRUE(two_->is_running(other));
  EXPECT_FALSE(two_->is_running({1, one_->slot(), one_->epoch() + 1}));
  one_->detach();
  ASSERT_TRUE(eventually([&] { return cm_.has_ended.load(); }));
  EXPECT_EQ(cm_.last_ended, other);
  active.detach(*one_);
}

TEST_F(MadTest, AResponseReachesTheRequester) {
  Mailbox third;
  const auto neighbour = subnet_.attach(2);
  neighbour->add_mad_receiver(third);
  send_mad(*sm_, make_mad(0, 2, 0x03, kGetResp, id(*neighbour)));
  EXPECT_EQ(transaction(third), id(*neighbour));
  send_mad(*one_, make_mad(1, 2, 0x04, kGetResp, id(*two_)));
  EXPECT_EQ(transaction(second_), id(*two_));
  EXPECT_EQ(MadRoute::of(id(*two_)).epoch, two_->epoch());
  EXPECT_EQ(MadRoute::of(id(*two_)).agent, 4U);
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_congested), 0U);
  neighbour->remove_mad_receiver(third);
}

TEST_F(MadTest, AnSmpResponseReachesARequesterWithoutALid) {
  const auto id = std::uint64_t{MadRoute{2, two_->slot(), two_->epoch(), 1}.high_half()} << 32;
  auto response = make_mad(0, 2, 0x81, kGetResp, id);
  response.dlid = Lid();
  send_mad(*sm_, response);
  EXPECT_EQ(transaction(second_), id);
}

TEST_F(MadTest, TheSubnetProcessForwardsARequest) {
  auto request = make_mad(1, 2, 0x81, kGet, 10);
  request.dlid = ipoib::kPermissiveLid;
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  sm_->send_mad_to(2, request.emit(bytes));
  EXPECT_EQ(transaction(second_), 10U);
}

TEST_F(MadTest, ARequestReachesEveryProcessOfTheNode) {
  Mailbox third;
  const auto neighbour = subnet_.attach(2);
  neighbour->add_mad_receiver(third);
  send_mad(*one_, make_mad(1, 2, 0x05, kGet, 8));
  EXPECT_EQ(transaction(second_), 8U);
  EXPECT_EQ(transaction(third), 8U);
  neighbour->remove_mad_receiver(third);
}

TEST_F(MadTest, RequestsForCountersGoToTheSubnetProcess) {
  send_mad(*one_, make_mad(1, 2, ipoib::wire::mgmt_class::kPerf, kGet, 9));
  EXPECT_EQ(transaction(sm_mail_), 9U);
}

TEST_F(MadTest, CountsWrongKeysAtThePortThatAMadIsFor) {
  Mailbox third;
  const auto neighbour = subnet_.attach(2);  // a request is for both processes
  neighbour->add_mad_receiver(third);
  auto wrong = make_mad(1, 2, 0x05, kGet, 1);
  wrong.qkey = QKey(7);
  send_mad(*one_, wrong);
  wrong = make_mad(1, 2, 0x05, kGet, 2);
  wrong.pkey = PKey(0x8013);
  send_mad(*one_, wrong);
  send_mad(*one_, make_mad(1, 2, 0x05, kGet, 3));
  EXPECT_EQ(transaction(second_), 3U);
  EXPECT_EQ(transaction(third), 3U);
  for (const auto* const of : {two_.get(), neighbour.get()}) {
    EXPECT_EQ(of->violations(1, CheckedKey::qkey), 1U);
    EXPECT_EQ(of->violations(1, CheckedKey::pkey), 1U);
  }
  EXPECT_EQ(one_->violations(1, CheckedKey::qkey), 0U);
  EXPECT_EQ(counted(*two_, fabric::PortCounter::drop_qkey), 1U);
  EXPECT_EQ(counted(*two_, fabric::PortCounter::drop_pkey), 1U);
  const auto last = subnet_.fabric().last_violation(2, CheckedKey::pkey);
  ASSERT_TRUE(last);
  EXPECT_EQ(*last, key_violation(wrong, 0x8013));
  neighbour->remove_mad_receiver(third);
}

TEST_F(MadTest, DropsWhatIsForAnotherGid) {
  auto node = subnet_.fabric().node(2).value();
  auto mad = make_mad(1, 2, 0x05, kGet, 1);
  mad.grh.emplace().dgid = Gid(Gid::kLinkLocalPrefix, Guid(0x43));
  send_mad(*one_, mad);
  EXPECT_EQ(counted(*two_, fabric::PortCounter::drop_malformed), 1U);
  node.port.grh_required = true;
  subnet_.fabric().set_node(2, node);
  send_mad(*one_, make_mad(1, 2, 0x05, kGet, 2));
  EXPECT_EQ(counted(*two_, fabric::PortCounter::drop_malformed), 2U) << "without a GRH";
  mad.grh->dgid = node.port.gid();
  send_mad(*one_, mad);
  EXPECT_EQ(transaction(second_), 1U);
}

TEST_F(MadTest, AnInactivePortPassesSmpsOnly) {
  subnet_.set_port_state(1, PortState::init);
  send_mad(*one_, make_mad(1, 0, 0x03, kGet, 1));
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_port_not_active), 1U);
  send_mad(*one_, make_mad(1, 0, 0x01, kGet, 2));
  EXPECT_EQ(transaction(sm_mail_), 2U);
  subnet_.set_port_state(1, PortState::down);
  send_mad(*one_, make_mad(1, 0, 0x01, kGet, 3));
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_port_not_active), 2U);
  send_mad(*one_, make_mad(1, 1, 0x01, kGet, 4));  // from the node to itself
  EXPECT_EQ(transaction(sm_mail_), 4U);
  auto directed = make_mad(1, 0, 0x81, kGet, 5);
  directed.dlid = ipoib::kPermissiveLid;
  constexpr std::size_t kHopCount = 7;
  ASSERT_EQ(directed.mad[kHopCount], 0);
  send_mad(*one_, directed);
  EXPECT_EQ(transaction(sm_mail_), 5U) << "without a hop";
  directed.mad[kHopCount] = 1;
  send_mad(*one_, directed);
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_port_not_active), 3U);
}

TEST_F(MadTest, CountsMadsThatNobodyGets) {
  two_.reset();
  send_mad(*one_, make_mad(1, 2, 0x05, kGet, 8));
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_mad_no_agent), 1U);
  two_ = subnet_.attach(2);
}

TEST_F(MadTest, CountsMalformedMads) {
  const std::array<std::uint8_t, 20> garbage{};
  one_->send_mad(1, garbage);
  EXPECT_EQ(counted(*one_, fabric::PortCounter::drop_malformed), 1U);
}

TEST_F(MadTest, AQueuePairMaySendToTheGsi) {
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  auto mad = make_mad(1, 0, 0x03, kGet, 9);
  OutgoingPacket packet;
  packet.add(mad.emit(bytes));
  packet.dlid = TestSubnet::lid(0);
  packet.destination = Qpn(1);
  one_->send({&packet, 1});
  EXPECT_EQ(transaction(sm_mail_), 9U);

  mad.grh.emplace().dgid = ipoib::Gid(1, ipoib::Guid(2));
  OutgoingPacket global;
  global.add(mad.emit(bytes));
  global.dlid = packet.dlid;
  global.destination = packet.destination;
  one_->send({&global, 1});
  EXPECT_EQ(transaction(sm_mail_), 9U) << "with a GRH";
}

TEST_F(MadTest, ADeadlineIsReportedOnce) {
  const auto when = ipoib::monotonic_now() + std::chrono::milliseconds(1);
  one_->set_mad_deadline(first_, when);
  EXPECT_GE(first_.next_deadline(), when);
  one_->set_mad_deadline(first_, ipoib::TimePoint());  // in the past
  EXPECT_GE(first_.next_deadline(), when);
}

}  // namespace
}  // namespace softib::endpoint
