// The wire and the engine at their limits: more peers than connections, no descriptors, children
// that share what is not theirs.
#include "softib/transport/ring_wire.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "packets.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/transport/peer_connection.hpp"
#include "softib/transport/socket_engine.hpp"
#include "softib/transport/unix_socket.hpp"
#include "softib/transport/wire_message.hpp"
#include "test_subnet.hpp"

namespace softib::transport {
namespace {

using ipoib::FileDescriptor;
using test::eventually;
using test::LargeUdpPacket;
using test::TestSubnet;
using test::TextPacket;

/// The process may have this many descriptors for the time being.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t limit) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit lower{std::min(limit, before_.rlim_max), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &lower);
  }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

/// Takes all descriptors that are left.
std::vector<FileDescriptor> take_all_descriptors() {
  std::vector<FileDescriptor> all;
  for (;;) {
    FileDescriptor one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!one) return all;
    all.push_back(std::move(one));
  }
}

class RingWireTest : public testing::Test {
 protected:
  RingWireTest() { subnet_.fabric().advance_epoch(1, 0); }
  Delivery send(std::uint32_t place) {
    const TextPacket packet(TestSubnet::lid(2), TestSubnet::lid(1), QpnLayout::make(1, place, 1),
                            "text");
    const auto outgoing = packet.outgoing();
    const OutgoingPacket* const alone = &outgoing;
    Delivery why = Delivery::lost;
    std::uint64_t lost = 0;
    (void)wire_.send({1, place}, {&alone, 1}, Patience::never_wait, why, lost);
    return why;
  }
  GuardedFd listen(std::uint32_t place) {
    return std::move(listen_at(node_.get(), fabric::place_name(place)).value());
  }

  TestSubnet subnet_;
  const FileDescriptor node_ = std::move(subnet_.folder().open_node(1).value());
  RingWire wire_{subnet_.folder(), subnet_.fabric()};
};

TEST_F(RingWireTest, ABroadcastToMoreThanItsConnectionsMakesOnlyTheExcessAnew) {
  constexpr std::uint32_t kPlaces = 40;
  constexpr std::uint32_t kRounds = 5;
  const DescriptorLimit limit(120);
  const std::size_t bound = max_connections();
  ASSERT_EQ(bound, 30U);
  std::vector<GuardedFd> listeners;
  for (std::uint32_t place = 0; place < kPlaces; ++place) listeners.push_back(listen(place));
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    for (std::uint32_t place = 0; place < kPlaces; ++place) {
      ASSERT_EQ(send(place), Delivery::delivered) << place << " in round " << round;
    }
  }
  std::size_t connections = 0;
  for (const auto& listener : listeners) {
    while (accept_from(listener.get())) ++connections;
  }
  EXPECT_EQ(connections, bound + (kPlaces - bound) * kRounds);
}

/// More large packets than a ring has room for.
class LargeBatchTest : public RingWireTest {
 protected:
  std::size_t send_some(std::size_t count, Patience patience) {
    return wire_.send({1, 0}, std::span(batch_).first(count), patience, why_, lost_);
  }

  const GuardedFd listener_ = listen(0);
  const LargeUdpPacket large_{TestSubnet::lid(2), TestSubnet::lid(1), QpnLayout::make(1, 0, 1), 50};
  const std::vector<const OutgoingPacket*> batch_ =
      std::vector<const OutgoingPacket*>(20, &large_.outgoing());
  Delivery why_ = Delivery::lost;
  std::uint64_t lost_ = 0;
};

