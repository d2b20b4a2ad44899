// A link with faults, by itself and below an endpoint.
#include "softib/endpoint/faulty_link.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>

#include "packets.hpp"
#include "softib/core/mad_packet.hpp"
#include "test_subnet.hpp"
#include "wire/cm_messages.hpp"

namespace softib::endpoint {
namespace {

using test::eventually;
using test::LargeUdpPacket;
using test::Mailbox;
using test::send_text;
using test::TestSubnet;

WirePacket numbered(std::uint8_t number) {
  WirePacket packet;
  packet.bytes = {number};
  return packet;
}

class FaultyLinkTest : public ::testing::Test {
 protected:
  std::vector<unsigned> sent() {
    const std::lock_guard lock(mutex_);
    return sent_;
  }
  void send(const LinkFaults& faults, unsigned count) {
    for (unsigned i = 0; i < count; ++i) send(faults, numbered(static_cast<std::uint8_t>(i)));
  }
  void send(const LinkFaults& faults, WirePacket packet) {
    link_.set(faults);
    link_.send(std::move(packet));
  }

  std::mutex mutex_;
  std::vector<unsigned> sent_;
  std::atomic<unsigned> lost_ = 0;
  std::atomic<unsigned> duplicated_ = 0;
  FaultyLink link_{[this](const WirePacket& packet) {
                     const std::lock_guard lock(mutex_);
                     sent_.push_back(packet.bytes[0]);
                   },
                   [this](FaultyLink::Event event) {
                     ++(event == FaultyLink::Event::lost ? lost_ : duplicated_);
                   },
                   7};
};

std::vector<unsigned> up_to(unsigned count) {
  std::vector<unsigned> numbers(count);
  for (unsigned i = 0; i < count; ++i) numbers[i] = i;
  return numbers;
}

TEST_F(FaultyLinkTest, WithoutFaultsSendsAtOnce) {
  send({}, 100);
  EXPECT_EQ(sent(), up_to(100));
}

TEST_F(FaultyLinkTest, LosesTheGivenShare) {
  send({.loss = LinkFaults::kAlways}, 100);
  EXPECT_EQ(sent().size(), 0U);
  EXPECT_EQ(lost_, 100U);
  for (int i = 0; i < 100; ++i) send({.loss = 1000}, 100);
  EXPECT_EQ(sent().size() + lost_ - 100, 10'000U);
  // Ten standard deviations of 30.
  EXPECT_NEAR(lost_ - 100.0, 1000, 300);
}

TEST_F(FaultyLinkTest, LosesNoMoreThanASmallShare) {
  for (int i = 0; i < 2000; ++i) send({.loss = 1}, 100);
  // Four standard deviations; one step more would lose twice as many.
  EXPECT_NEAR(lost_, 20, 18);
}

/// A MAD of a class to QP1.
WirePacket mad_of_class(std::uint8_t management_class) {
  MadPacket mad;
  mad.destination = ipoib::wire::kGsiQpn;
  ipoib::wire::MadHeader header;
  header.management_class = management_class;
  header.emit(mad.mad);
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> buffer{};
  const auto bytes = mad.emit(buffer);
  WirePacket packet;
  packet.kind = WirePacket::Kind::mad;
  packet.bytes.assign(bytes.begin(), bytes.end());
  return packet;
}

TEST_F(FaultyLinkTest, LosesMessagesOfCommunicationManagementOnly) {
  const LinkFaults always{.cm_loss = LinkFaults::kAlways};
  send(always, 10);
  send(always, mad_of_class(ipoib::wire::mgmt_class::kSubnAdm));
  EXPECT_EQ(sent().size(), 11U);
  EXPECT_EQ(lost_, 0U);
  for (int i = 0; i < 10; ++i) {
    send(always, mad_of_class(ipoib::wire::mgmt_class::kCommMgt));
  }
  EXPECT_EQ(sent().size(), 11U);
  EXPECT_EQ(lost_, 10U);
  for (int i = 0; i < 1000; ++i) {
    send({.cm_loss = 5000}, mad_of_class(ipoib::wire::mgmt_class::kCommMgt));
  }
  EXPECT_NEAR(lost_ - 10.0, 500, 160) << "ten standard deviations";
}

TEST_F(FaultyLinkTest, Duplicates) {
  send({.duplicate = LinkFaults::kAlways}, 3);
  EXPECT_THAT(sent(), testing::ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_EQ(duplicated_, 3U);
}

TEST_F(FaultyLinkTest, DelayKeepsTheOrder) {
  send({.delay = 1}, 100);
  EXPECT_TRUE(eventually([&] { return sent().size() == 100; }));
  EXPECT_EQ(sent(), up_to(100));
}

TEST_F(FaultyLinkTest, APacketIsHeldForItsTime) {
  send({.delay = LinkFaults::kMaxDelay}, numbered(0));
  for (std::uint8_t i = 1; i <= 10; ++i) {
    send({.delay = 1}, numbered(i));
    EXPECT_TRUE(eventually([&] { return !sent().empty() && sent().back() == i; }));
  }
  EXPECT_THAT(sent(), testing::Not(testing::Contains(0U)));
}

TEST_F(FaultyLinkTest, ReorderedPacketsAreOvertaken) {
  std::size_t count = 0;
  // It is held for some milliseconds, in which this thread may not have run.
  EXPECT_TRUE(eventually([&] {
    send({.reorder = LinkFaults::kAlways}, numbered(0));
    send({}, numbered(1));
    count += 2;
    EXPECT_TRUE(eventually([&] { return sent().size() == count; }));
    return sent().back() == 0;
  }));
  send({.reorder = 5000, .delay = 1}, 100);
  EXPECT_TRUE(eventually([&] { return sent().size() == count + 100; }));
  EXPECT_EQ(lost_, 0U);
}

TEST_F(FaultyLinkTest, HoldsABoundedNumber) {
  const LinkFaults faults{.delay = LinkFaults::kMaxDelay};
  for (std::size_t i = 0; i < kMaxHeldPackets + 5; ++i) send(faults, numbered(0));
  EXPECT_EQ(lost_, 5U);
  link_.stop();
  EXPECT_EQ(sent().size(), 0U);
  send(faults, numbered(0));
  EXPECT_EQ(lost_, 6U) << "after stop() nothing is held";
}

/// The packets, in order, which are not corrupt.
std::vector<bool> fates(std::uint32_t seed, std::uint64_t own_seed) {
  std::vector<bool> fates;
  FaultyLink link(
      [&](const WirePacket& packet) { fates.push_back(has_valid_icrc(packet.with_icrc)); },
      [](FaultyLink::Event) {}, own_seed);
  link.set({.corrupt = 3000, .seed = seed});
  for (std::uint8_t i = 0; i < 200; ++i) link.send(numbered(i));
  return fates;
}

TEST_F(FaultyLinkTest, CorruptsTheGivenShare) {
  std::vector<WirePacket> packets;
  FaultyLink link([&](const WirePacket& packet) { packets.push_back(packet); },
                  [](FaultyLink::Event) {}, 7);
  link.set({.corrupt = LinkFaults::kAlways});
  for (std::uint8_t i = 0; i < 100; ++i) link.send(numbered(i));
  for (const auto& packet : packets) {
    EXPECT_FALSE(has_valid_icrc(packet.with_icrc));
    EXPECT_EQ(packet.with_icrc.size(), packet.bytes.size() + 4);
  }
  EXPECT_EQ(packets.size(), 100U);
  link.set({.loss = 1});
  link.send(numbered(1));
  EXPECT_TRUE(packets.back().with_icrc.empty()) << "only links with bit errors need it";
  const auto some = fates(9, 7);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(some, false)), 60, 45);
}

TEST_F(FaultyLinkTest, TheCopiesOfAPacketAreCorruptedIndependently) {
  std::vector<bool> valid;
  FaultyLink link(
      [&](const WirePacket& packet) { valid.push_back(has_valid_icrc(packet.with_icrc)); },
      [](FaultyLink::Event) {}, 7);
  link.set({.duplicate = LinkFaults::kAlways, .corrupt = 5000});
  for (std::uint8_t i = 0; i < 100; ++i) link.send(numbered(i));
  ASSERT_EQ(valid.size(), 200U);
  std::size_t different = 0;
  for (std::size_t i = 0; i < valid.size(); i += 2) different += valid[i] != valid[i + 1] ? 1U : 0U;
  EXPECT_GT(different, 10U);
  EXPECT_LT(different, 90U);
}

TEST_F(FaultyLinkTest, WithASeedTheFaultsAreRepeated) {
  EXPECT_EQ(fates(9, 1), fates(9, 2)) << "in another process";
  EXPECT_NE(fates(9, 1), fates(8, 1));
  EXPECT_NE(fates(0, 1), fates(0, 2)) << "none is given";
}

TEST(ForkedFaultyLink, CanBeDestroyed) {
#ifdef IPOIB_THREAD_SANITIZER
  GTEST_SKIP() << "in a child of fork() the thread sanitizer does not know its parent's threads";
#endif
  std::atomic<unsigned> sent = 0;
  auto link =
      std::make_unique<FaultyLink>([&](const WirePacket&) { ++sent; }, [](FaultyLink::Event) {}, 7);
  // The thread waits, at the latest, some time after it has sent the packet.
  for (unsigned i = 1; i <= 10; ++i) {
    link->set({.delay = 1});
    link->send(numbered(0));
    ASSERT_TRUE(eventually([&] { return sent == i; }));
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(30);
      link.reset();
      ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
}

TEST(LinkFaults, OfAnyWordsAreBounded) {
  const LinkFaults faults{1, 10'000, 3, 10'000, 5, 6, 0xffff'ffff};
  EXPECT_EQ(LinkFaults::of_words(faults.words()), faults);
  EXPECT_EQ(LinkFaults().words(), LinkFaults::Words());
  const LinkFaults::Words most{~std::uint64_t{0}, ~std::uint64_t{0}};
  EXPECT_EQ(LinkFaults::of_words(most),
            (LinkFaults{10'000, 10'000, 10'000, 10'000, 10'000, 10'000, 0xffff'ffff}));
}

TEST(LinkFaults, AreThereIfOneIs) {
  EXPECT_FALSE(LinkFaults{.seed = 7}.any());
  for (const LinkFaults& one :
       {LinkFaults{.loss = 1}, LinkFaults{.duplicate = 1}, LinkFaults{.reorder = 1},
        LinkFaults{.delay = 1}, LinkFaults{.corrupt = 1}, LinkFaults{.cm_loss = 1}}) {
    EXPECT_TRUE(one.any());
  }
}

class FaultyEndpoint : public ::testing::Test {
 protected:
  FaultyEndpoint() {
    two_->set_receiver(&mailbox_);
    two_->add_mad_receiver(mailbox_);
    one_->set_receiver(&own_);
    (void)own_.next_port();
  }
  ~FaultyEndpoint() override {
    one_->set_receiver(nullptr);
    two_->set_receiver(nullptr);
    two_->remove_mad_receiver(mailbox_);
  }
  void set(const LinkFaults& faults) {
    subnet_.set_faults(1, faults);
    ASSERT_TRUE(two_->wake_processes(1));
    while (own_.next_port().faults != faults) {
    }
  }
  void send(const std::string& text) { send_text(*one_, TestSubnet::lid(2), qpn_, text); }
  std::uint64_t counted(fabric::PortCounter counter) {
    return one_->counters()[static_cast<std::size_t>(counter)];
  }

  TestSubnet subnet_;
  Mailbox own_;
  Mailbox mailbox_;
  std::unique_ptr<Endpoint> one_ = subnet_.attach(1);
  std::unique_ptr<Endpoint> two_ = subnet_.attach(2);
  const Qpn qpn_ = QpnLayout::make(two_->epoch(), two_->slot(), 1);
};

TEST_F(FaultyEndpoint, LosesWhileTheFaultIsSet) {
  send("before");
  set({.loss = LinkFaults::kAlways});
  send("lost");
  EXPECT_EQ(counted(fabric::PortCounter::drop_link_fault), 1U);
  set({});
  send("after");
  EXPECT_EQ(mailbox_.next_text(), "before");
  EXPECT_EQ(mailbox_.next_text(), "after");
  send_text(*two_, TestSubnet::lid(1), QpnLayout::make(one_->epoch(), 0, 1), "other direction");
  EXPECT_EQ(own_.next_text(), "other direction");
}

TEST_F(FaultyEndpoint, PacketsArriveUnchangedAfterADelay) {
  set({.duplicate = LinkFaults::kAlways, .delay = 1});
  send("an odd text");
  send("");
  for (const char* text : {"an odd text", "an odd text", "", ""}) {
    EXPECT_EQ(mailbox_.next_text(), text);
  }
  EXPECT_EQ(counted(fabric::PortCounter::link_duplicates), 2U);
}

TEST_F(FaultyEndpoint, EachSegmentOfALargePacketHasItsOwnFaults) {
  set({.loss = 5000});
  const LargeUdpPacket large(TestSubnet::lid(1), TestSubnet::lid(2), qpn_, 40);
  one_->send({&large.outgoing(), 1});
  set({});
  send("end");
  const auto arrived = mailbox_.count_until("end") - 1;
  EXPECT_EQ(arrived + counted(fabric::PortCounter::drop_link_fault), 40U);
  EXPECT_GT(arrived, 0U);
  EXPECT_LT(arrived, 40U);
}

/// Segmentation has computed the checksums of the segments.
TEST_F(FaultyEndpoint, SegmentsHaveRightChecksums) {
  struct Receiver : PacketReceiver {
    void receive(std::span<const ArrivedPacket> batch) override {
      for (const auto& packet : batch) ++(packet.checksums_valid ? valid : others);
    }
    void port_changed(const PortAttributes&) override {}
    std::atomic<unsigned> valid = 0;
    std::atomic<unsigned> others = 0;
  } receiver;
  two_->set_receiver(&receiver);
  set({.delay = 1});
  const LargeUdpPacket large(TestSubnet::lid(1), TestSubnet::lid(2), qpn_, 3);
  one_->send({&large.outgoing(), 1});
  send("not segmented");
  EXPECT_TRUE(eventually([&] { return receiver.valid + receiver.others == 4; }));
  EXPECT_EQ(receiver.valid, 3U);
  two_->set_receiver(&mailbox_);
}

TEST_F(FaultyEndpoint, TheReceiverDropsCorruptPackets) {
  set({.corrupt = LinkFaults::kAlways});
  for (int i = 0; i < 10; ++i) send("corrupt");
  set({.duplicate = LinkFaults::kAlways, .corrupt = 1});  // hardly ever
  send("intact");
  set({});
  send("end");
  EXPECT_EQ(mailbox_.next_text(), "intact");
  EXPECT_EQ(mailbox_.next_text(), "intact");
  EXPECT_EQ(mailbox_.next_text(), "end");
  const auto at_two = two_->counters();
  EXPECT_EQ(at_two[static_cast<std::size_t>(fabric::PortCounter::drop_icrc)], 10U);
  EXPECT_EQ(at_two[static_cast<std::size_t>(fabric::PortCounter::received_packets)], 13U);
  EXPECT_EQ(counted(fabric::PortCounter::drop_icrc), 0U) << "of the sender";
  EXPECT_EQ(counted(fabric::PortCounter::drop_link_fault), 0U);
}

TEST_F(FaultyEndpoint, TheLongestPacketHasRoomForItsIcrc) {
  set({.corrupt = 1, .seed = 7});
  const std::string text(kMaxMtu, 'x');
  send(text);
  EXPECT_EQ(mailbox_.next_text(), text);
}

TEST_F(FaultyEndpoint, TheReceiverDropsCorruptMads) {
  const auto sm = subnet_.attach(0);
  Mailbox at_sm;
  sm->add_mad_receiver(at_sm);
  MadPacket mad;
  mad.slid = TestSubnet::lid(1);
  mad.dlid = TestSubnet::lid(0);
  ipoib::wire::MadHeader header;
  header.management_class = ipoib::wire::mgmt_class::kSubnAdm;
  header.method = ipoib::wire::method::kGet;
  header.emit(mad.mad);
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  const auto packet = mad.emit(bytes);
  const auto dropped = [&] {
    return sm->counters()[static_cast<std::size_t>(fabric::PortCounter::drop_icrc)];
  };
  set({.corrupt = LinkFaults::kAlways});
  for (int i = 0; i < 5; ++i) one_->send_mad(1, packet);
  one_->send_mad_to(0, packet);
  // A datagram of a queue pair to an agent.
  OutgoingPacket datagram;
  datagram.add(packet);
  datagram.dlid = mad.dlid;
  datagram.destination = Qpn(1);
  one_->send({&datagram, 1});
  EXPECT_TRUE(eventually([&] { return dropped() == 7; }));
  set({.corrupt = 1, .seed = 7});
  one_->send_mad(1, packet);
  EXPECT_TRUE(std::ranges::equal(at_sm.next_mad(), packet));
  one_->send_mad_to(0, packet);
  EXPECT_TRUE(std::ranges::equal(at_sm.next_mad(), packet));
  sm->remove_mad_receiver(at_sm);
}

TEST_F(FaultyEndpoint, DetachDropsWaitingPackets) {
  set({.delay = LinkFaults::kMaxDelay});
  send("late");
  one_->detach();
  SUCCEED() << "it does not wait for the delay";
}

}  // namespace
}  // namespace softib::endpoint
