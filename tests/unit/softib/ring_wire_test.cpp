// The wire and the engine at their limits: more peers than connections, no descriptors, children
// that share what is not theirs.
#include "softib/ring_wire.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>

#include "packets.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/shared_file.hpp"
#include "softib/socket_engine.hpp"
#include "softib/unix_socket.hpp"
#include "softib/wire_message.hpp"
#include "test_subnet.hpp"

namespace softib {
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
    return std::move(listen_at(node_.get(), place_name(place)).value());
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

TEST_F(RingWireTest, WhatLargePacketsStandForIsCongestedOrLost) {
  const GuardedFd listener = listen(0);
  const LargeUdpPacket large(TestSubnet::lid(2), TestSubnet::lid(1), QpnLayout::make(1, 0, 1), 50);
  const std::vector<const OutgoingPacket*> batch(20, &large.outgoing());
  Delivery why = Delivery::lost;
  std::uint64_t lost = 0;
  const auto sent = wire_.send({1, 0}, batch, Patience::never_wait, why, lost);
  EXPECT_EQ(why, Delivery::congested);
  EXPECT_EQ(sent, kRingOctets / 50'064) << "as many as there is room for";
  EXPECT_EQ(lost, 0U);
  subnet_.fabric().advance_epoch(1, 0);  // another process lives there
  EXPECT_EQ(wire_.send({1, 0}, {batch.data(), 1}, Patience::never_wait, why, lost), 1U);
  EXPECT_EQ(lost, 50 * sent);
}

TEST_F(RingWireTest, WantOfDescriptorsDoesNotMakeAPlaceEmpty) {
  const GuardedFd listener = listen(0);
  const DescriptorLimit limit(64);
  auto all = take_all_descriptors();
  EXPECT_EQ(send(0), Delivery::refused);
  EXPECT_FALSE(wire_.nudge({1, 0}));
  all.clear();
  EXPECT_EQ(send(0), Delivery::delivered);
  EXPECT_TRUE(wire_.nudge({1, 0}));
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

/// Counts what an engine brings.
struct Counter : WireReceiver {
  void arrived(std::span<const ArrivedPacket> some) override { packets += some.size(); }
  void mad_arrived(ConstBytes /*packet*/) override { ++packets; }
  void malformed() override {}
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
}  // namespace softib