TEST_F(LargeBatchTest, WhatLargePacketsStandForIsCongestedOrLost) {
  const auto sent = send_some(batch_.size(), Patience::never_wait);
  EXPECT_EQ(why_, Delivery::congested);
  EXPECT_EQ(sent, kRingOctets / 50'064) << "as many as there is room for";
  EXPECT_EQ(lost_, 0U);
  subnet_.fabric().advance_epoch(1, 0);  // another process lives there
  EXPECT_EQ(send_some(1, Patience::never_wait), 1U);
  EXPECT_EQ(lost_, 50 * sent);
}

TEST_F(RingWireTest, WhatADeadProcessHasNotTakenIsLostWhoeverFindsOut) {
  const std::vector<std::uint8_t> mad(MadPacket::kPacketSize);
  std::uint64_t lost = 0;
  const std::vector<std::function<void()>> ways = {
      [&] {
        (void)wire_.send_mad({1, 0}, mad, Patience::never_wait, lost);
      },
      [&] {
        (void)wire_.nudge({1, 0}, lost);
      }};
  for (const auto& find_out : ways) {
    GuardedFd listener = listen(0);
    subnet_.fabric().advance_epoch(1, 0);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(send(0), Delivery::delivered);
    accept_from(listener.get()).reset();
    listener.reset();
    ASSERT_EQ(::unlink(subnet_.folder().place(1, 0).c_str()), 0);
    lost = 0;
    find_out();
    EXPECT_EQ(lost, 5U);
    find_out();
    EXPECT_EQ(lost, 5U);
  }
}

TEST_F(RingWireTest, WantOfDescriptorsDoesNotMakeAPlaceEmpty) {
  const GuardedFd listener = listen(0);
  const DescriptorLimit limit(64);
  auto all = take_all_descriptors();
  EXPECT_EQ(send(0), Delivery::refused);
  std::uint64_t lost = 0;
  EXPECT_FALSE(wire_.nudge({1, 0}, lost));
  all.clear();
  EXPECT_EQ(send(0), Delivery::delivered);
  EXPECT_TRUE(wire_.nudge({1, 0}, lost));
  EXPECT_EQ(lost, 0U);
}

TEST_F(RingWireTest, APlaceThatMayNotBeReachedIsNotEmpty) {
  // A way that is a circle is neither of the two errors that mean that nobody listens.
  const std::string place = subnet_.folder().place(1, 0);
  ASSERT_EQ(::symlink(place.c_str(), place.c_str()), 0);
  EXPECT_EQ(send(0), Delivery::refused);
  ASSERT_EQ(::unlink(place.c_str()), 0);
  const GuardedFd listener = listen(0);
  EXPECT_EQ(send(0), Delivery::delivered);
}

/// A line whose other end says what no engine would say.
class LineTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBell = Attendant::kFirstBell;

  LineTest() : far_(-1), line_(make_socket(far_)) {
    EXPECT_EQ(line_.make_ring(), 0);
    for (std::size_t i = 0; i <= Door::kMulticast; ++i) door_.attend(i, Attendant::kNobody);
    EXPECT_EQ(next().kind(), MessageKind::ring);
  }
  static GuardedFd make_socket(FileDescriptor& far) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    far.reset(ends[1]);
    const ForksHeldOff held;
    return {FileDescriptor(ends[0]), held};
  }
  const MessageReader& next() {
    EXPECT_EQ(reader_.next(far_.get()), MessageReader::Got::message);
    return reader_;
  }
  void hand_over_door() {
    ASSERT_EQ(send_message(far_.get(), MessageKind::door, {}, memory_.get()), 0);
  }
  void hand_over_bell(int event) {
    std::array<std::uint8_t, sizeof kBell> number;
    std::memcpy(number.data(), &kBell, number.size());
    ASSERT_EQ(send_message(far_.get(), MessageKind::bell, number, event), 0);
  }
  void put() {
    const TextPacket packet(TestSubnet::lid(2), TestSubnet::lid(1), kTo, "text");
    const auto outgoing = packet.outgoing();
    const OutgoingPacket* const alone = &outgoing;
    EXPECT_EQ(line_.put({&alone, 1}), 1U);
  }

  const Qpn kTo = QpnLayout::make(1, 0, 1);
  FileDescriptor far_;
  Line line_;
  const FileDescriptor memory_ = std::move(make_door_memory().value());
  Door door_ = Door::map(memory_.get()).value();
  MessageReader reader_;
};

