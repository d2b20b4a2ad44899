// An endpoint on an HCA with two ports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>

#include "packets.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "test_subnet.hpp"

namespace softib::endpoint {
namespace {

using test::Mailbox;
using test::TestSubnet;
using test::TextPacket;

/// Stores the ports at which packets and MADs arrive.
class Arrivals final : public PacketReceiver, public MadReceiver {
 public:
  void receive(std::span<const ArrivedPacket> batch) override {
    for (const auto& packet : batch) add(packet.port);
  }
  bool receive_mad(const MadPacket& packet) override {
    add(packet.port);
    return true;
  }
  void port_changed(const PortAttributes& now) override {
    const std::lock_guard lock(mutex_);
    changes_.push_back(now);
    changed_.notify_all();
  }
  /// The next one; 0 if none comes.
  unsigned next() { return take(ports_); }
  PortAttributes next_change() { return take(changes_); }

 private:
  void add(std::uint8_t port) {
    const std::lock_guard lock(mutex_);
    ports_.push_back(port);
    changed_.notify_all();
  }
  template <class T>
  T take(std::deque<T>& from) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, Mailbox::kTimeout, [&] { return !from.empty(); })) return {};
    T first = from.front();
    from.pop_front();
    return first;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::uint8_t> ports_;
  std::deque<PortAttributes> changes_;
};

/// Node 2 is the second port of host1; host3 has one port.
class TwoPortsTest : public testing::Test {
 protected:
  TwoPortsTest() {
    subnet_.join_ports(1, 2);
    both_ = subnet_.attach(1);
    far_ = subnet_.attach(3);
    both_->set_receiver(&arrivals_);
    both_->add_mad_receiver(arrivals_);
    far_->set_receiver(&far_arrivals_);
    far_->add_mad_receiver(far_arrivals_);
  }
  ~TwoPortsTest() override {
    for (auto* const each : {both_.get(), far_.get()}) each->set_receiver(nullptr);
    both_->remove_mad_receiver(arrivals_);
    far_->remove_mad_receiver(far_arrivals_);
  }
  static void send(Endpoint& from, std::uint8_t port, Lid dlid, const Endpoint& to) {
    const bool is_group = ipoib::is_multicast(dlid);
    const auto qpn = is_group ? ipoib::kMulticastQpn : QpnLayout::make(to.epoch(), to.slot(), 1);
    const TextPacket packet(from.ports()[port].lid, dlid, qpn, "text");
    OutgoingPacket out = packet.outgoing();
    out.port = port;
    from.send({&out, 1});
  }
  [[nodiscard]] std::uint64_t counted(NodeIndex node, fabric::PortCounter counter) {
    return subnet_.fabric().counters(node)[static_cast<std::size_t>(counter)];
  }

  static constexpr Lid kGroup{0xc000};
  TestSubnet subnet_{3};
  Arrivals arrivals_;
  Arrivals far_arrivals_;
  std::unique_ptr<Endpoint> both_;
  std::unique_ptr<Endpoint> far_;
};

TEST_F(TwoPortsTest, KnowsBothPorts) {
  const auto ports = both_->ports();
  ASSERT_EQ(ports.count(), 2);
  EXPECT_EQ(ports[1].lid, TestSubnet::lid(1));
  EXPECT_EQ(ports[2].lid, TestSubnet::lid(2));
  EXPECT_EQ(both_->node(), 1);
  EXPECT_EQ(both_->node_of(1), 1);
  EXPECT_EQ(both_->node_of(2), 2);
  EXPECT_EQ(Endpoint::attach(subnet_.folder(), "host1:2").value()->node(), 1);
}

TEST_F(TwoPortsTest, APacketArrivesAtThePortOfItsLid) {
  send(*far_, 1, TestSubnet::lid(1), *both_);
  EXPECT_EQ(arrivals_.next(), 1U);
  send(*far_, 1, TestSubnet::lid(2), *both_);
  EXPECT_EQ(arrivals_.next(), 2U);
  send(*both_, 1, TestSubnet::lid(2), *both_);
  EXPECT_EQ(arrivals_.next(), 2U) << "from the other port";
}