TEST_F(LineTest, ABellIsRungUnlessThatMightBlock) {
  for (const int flags : {0, int{EFD_NONBLOCK}}) {
    const FileDescriptor event(::eventfd(0, EFD_CLOEXEC | flags));
    hand_over_door();
    hand_over_bell(event.get());
    door_.attend(QpnLayout::index(kTo), kBell);
    (void)door_.wake_up();
    put();
    pollfd rung{event.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&rung, 1, 0), flags == 0 ? 0 : 1);
    EXPECT_EQ(door_.wake_up(), flags == 0) << "the engine has been called instead";
  }
}

TEST_F(LineTest, WhoTalksWithoutEndIsListenedToBitByBit) {
  for (std::size_t i = 0; i < kMaxBells + 1; ++i) {
    ASSERT_EQ(send_message(far_.get(), MessageKind::nudge), 0);
  }
  hand_over_door();
  put();
  EXPECT_EQ(next().kind(), MessageKind::nudge) << "the door has not been seen";
  put();
  EXPECT_EQ(reader_.next(far_.get()), MessageReader::Got::nothing) << "nobody is to be told";
}

/// Counts what an engine brings.
struct Counter : WireReceiver {
  void arrived(std::span<const ArrivedPacket> some) override { packets += some.size(); }
  void mad_arrived(ConstBytes /*packet*/) override { ++packets; }
  void malformed() override {}
  void sender_gone() override {}
  void accept_paused() override { ++pauses; }
  void turned() override { ++turns; }
  void deadline(ipoib::TimePoint /*now*/) override {}
  std::atomic<std::size_t> packets = 0;
  std::atomic<std::size_t> pauses = 0;
  std::atomic<std::size_t> turns = 0;
};

class SocketEngineTest : public RingWireTest {
 protected:
  const GuardedFd listener_ = listen(0);
  const std::string path_ = subnet_.folder().place(1, 0);
  Counter counter_;
  SocketEngine engine_{listener_.get(), counter_};
  [[nodiscard]] static bool send(const GuardedFd& sender) {
    const std::vector<std::uint8_t> mad(MadPacket::kPacketSize);
    return send_message(sender.get(), MessageKind::mad, mad) == 0;
  }
};

TEST_F(SocketEngineTest, WhatASenderHasSentArrivesAlthoughItIsCutOff) {
  constexpr std::size_t kSenders = 100;
  constexpr std::size_t kRounds = 50;
  const DescriptorLimit limit(256);  // 64 senders at a time
  ASSERT_LT(max_connections(), kSenders);
  std::vector<GuardedFd> senders(kSenders);
  std::size_t reconnected = 0;
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (auto& sender : senders) {
      while (!sender || !send(sender)) {
        if (sender && errno == EAGAIN) continue;
        sender = connect_to(path_);
        ++reconnected;
      }
    }
    // All have been let in now, however late the engine's thread runs: some were cut off for it.
    if (round == 0) {
      ASSERT_TRUE(eventually([&] { return counter_.packets == kSenders; }));
    }
  }
  EXPECT_GT(reconnected, kSenders) << "nobody was cut off";
  EXPECT_TRUE(eventually([&] { return counter_.packets == kSenders * kRounds; }))
      << counter_.packets << " of " << kSenders * kRounds;
}

TEST_F(SocketEngineTest, WithoutDescriptorsSendersWaitAndTheEngineSleeps) {
  GuardedFd sender;
  {
    const DescriptorLimit limit(64);
    auto all = take_all_descriptors();
    all.pop_back();
    sender = connect_to(path_);  // takes the last one
    ASSERT_TRUE(sender);
    ASSERT_TRUE(send(sender));
    ASSERT_TRUE(eventually([&] { return counter_.pauses >= 2; }));
    EXPECT_LE(counter_.turns, 4 * counter_.pauses + 2);
  }
  EXPECT_TRUE(eventually([&] { return counter_.packets == 1; }));
}

/// Stays in its first message until it is let go, and counts what comes in each turn.
struct TurnCounter : Counter {
  void mad_arrived(ConstBytes packet) override {
    Counter::mad_arrived(packet);
    ++in_this_turn;
    go_on.wait(false);
  }
  void turned() override {
    most_in_a_turn = std::max(most_in_a_turn.load(), std::exchange(in_this_turn, 0));
    Counter::turned();
  }
  std::atomic<bool> go_on = false;
  std::size_t in_this_turn = 0;
  std::atomic<std::size_t> most_in_a_turn = 0;
};

TEST_F(LargeBatchTest, AReceiverThatTakesSomethingIsWaitedForAgain) {
  const auto sent = send_some(batch_.size(), Patience::never_wait);
  ASSERT_LT(sent, batch_.size()) << "more than there is room for";
  Counter counter;
  SocketEngine engine(listener_.get(), counter);
  ASSERT_TRUE(eventually([&] { return counter.packets == sent; }));
  EXPECT_EQ(send_some(batch_.size(), Patience::wait), batch_.size());
}

TEST_F(RingWireTest, WhoSaysThatItLeavesAndDoesNotIsWaitedForOnce) {
  constexpr int kRounds = 50;
  const GuardedFd listener = listen(0);
  const TextPacket packet(TestSubnet::lid(2), TestSubnet::lid(1), QpnLayout::make(1, 0, 1), "text");
  const auto outgoing = packet.outgoing();
  const OutgoingPacket* const alone = &outgoing;
  std::vector<GuardedFd> senders;
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < kRounds; ++round) {
    Delivery why = Delivery::lost;
    std::uint64_t lost = 0;
    EXPECT_EQ(wire_.send({1, 0}, {&alone, 1}, Patience::wait, why, lost), 1U);
    senders.push_back(accept_from(listener.get()));
    MessageReader reader;
    ASSERT_EQ(reader.next(senders.back().get()), MessageReader::Got::message);
    ASSERT_EQ(reader.kind(), MessageKind::ring);
    RingReader(std::move(RingMemory::map(reader.handed_over().get()).value()))
        .set_end(RingEnd::announced);
  }
  // Each time would be ten seconds.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST_F(RingWireTest, ASenderOfManyMessagesDoesNotKeepTheEngineFromTheRest) {
  const GuardedFd listener = listen(0);
  TurnCounter counter;
  SocketEngine engine(listener.get(), counter);
  const GuardedFd sender = connect_to(subnet_.folder().place(1, 0));
  const std::vector<std::uint8_t> mad(MadPacket::kPacketSize);
  std::size_t sent = 0;
  while (send_message(sender.get(), MessageKind::mad, mad) == 0) ++sent;
  EXPECT_GT(sent, kMessagesPerTurn);
  counter.go_on = true;
  counter.go_on.notify_all();
  EXPECT_TRUE(eventually([&] { return counter.packets == sent && counter.most_in_a_turn != 0; }));
  EXPECT_LE(counter.most_in_a_turn, kMessagesPerTurn);
}

TEST_F(SocketEngineTest, AChildThatSharesItsSocketsDoesNotKeepItBusy) {
  GuardedFd sender = connect_to(path_);
  ASSERT_TRUE(send(sender));
  ASSERT_TRUE(eventually([&] { return counter_.packets == 1; }));
  // Not fork(3): no handler closes anything in the child.
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    // The child's own end of the sender, or the engine would not see it end.
    ::close(sender.get());
    for (;;) ::pause();
  }
  const std::size_t before = counter_.turns;
  sender.reset();
  ASSERT_TRUE(eventually([&] { return counter_.turns > before; }));
  constexpr std::size_t kWakes = 100;
  const std::size_t start = counter_.turns;
  for (std::size_t i = 0; i < kWakes; ++i) {
    const std::size_t last = counter_.turns;
    engine_.wake();
    ASSERT_TRUE(eventually([&] { return counter_.turns > last; }));
  }
  EXPECT_LE(counter_.turns - start, kWakes + 8);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace softib::transport