TEST_F(TwoPortsTest, EachPortCounts) {
  using fabric::PortCounter;
  send(*both_, 2, TestSubnet::lid(3), *far_);
  EXPECT_EQ(far_arrivals_.next(), 1U);
  EXPECT_EQ(counted(1, PortCounter::sent_packets), 0U);
  EXPECT_EQ(counted(2, PortCounter::sent_packets), 1U);
  send(*far_, 1, TestSubnet::lid(2), *both_);
  EXPECT_EQ(arrivals_.next(), 2U);
  EXPECT_EQ(counted(1, PortCounter::received_packets), 0U);
  EXPECT_EQ(counted(2, PortCounter::received_packets), 1U);
}

TEST_F(TwoPortsTest, OnePortIsDownWithoutTheOther) {
  EXPECT_EQ(arrivals_.next_change().number, 1);
  EXPECT_EQ(arrivals_.next_change().number, 2);
  subnet_.set_port_state(2, PortState::down);
  ASSERT_TRUE(far_->wake_processes(2)) << "its processes are those of node 1";
  const auto change = arrivals_.next_change();
  EXPECT_EQ(change.number, 2);
  EXPECT_EQ(change.state, PortState::down);
  using fabric::PortCounter;
  send(*both_, 2, TestSubnet::lid(3), *far_);
  EXPECT_EQ(counted(2, PortCounter::drop_port_not_active), 1U);
  send(*far_, 1, TestSubnet::lid(2), *both_);
  EXPECT_EQ(counted(3, PortCounter::drop_port_not_active), 1U);
  send(*both_, 1, TestSubnet::lid(3), *far_);
  EXPECT_EQ(far_arrivals_.next(), 1U);
}

TEST_F(TwoPortsTest, EachPortInAGroupGetsACopy) {
  subnet_.set_group(kGroup, {1, 2, 3});
  send(*far_, 1, kGroup, *both_);
  EXPECT_EQ(arrivals_.next() + arrivals_.next(), 1U + 2U);
  EXPECT_EQ(far_arrivals_.next(), 1U);
  subnet_.set_group(kGroup, {2});
  send(*both_, 1, kGroup, *both_);
  EXPECT_EQ(arrivals_.next(), 2U);
}

TEST_F(TwoPortsTest, AMadArrivesAtAPort) {
  MadPacket packet;
  packet.slid = TestSubnet::lid(3);
  packet.source = packet.destination = ipoib::wire::kGsiQpn;
  packet.qkey = ipoib::wire::kGsiQKey;
  ipoib::wire::MadHeader header;
  header.management_class = 0x09;
  header.class_version = 1;
  header.method = ipoib::wire::method::kGet;
  header.emit(packet.mad);
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  for (const unsigned port : {1U, 2U}) {
    packet.dlid = TestSubnet::lid(static_cast<NodeIndex>(port));
    far_->send_mad(1, packet.emit(bytes));
    EXPECT_EQ(arrivals_.next(), port);
    far_->send_mad_to(static_cast<NodeIndex>(port), packet.emit(bytes));
    EXPECT_EQ(arrivals_.next(), port);
  }
}

TEST_F(TwoPortsTest, EachLinkHasItsFaults) {
  LinkFaults faults;
  faults.loss = LinkFaults::kAlways;
  subnet_.set_faults(2, faults);
  ASSERT_TRUE(far_->wake_processes(1));
  EXPECT_TRUE(test::eventually([&] {
    send(*both_, 2, TestSubnet::lid(3), *far_);
    return counted(2, fabric::PortCounter::drop_link_fault) > 0;
  }));
  EXPECT_TRUE(test::eventually([&] {
    return counted(2, fabric::PortCounter::sent_packets) ==
           counted(3, fabric::PortCounter::received_packets);
  })) << "what was sent before the link had faults";
  const auto received = counted(3, fabric::PortCounter::received_packets);
  send(*both_, 1, TestSubnet::lid(3), *far_);
  EXPECT_TRUE(test::eventually(
      [&] { return counted(3, fabric::PortCounter::received_packets) == received + 1; }));
  EXPECT_EQ(counted(1, fabric::PortCounter::drop_link_fault), 0U);
}

}  // namespace
}  // namespace softib::endpoint
