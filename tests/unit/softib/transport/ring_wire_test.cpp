// The wire and the engine at their limits: more peers than connections, no free descriptors, and
// children that share sockets.
#include "softib/transport/ring_wire.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "open_descriptors.hpp"
#include "packets.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/transport/peer_connection.hpp"
#include "softib/transport/process_slot.hpp"
#include "softib/transport/shared_wakeup_fds.hpp"
#include "softib/transport/socket_engine.hpp"
#include "softib/transport/unix_socket.hpp"
#include "softib/transport/wire_message.hpp"
#include "test_subnet.hpp"

namespace softib::transport {
namespace {

using ipoib::FileDescriptor;
using test::DescriptorLimit;
using test::eventually;
using test::LargeUdpPacket;
using test::open_descriptors;
using test::take_all_descriptors;
using test::TestSubnet;
using test::TextPacket;

class RingWireTest : public testing::Test {
 protected:
  RingWireTest() { subnet_.fabric().advance_epoch(1, 0); }
  Delivery send(std::uint32_t slot) { return send(slot, wire_); }
  static Delivery send(std::uint32_t slot, RingWire& wire) {
    const TextPacket packet(TestSubnet::lid(2), TestSubnet::lid(1), QpnLayout::make(1, slot, 1),
                            "text");
    const auto outgoing = packet.outgoing();
    const OutgoingPacket* const alone = &outgoing;
    Delivery why = Delivery::lost;
    std::uint64_t lost = 0;
    (void)wire.send({1, slot}, 1, {&alone, 1}, SendMode::non_blocking, why, lost);
    return why;
  }
  /// With a DescriptorLimit. The processes of a user may have no more descriptors in flight than
  /// that (ETOOMANYREFS, unix(7)), and other tests run at the same time.
  bool delivers(std::uint32_t slot) {
    return eventually([&] { return send(slot) == Delivery::delivered; });
  }
  GuardedFd listen(std::uint32_t slot) {
    return listen_at(node_.get(), fabric::slot_name(slot)).value();
  }

  TestSubnet subnet_;
  const FileDescriptor node_ = subnet_.folder().open_node(1).value();
  RingWire wire_{subnet_.folder(), subnet_.fabric()};
};

TEST_F(RingWireTest, ABroadcastReconnectsOnlyTheReceiversBeyondTheLimit) {
  constexpr std::uint32_t kSlots = 40;
  constexpr std::uint32_t kRounds = 5;
  const DescriptorLimit limit(120);
  const std::size_t bound = max_connections();
  ASSERT_EQ(bound, 30U);
  std::vector<GuardedFd> listeners;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) listeners.push_back(listen(slot));
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      ASSERT_TRUE(delivers(slot)) << slot << " in round " << round;
    }
  }
  std::size_t connections = 0;
  for (const auto& listener : listeners) {
    while (accept_from(listener.get())) ++connections;
  }
  EXPECT_EQ(connections, bound + (kSlots - bound) * kRounds);
}

/// More large packets than a ring has room for.
class LargeBatchTest : public RingWireTest {
 protected:
  std::size_t send_some(std::size_t count, SendMode mode) {
    return wire_.send({1, 0}, 1, std::span(batch_).first(count), mode, why_, lost_);
  }

  const GuardedFd listener_ = listen(0);
  const LargeUdpPacket large_{TestSubnet::lid(2), TestSubnet::lid(1), QpnLayout::make(1, 0, 1), 50};
  const std::vector<const OutgoingPacket*> batch_ =
      std::vector<const OutgoingPacket*>(20, &large_.outgoing());
  Delivery why_ = Delivery::lost;
  std::uint64_t lost_ = 0;
};

TEST_F(LargeBatchTest, CountsTheSegmentsOfLargePacketsAsLost) {
  const auto sent = send_some(batch_.size(), SendMode::non_blocking);
  EXPECT_EQ(why_, Delivery::congested);
  EXPECT_EQ(sent, kRingBytes / 50'064) << "as many as there is room for";
  EXPECT_EQ(lost_, 0U);
  subnet_.fabric().advance_epoch(1, 0);  // another process takes the slot
  EXPECT_EQ(send_some(1, SendMode::non_blocking), 1U);
  EXPECT_EQ(lost_, 50 * sent);
}

TEST_F(RingWireTest, MadsAndWakeupsReportThePacketsThatADeadProcessLost) {
  const std::vector<std::uint8_t> mad(MadPacket::kMaxPacketSize);
  std::uint64_t lost = 0;
  const std::vector<std::function<void()>> calls = {[&] {
                                                      (void)wire_.send_mad({1, 0}, {mad}, lost);
                                                    },
                                                    [&] {
                                                      (void)wire_.wake({1, 0}, lost);
                                                    }};
  for (const auto& call : calls) {
    GuardedFd listener = listen(0);
    subnet_.fabric().advance_epoch(1, 0);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(send(0), Delivery::delivered);
    accept_from(listener.get()).reset();
    listener.reset();
    ASSERT_EQ(::unlink(subnet_.folder().slot_socket(1, 0).c_str()), 0);
    lost = 0;
    call();
    EXPECT_EQ(lost, 5U);
    call();
    EXPECT_EQ(lost, 5U);
  }
}

TEST_F(RingWireTest, LackOfDescriptorsDoesNotMeanAnEmptySlot) {
  const GuardedFd listener = listen(0);
  const DescriptorLimit limit(64);
  auto all = take_all_descriptors();
  EXPECT_EQ(send(0), Delivery::refused);
  std::uint64_t lost = 0;
  EXPECT_FALSE(wire_.wake({1, 0}, lost));
  all.clear();
  EXPECT_TRUE(delivers(0));
  EXPECT_TRUE(wire_.wake({1, 0}, lost));
  EXPECT_EQ(lost, 0U);
}

TEST_F(RingWireTest, ANewConnectionReplacesAnOldOneForLackOfDescriptors) {
  const std::array listeners{listen(0), listen(1), listen(2)};
  ASSERT_EQ(send(0), Delivery::delivered);
  ASSERT_EQ(send(1), Delivery::delivered);
  const DescriptorLimit limit(64);
  const auto all = take_all_descriptors();
  // It needs two descriptors for a moment. Which are in flight, other tests say, too: delivers().
  errno = 0;
  EXPECT_TRUE(send(2) == Delivery::delivered || errno == ETOOMANYREFS) << std::strerror(errno);
}

TEST_F(RingWireTest, AnEmptySlotIsTriedAgainWhenItsEpochHasChanged) {
  EXPECT_EQ(send(0), Delivery::no_process);
  const GuardedFd listener = listen(0);
  EXPECT_EQ(send(0), Delivery::no_process) << "a process advances the epoch after that";
  subnet_.fabric().advance_epoch(1, 0);
  EXPECT_EQ(send(0), Delivery::delivered);
}

TEST_F(RingWireTest, ASlotThatNobodyHadNeedsNoReclaiming) {
  reclaim_slot(subnet_.folder(), subnet_.fabric(), 1, 5);
  EXPECT_NE(::faccessat(node_.get(), fabric::slot_lock_name(5).c_str(), F_OK, 0), 0);
}

TEST_F(RingWireTest, OtherConnectErrorsDoNotMeanAnEmptySlot) {
  // EPERM is not one of the two errors that mean that nobody listens.
  const std::string slot = subnet_.folder().slot_socket(1, 0);
  ASSERT_EQ(::symlink(slot.c_str(), slot.c_str()), 0);
  EXPECT_EQ(send(0), Delivery::refused);
  ASSERT_EQ(::unlink(slot.c_str()), 0);
  const GuardedFd listener = listen(0);
  EXPECT_EQ(send(0), Delivery::delivered);
}

/// A connection whose other end is the test, which sends messages that no engine sends.
class PeerConnectionTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kWakeupFd = Waiter::kFirstWakeupFd;

  PeerConnectionTest() : far_(-1), connection_(make_socket(far_)), reader_of_ring_(take_ring()) {
    for (std::size_t i = 0; i <= WakeupEntry::kMulticast; ++i)
      wakeup_table_.set_waiter(i, Waiter::kNone);
  }
  RingReader take_ring() {
    EXPECT_EQ(connection_.make_ring(), 0);
    EXPECT_EQ(next().kind(), MessageKind::ring);
    return RingReader(RingMemory::map(reader_.fd().get()).value());
  }
  static GuardedFd make_socket(FileDescriptor& far) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    far.reset(ends[1]);
    const ForkLock lock;
    return {FileDescriptor(ends[0]), lock};
  }
  const MessageReader& next() {
    EXPECT_EQ(reader_.next(far_.get()), MessageReader::Got::message);
    return reader_;
  }
  void send_wakeup_table() {
    ASSERT_EQ(send_message(far_.get(), MessageKind::wakeup_table, {}, wakeup_table_.descriptor()),
              0);
  }
  static std::array<std::uint8_t, 4> body_of(std::uint32_t number) {
    std::array<std::uint8_t, sizeof number> body;
    std::memcpy(body.data(), &number, body.size());
    return body;
  }
  /// The table names a waiter, and a packet wakes the engine, since the sender has to ask for the
  /// waiter's descriptor.
  void take_request_for(std::uint32_t number) {
    wakeup_table_.set_waiter(QpnLayout::index(kTo), number);
    put();
    EXPECT_EQ(next().kind(), MessageKind::want_wakeup_fd);
    EXPECT_TRUE(std::ranges::equal(reader_.body(), body_of(number)));
    EXPECT_TRUE(take_request());
  }
  void send_wakeup_fd(int sender, std::uint32_t number = kWakeupFd) {
    ASSERT_EQ(send_message(far_.get(), MessageKind::wakeup_fd, body_of(number), sender), 0);
  }
  /// Whether the engine would not sleep, but read the ring.
  bool take_request() { return reader_of_ring_.take_request(); }
  void put() {
    const TextPacket packet(TestSubnet::lid(2), TestSubnet::lid(1), kTo, "text");
    const auto outgoing = packet.outgoing();
    const OutgoingPacket* const alone = &outgoing;
    EXPECT_EQ(connection_.put({&alone, 1}, 1), 1U);
  }

  const Qpn kTo = QpnLayout::make(1, 0, 1);
  FileDescriptor far_;
  PeerConnection connection_;
  WakeupTable wakeup_table_ = WakeupTable::make().value();
  MessageReader reader_;
  RingReader reader_of_ring_;
  const TestSubnet subnet_;
  const WakeupSocket woken_ = WakeupSocket::make_shared(subnet_.folder(), 1, 0).value();
};

TEST_F(PeerConnectionTest, WakesAWaiterOncePerSleep) {
  send_wakeup_table();
  take_request_for(kWakeupFd);
  send_wakeup_fd(woken_.make_sender()->get());
  for (int i = 0; i < 3; ++i) {
    wakeup_table_.set_waiter(QpnLayout::index(kTo), kWakeupFd);
    put();
    put();
    EXPECT_EQ(woken_.take(false), WakeupSocket::Wakeup::other);
    EXPECT_EQ(woken_.take(false), WakeupSocket::Wakeup::none);
  }
  EXPECT_FALSE(take_request());
}

/// As if another sender, or the receiver itself, wants the sender to wait, or to believe that it
/// has woken the receiver.
TEST_F(PeerConnectionTest, NeitherBlocksNorTrustsWakeupsOfOthers) {
  const ipoib::FileDescriptor full = woken_.make_sender().value();
  ASSERT_EQ(::fcntl(full.get(), F_SETFL, 0), 0);
  while (wake(full.get())) {
  }
  const ipoib::FileDescriptor own = woken_.make_sender().value();
  send_wakeup_table();
  take_request_for(kWakeupFd);
  send_wakeup_fd(own.get());
  ASSERT_EQ(::fcntl(own.get(), F_SETFL, 0), 0) << "blocking";
  wakeup_table_.fall_asleep();
  wakeup_table_.set_waiter(QpnLayout::index(kTo), kWakeupFd);
  put();
  EXPECT_TRUE(take_request()) << "the engine reads the ring instead";
  EXPECT_EQ(next().kind(), MessageKind::wakeup);
  put();
  EXPECT_TRUE(take_request());
  while (woken_.take(false) != WakeupSocket::Wakeup::none) {
  }
  put();
  EXPECT_EQ(woken_.take(false), WakeupSocket::Wakeup::other) << "at the next packet with room";
  EXPECT_FALSE(take_request());
}

TEST_F(PeerConnectionTest, UsesTheEngineIfItsWakeupSocketWasShutDown) {
  const ipoib::FileDescriptor own = woken_.make_sender().value();
  send_wakeup_table();
  take_request_for(kWakeupFd);
  send_wakeup_fd(own.get());
  ASSERT_EQ(::shutdown(own.get(), SHUT_RDWR), 0);
  wakeup_table_.fall_asleep();
  for (int i = 0; i < 2; ++i) {
    wakeup_table_.set_waiter(QpnLayout::index(kTo), kWakeupFd);
    put();
    EXPECT_TRUE(take_request());
  }
  EXPECT_EQ(next().kind(), MessageKind::wakeup);
}

TEST_F(PeerConnectionTest, AcceptsOnlyDescriptorsThatCannotBlock) {
  const FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const FileDescriptor tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const FileDescriptor udp(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const FileDescriptor stream(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (const auto* each : {&event, &tcp, &udp, &stream})
    EXPECT_FALSE(is_wakeup_sender(each->get()));
  EXPECT_FALSE(is_wakeup_sender(-1));
  EXPECT_TRUE(is_wakeup_sender(woken_.make_sender()->get()));
  send_wakeup_table();
  take_request_for(kWakeupFd);
  const auto before = open_descriptors();
  send_wakeup_fd(event.get());
  put();
  EXPECT_TRUE(connection_.has_ended({}));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(WakeupSocketTest, WakesByItselfAndByOthers) {
  const TestSubnet subnet;
  const auto socket = WakeupSocket::make_shared(subnet.folder(), 1, 0).value();
  using Wakeup = WakeupSocket::Wakeup;
  EXPECT_EQ(socket.next(), Wakeup::none);
  EXPECT_EQ(socket.take(false), Wakeup::none);
  EXPECT_EQ(errno, EAGAIN);
  const ipoib::FileDescriptor sender = socket.make_sender().value();
  ASSERT_TRUE(sender);
  socket.wake();
  EXPECT_EQ(socket.next(), Wakeup::own);
  EXPECT_TRUE(wake(sender.get()));
  EXPECT_EQ(socket.take(true), Wakeup::own);
  EXPECT_EQ(socket.take(true), Wakeup::other);
  EXPECT_EQ(socket.next(), Wakeup::none);
  EXPECT_FALSE(
      std::filesystem::exists(subnet.folder().node(1) + "/" + fabric::slot_wakeup_name(0)));
  const auto alone = WakeupSocket::make().value();
  alone.wake();
  EXPECT_EQ(alone.take(true), Wakeup::own);
}

class FaultyReceiverTest : public PeerConnectionTest,
                           public testing::WithParamInterface<std::pair<MessageKind, bool>> {};

/// Messages for receivers, and such with a descriptor too many or too few.
INSTANTIATE_TEST_SUITE_P(
    All, FaultyReceiverTest,
    testing::Values(std::pair(MessageKind::wakeup, false), std::pair(MessageKind::wakeup, true),
                    std::pair(MessageKind::mad, false), std::pair(MessageKind::mad, true),
                    std::pair(MessageKind::mad_with_icrc, false),
                    std::pair(MessageKind::ring, true), std::pair(MessageKind::wakeup_table, false),
                    std::pair(MessageKind::wakeup_fd, false),
                    std::pair(MessageKind::count_, false)));

TEST_P(FaultyReceiverTest, EndsTheConnectionByAnUnexpectedMessage) {
  send_wakeup_table();
  put();
  ASSERT_FALSE(connection_.has_ended({}));
  const auto before = open_descriptors();
  const auto [kind, has_descriptor] = GetParam();
  ASSERT_EQ(send_message(far_.get(), kind, {}, has_descriptor ? far_.get() : -1), 0);
  EXPECT_TRUE(eventually([&] { return connection_.has_ended({}); }));
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(PeerConnectionTest, ReadsABoundedNumberOfMessagesAtATime) {
  const auto before = open_descriptors();
  for (std::size_t i = 0; i < kMaxWakeupFds + 1; ++i) send_wakeup_fd(woken_.make_sender()->get());
  send_wakeup_table();
  put();
  EXPECT_EQ(next().kind(), MessageKind::wakeup) << "the wakeup table has not been read";
  put();
  EXPECT_LE(open_descriptors(), before) << "it has not asked for any";
  EXPECT_EQ(reader_.next(far_.get()), MessageReader::Got::nothing) << "no wakeup is needed";
}

TEST_F(PeerConnectionTest, KeepsOneDescriptorOfItsOwnAndAShareOfTheOthers) {
  const auto shared = std::make_shared<SharedWakeupFds>(4);
  FileDescriptor other_far;
  PeerConnection other(make_socket(other_far), shared);
  ASSERT_TRUE(shared->take(other));
  const auto before = open_descriptors();
  far_.reset();
  std::optional<PeerConnection> limited(std::in_place, make_socket(far_), shared);
  ASSERT_EQ(limited->make_ring(), 0);
  ASSERT_EQ(next().kind(), MessageKind::ring);
  send_wakeup_table();
  const TextPacket packet(TestSubnet::lid(2), TestSubnet::lid(1), kTo, "text");
  const auto outgoing = packet.outgoing();
  const OutgoingPacket* const alone = &outgoing;
  const auto put_for = [&](std::uint32_t number) {
    wakeup_table_.set_waiter(QpnLayout::index(kTo), number);
    ASSERT_EQ(limited->put({&alone, 1}, 1), 1U);
  };
  constexpr std::uint32_t kWaiters = 8;
  for (std::uint32_t i = 0; i < kWaiters; ++i) {
    put_for(kWakeupFd + i);
    while (next().kind() != MessageKind::want_wakeup_fd) {
    }
    send_wakeup_fd(woken_.make_sender()->get(), kWakeupFd + i);
    put_for(kWakeupFd + i);
    EXPECT_EQ(woken_.take(false), WakeupSocket::Wakeup::other) << i;
  }
  EXPECT_EQ(open_descriptors(), before + 1 + 2) << "of 3 shared ones that were free it has 2";
  limited.reset();
  EXPECT_TRUE(shared->take(other));
  EXPECT_FALSE(shared->take(other)) << "all that the connection had are free again";
}

/// Counts what an engine delivers.
struct Counter : WireReceiver {
  void arrived(std::span<const ArrivedPacket> some) override { packets += some.size(); }
  void mad_arrived(const MadOnWire& /*mad*/) override { ++packets; }
  void malformed() override { ++malformed_; }
  void accept_paused() override { ++pauses; }
  void turn_done() override { ++turns; }
  void deadline(ipoib::TimePoint /*now*/) override {}
  void connections_ended(std::span<const Process> processes) override {
    for (const auto& process : processes) {
      last_ended = process;
      ++ended;
    }
  }
  ObjectPage objects(const ObjectRequest& request) override {
    EXPECT_EQ(request.kind, ObjectKind::queue_pair);
    return {{ObjectStatus{}}, request.first + 1};
  }
  Process last_ended;  ///< to be read after `ended`
  std::atomic<std::size_t> ended = 0;
  std::atomic<std::size_t> packets = 0;
  std::atomic<std::size_t> pauses = 0;
  std::atomic<std::size_t> malformed_ = 0;
  std::atomic<std::size_t> turns = 0;
};

class SocketEngineTest : public RingWireTest {
 protected:
  const GuardedFd listener_ = listen(0);
  Counter counter_;
  SocketEngine engine_{listener_.get(), counter_};
  [[nodiscard]] static bool send(const GuardedFd& sender) {
    const std::vector<std::uint8_t> mad(1 + MadPacket::kMaxPacketSize, 1);  // for port 1
    return send_message(sender.get(), MessageKind::mad, mad) == 0;
  }
  static void expect_disconnected(const GuardedFd& sender) {
    pollfd closed{sender.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&closed, 1, 60'000), 1);
    EXPECT_NE(closed.revents & POLLHUP, 0);
  }
};

TEST_F(SocketEngineTest, DeliversTheMessagesOfEvictedSenders) {
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
        sender = connect_to(subnet_.folder(), 1, 0);
        ++reconnected;
      }
    }
    // Wait until all have been accepted; some must have been evicted for that.
    if (round == 0) {
      ASSERT_TRUE(eventually([&] { return counter_.packets == kSenders; }));
    }
  }
  EXPECT_GT(reconnected, kSenders) << "no sender was evicted";
  EXPECT_TRUE(eventually([&] { return counter_.packets == kSenders * kRounds; }))
      << counter_.packets << " of " << kSenders * kRounds;
}

TEST_F(SocketEngineTest, DisconnectsASenderOfUnexpectedMessages) {
  const auto before = open_descriptors();
  for (int i = 0; i < 7; ++i) {
    // The first one is a message to a sender.
    for (const auto kind : {MessageKind::wakeup_table, MessageKind::wakeup, MessageKind::mad}) {
      GuardedFd sender = connect_to(subnet_.folder(), 1, 0);
      ASSERT_EQ(send_message(sender.get(), kind, {}, sender.get()), 0);
      expect_disconnected(sender);
    }
  }
  EXPECT_TRUE(eventually([&] { return counter_.malformed_ == 21; }));
  EXPECT_EQ(counter_.packets, 0U);
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }));
}

/// It needs a ring, and a number of 4 bytes.
TEST_F(SocketEngineTest, DisconnectsASenderWhoseRequestForADescriptorIsInvalid) {
  const std::array<std::uint8_t, 5> body{};
  const auto ring = make_ring_memory();
  for (const auto& [has_ring, size] :
       {std::pair{true, 0U}, std::pair{true, 3U}, std::pair{true, 5U}, std::pair{false, 4U}}) {
    const GuardedFd sender = connect_to(subnet_.folder(), 1, 0);
    if (has_ring) {
      ASSERT_EQ(send_message(sender.get(), MessageKind::ring, {}, ring->get()), 0);
    }
    ASSERT_EQ(send_message(sender.get(), MessageKind::want_wakeup_fd,
                           ipoib::ConstBytes(body).first(size)),
              0);
    expect_disconnected(sender);
  }
}

TEST_F(SocketEngineTest, AnswersWhoAsksForObjects) {
  const GuardedFd asker = connect_to(subnet_.folder(), 1, 0);
  const auto wanted = ObjectRequest{ObjectKind::queue_pair, 5}.bytes();
  ASSERT_EQ(send_message(asker.get(), MessageKind::want_objects, wanted), 0);
  MessageReader reader;
  ASSERT_TRUE(eventually([&] { return reader.next(asker.get()) == MessageReader::Got::message; }));
  ASSERT_EQ(reader.kind(), MessageKind::objects);
  const auto page = ObjectPage::parse(reader.body());
  ASSERT_TRUE(page);
  EXPECT_EQ(page->next, 6U);
  ASSERT_EQ(send_message(asker.get(), MessageKind::want_objects,
                         ipoib::ConstBytes(wanted).first(wanted.size() - 1)),
            0);
  expect_disconnected(asker);
}

/// The sender does nothing afterwards, and does not disconnect.
TEST_F(SocketEngineTest, SleepsWhileASenderKeepsABrokenRing) {
  const GuardedFd sender = connect_to(subnet_.folder(), 1, 0);
  const auto memory = make_ring_memory();
  ASSERT_EQ(send_message(sender.get(), MessageKind::ring, {}, memory->get()), 0);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(send_message(sender.get(), MessageKind::wakeup), 0);
  MessageReader reader;
  ASSERT_TRUE(eventually([&] { return reader.next(sender.get()) == MessageReader::Got::message; }));
  ASSERT_EQ(reader.kind(), MessageKind::wakeup_table);
  auto table = WakeupView::map(reader.fd().get()).value();
  const auto ring = RingMemory::map(memory->get()).value();
  ring.header().written = 2 * kRingBytes;
  ASSERT_EQ(send_message(sender.get(), MessageKind::wakeup), 0);
  ASSERT_TRUE(eventually([&] { return counter_.malformed_ == 1; }));
  EXPECT_TRUE(eventually([&] { return table.must_wake_engine(); })) << "the engine does not sleep";
}

/// A source whose packets are numbers in two event descriptors.
class TestSource : public PacketSource {
 public:
  TestSource() {
    for (const auto& each : {&responses_, &others_}) {
      epoll_event event{};
      event.events = EPOLLIN;
      EXPECT_EQ(::epoll_ctl(all_.get(), EPOLL_CTL_ADD, each->get(), &event), 0);
    }
  }
  void add_response() const { EXPECT_EQ(::eventfd_write(responses_.get(), 1), 0); }
  void add_other() const { EXPECT_EQ(::eventfd_write(others_.get(), 1), 0); }
  std::size_t poll() override {
    std::size_t count = 0;
    for (const auto& each : {&responses_, &others_}) {
      eventfd_t some = 0;
      if (::eventfd_read(each->get(), &some) == 0) count += some;
    }
    taken += count;
    return count;
  }
  [[nodiscard]] int descriptor() const override { return all_.get(); }
  [[nodiscard]] int descriptor_of_others() const override { return others_.get(); }

  std::atomic<std::size_t> taken = 0;

 private:
  const FileDescriptor responses_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  const FileDescriptor others_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  const FileDescriptor all_{::epoll_create1(EPOLL_CLOEXEC)};
};

class EngineWithSource : public SocketEngineTest {
 protected:
  ~EngineWithSource() override { engine_.stop(); }
  void attach() {
    bool has_changed = false;
    engine_.set_source(source_, [&] { has_changed = true; });
    EXPECT_TRUE(has_changed);
  }
  [[nodiscard]] bool takes(std::size_t count) {
    return eventually([&] { return source_.taken == count; });
  }
  /// Lets the engine see all that has come: the turn that it is in may have begun before.
  void settle() {
    for (int i = 0; i < 2; ++i) {
      const auto before = counter_.turns.load();
      engine_.wake();
      ASSERT_TRUE(eventually([&] { return counter_.turns > before; }));
    }
  }
  void set_waiters(std::uint32_t of_requests, std::uint32_t of_responses) {
    engine_.set_waiter(WakeupEntry::kRequests, of_requests);
    engine_.set_waiter(WakeupEntry::kResponses, of_responses);
  }

  TestSource source_;
};

TEST_F(EngineWithSource, IsWokenForEachPacket) {
  attach();
  for (std::size_t i = 0; i < 3; ++i) {
    source_.add_other();
    EXPECT_TRUE(takes(2 * i + 1));
    source_.add_response();
    EXPECT_TRUE(takes(2 * i + 2));
  }
}

TEST_F(EngineWithSource, IsNotWokenWhileAProgramPolls) {
  attach();
  set_waiters(Waiter::kNone, Waiter::kNone);
  source_.add_other();  // the kernel was asked before
  ASSERT_TRUE(takes(1));
  settle();
  source_.add_other();
  settle();
  EXPECT_EQ(source_.taken, 1U);
  EXPECT_TRUE(engine_.poll_receive_rings()) << "what the program does";
  EXPECT_EQ(source_.taken, 2U);
  set_waiters(Waiter::kEngine, Waiter::kEngine);
  source_.add_other();
  EXPECT_TRUE(takes(3));
}

TEST_F(EngineWithSource, IsNotWokenForResponsesThatNobodyNeeds) {
  attach();
  set_waiters(Waiter::kEngine, Waiter::kNone);
  source_.add_response();  // the kernel was asked before
  ASSERT_TRUE(takes(1));
  settle();
  source_.add_response();
  settle();
  EXPECT_EQ(source_.taken, 1U);
  source_.add_other();
  EXPECT_TRUE(takes(3)) << "with the response that waits";
  set_waiters(Waiter::kEngine, Waiter::kEngine);
  source_.add_response();
  EXPECT_TRUE(takes(4));
}

/// A sender of the test that reads nothing.
class SilentSender {
 public:
  explicit SilentSender(const fabric::SubnetFolder& folder) : socket_(connect_to(folder, 1, 0)) {
    const auto ring = make_ring_memory();
    EXPECT_EQ(send_message(socket_.get(), MessageKind::ring, {}, ring->get()), 0);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(wake(), 0);
  }
  /// Returns 0 or an errno value.
  int wake() const { return send_message(socket_.get(), MessageKind::wakeup); }
  int repeat_ring() const {
    const auto ring = make_ring_memory();
    return send_message(socket_.get(), MessageKind::ring, {}, ring->get());
  }
  [[nodiscard]] bool has_answer() const {
    pollfd answer{socket_.get(), POLLIN, 0};
    return ::poll(&answer, 1, 0) == 1;
  }
  [[nodiscard]] bool is_disconnected() const {
    pollfd closed{socket_.get(), 0, 0};
    return ::poll(&closed, 1, 0) == 1 && (closed.revents & POLLHUP) != 0;
  }
  [[nodiscard]] std::size_t unread_messages() const {
    MessageReader reader;
    std::size_t count = 0;
    while (reader.next(socket_.get()) == MessageReader::Got::message) ++count;
    return count;
  }

 private:
  GuardedFd socket_;
};

TEST_F(SocketEngineTest, ASenderHasOneRing) {
  const SilentSender sender(subnet_.folder());
  ASSERT_TRUE(eventually([&] { return sender.has_answer(); }));
  (void)sender.repeat_ring();
  EXPECT_TRUE(eventually([&] { return sender.is_disconnected(); }));
  EXPECT_EQ(counter_.malformed_, 1U);
}

/// Each is a descriptor in flight, of which the processes of a user may not have many.
TEST_F(SocketEngineTest, SendsNoDescriptorToASenderThatHasNotReadTheLast) {
  const auto socket = WakeupSocket::make_shared(subnet_.folder(), 1, 0).value();
  const auto number = engine_.add_wakeup_fd(socket);
  std::array<std::uint8_t, sizeof number> body;
  std::memcpy(body.data(), &number, body.size());
  GuardedFd sender = connect_to(subnet_.folder(), 1, 0);
  const auto ring = make_ring_memory();
  ASSERT_EQ(send_message(sender.get(), MessageKind::ring, {}, ring->get()), 0);
  const auto ask = [&] {
    const auto before = counter_.turns.load();
    EXPECT_EQ(send_message(sender.get(), MessageKind::want_wakeup_fd, body), 0);
    EXPECT_TRUE(eventually([&] { return counter_.turns > before; }));
  };
  for (int i = 0; i < 5; ++i) ask();
  // What has been sent last is handled with it, if not before.
  ASSERT_TRUE(send(sender));
  ASSERT_TRUE(eventually([&] { return counter_.packets == 1; }));
  MessageReader reader;
  EXPECT_EQ(reader.next(sender.get()), MessageReader::Got::message);
  EXPECT_EQ(reader.kind(), MessageKind::wakeup_fd);
  EXPECT_EQ(reader.next(sender.get()), MessageReader::Got::nothing);
  ask();
  EXPECT_TRUE(eventually([&] { return reader.next(sender.get()) == MessageReader::Got::message; }))
      << "it has read the last one";
  engine_.remove_wakeup_fd(number);
}

TEST_F(SocketEngineTest, SendersThatReadNoAnswerAreLimited) {
  const DescriptorLimit limit(256);
  const auto most = max_unread_answers();
  ASSERT_EQ(most, 16U);
  std::vector<SilentSender> senders;
  const auto unread = [&] {
    return static_cast<std::size_t>(std::ranges::count_if(senders, [](const SilentSender& each) {
      return !each.is_disconnected() && each.has_answer();
    }));
  };
  for (std::size_t i = 0; i < 2 * most; ++i) {
    senders.emplace_back(subnet_.folder());
    ASSERT_TRUE(eventually([&] { return senders.back().has_answer(); })) << i;
    ASSERT_TRUE(eventually([&] { return unread() <= most; })) << i;
  }
  EXPECT_TRUE(senders.front().is_disconnected()) << "the oldest";
  EXPECT_FALSE(senders.back().is_disconnected());
}

TEST_F(SocketEngineTest, SendersThatReadTheirAnswersKeepTheirConnection) {
  const DescriptorLimit limit(256);
  std::vector<SilentSender> senders;
  for (std::size_t i = 0; i < 2 * max_unread_answers(); ++i) {
    senders.emplace_back(subnet_.folder());
    ASSERT_TRUE(eventually([&] { return senders.back().has_answer(); }));
    EXPECT_EQ(senders.back().unread_messages(), 1U);
  }
  EXPECT_TRUE(std::ranges::none_of(senders, &SilentSender::is_disconnected));
}

TEST_F(RingWireTest, ReceiversWithManyWaitersTakeFewDescriptors) {
  constexpr std::uint32_t kReceivers = 10;
  const DescriptorLimit limit(
      160);  // 40 connections, and 10 wakeup descriptors beyond one for each
  RingWire wire(subnet_.folder(), subnet_.fabric());
  const auto delivers = [&](std::uint32_t slot) {
    return eventually([&] { return send(slot, wire) == Delivery::delivered; });
  };
  const auto woken = WakeupSocket::make_shared(subnet_.folder(), 1, 0).value();
  std::vector<GuardedFd> listeners;
  std::vector<GuardedFd> connections;
  std::vector<WakeupTable> tables;
  for (std::uint32_t slot = 0; slot < kReceivers; ++slot) {
    subnet_.fabric().advance_epoch(1, slot);
    listeners.push_back(listen(slot));
    ASSERT_TRUE(delivers(slot));
    connections.push_back(accept_from(listeners.back().get()));
    tables.push_back(WakeupTable::make().value());
    ASSERT_EQ(send_message(connections.back().get(), MessageKind::wakeup_table, {},
                           tables.back().descriptor()),
              0);
  }
  const auto before = open_descriptors();
  for (std::uint32_t number = Waiter::kFirstWakeupFd; number < 20; ++number) {
    for (std::uint32_t slot = 0; slot < kReceivers; ++slot) {
      tables[slot].set_waiter(1, number);
      ASSERT_TRUE(delivers(slot));
      MessageReader reader;
      while (reader.next(connections[slot].get()) == MessageReader::Got::message) {
        if (reader.kind() != MessageKind::want_wakeup_fd) continue;
        ASSERT_EQ(send_message(connections[slot].get(), MessageKind::wakeup_fd, reader.body(),
                               woken.make_sender()->get()),
                  0);
      }
    }
  }
  EXPECT_GE(open_descriptors(), before + kReceivers);
  EXPECT_LE(open_descriptors(), before + kReceivers + max_shared_wakeup_fds());
}

TEST_F(SocketEngineTest, DisconnectsASenderOfAMadForNoPort) {
  for (const int port : {-1, 0, 3}) {
    const GuardedFd sender = connect_to(subnet_.folder(), 1, 0);
    std::vector<std::uint8_t> body;
    if (port >= 0) body.assign(1 + MadPacket::kMaxPacketSize, static_cast<std::uint8_t>(port));
    ASSERT_EQ(send_message(sender.get(), MessageKind::mad, body), 0);
    expect_disconnected(sender);
  }
  EXPECT_EQ(counter_.malformed_, 3U);
  EXPECT_EQ(counter_.packets, 0U);
}

TEST_F(RingWireTest, AStoppedEngineHasNoDescriptors) {
  const GuardedFd listener = listen(0);
  const auto before = open_descriptors();
  Counter counter;
  SocketEngine engine(listener.get(), counter);
  const GuardedFd sender = connect_to(subnet_.folder(), 1, 0);
  ASSERT_EQ(send_message(sender.get(), MessageKind::mad, std::array<std::uint8_t, 8>{1}), 0);
  ASSERT_TRUE(eventually([&] { return counter.packets == 1; }));
  EXPECT_GT(open_descriptors(), before + 1);
  engine.stop();
  EXPECT_EQ(open_descriptors(), before + 1) << "that of the sender";
  // They could be anybody's now.
  const FileDescriptor other(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  engine.wake();
  engine.set_deadline(ipoib::TimePoint());
  std::uint64_t count = 0;
  EXPECT_NE(::eventfd_read(other.get(), &count), 0);
}

/// A wire whose connections an engine watches.
class WatchingWireTest : public SocketEngineTest, private ConnectionWatcher {
 protected:
  [[nodiscard]] bool is_reported() {
    const bool is_it = eventually([&] { return counter_.ended > reported_; });
    reported_ = counter_.ended;
    return is_it;
  }
  void wait_for_a_turn() {
    const std::size_t before = counter_.turns;
    engine_.wake();
    ASSERT_TRUE(eventually([&] { return counter_.turns > before; }));
  }
  GuardedFd peer_ = RingWireTest::listen(3);
  RingWire watched_{subnet_.folder(), subnet_.fabric(), this};

 private:
  bool watch(int socket, Process process) override { return engine_.watch(socket, process); }
  void connection_ended(Process process) override { engine_.connection_ended(process); }
  std::size_t reported_ = 0;
};

TEST_F(WatchingWireTest, ReportsTheEndOfAProcessOnce) {
  const auto epoch = subnet_.fabric().advance_epoch(1, 3);
  watched_.watch({1, 3});
  watched_.watch({1, 3});
  GuardedFd connection = accept_from(peer_.get());
  ASSERT_TRUE(connection);
  EXPECT_FALSE(accept_from(peer_.get())) << "one connection does";
  wait_for_a_turn();
  EXPECT_EQ(counter_.ended, 0U);
  connection.reset();
  ASSERT_TRUE(is_reported());
  EXPECT_EQ(counter_.last_ended.address, (ProcessAddress{1, 3}));
  EXPECT_EQ(counter_.last_ended.epoch, epoch);
  wait_for_a_turn();
  EXPECT_EQ(counter_.ended, 1U);
}

TEST_F(WatchingWireTest, ReportsAProcessThatIsNotThere) {
  watched_.watch({1, 4});
  ASSERT_TRUE(is_reported());
  EXPECT_EQ(counter_.last_ended.address, (ProcessAddress{1, 4}));
}

TEST_F(WatchingWireTest, ReportsAConnectionThatItClosesItself) {
  watched_.watch({1, 3});
  watched_.disconnect();
  ASSERT_TRUE(is_reported());
  EXPECT_EQ(counter_.last_ended.address, (ProcessAddress{1, 3}));
}

TEST_F(WatchingWireTest, ReportsAProcessWhoseSlotAnotherOneHas) {
  const auto before = subnet_.fabric().advance_epoch(1, 3);
  watched_.watch({1, 3});
  subnet_.fabric().advance_epoch(1, 3);
  EXPECT_EQ(RingWireTest::send(3, watched_), Delivery::delivered);
  ASSERT_TRUE(is_reported());
  EXPECT_EQ(counter_.last_ended.epoch, before);
}

/// Blocks in its first message until `go_on`, and counts the senders that each turn accepts.
struct AcceptCounter : Counter {
  void mad_arrived(const MadOnWire& mad) override {
    Counter::mad_arrived(mad);
    go_on.wait(false);
  }
  void turn_done() override {
    const auto now = open_descriptors();
    if (now > before) most_in_a_turn = std::max(most_in_a_turn.load(), now - before);
    before = now;
    Counter::turn_done();
  }
  std::atomic<bool> go_on = false;
  std::size_t before = open_descriptors();
  std::atomic<std::size_t> most_in_a_turn = 0;
};

TEST_F(RingWireTest, AcceptsABoundedNumberOfSendersPerTurn) {
  constexpr std::size_t kSenders = 3 * kAcceptsPerTurn;
  const GuardedFd listener = listen(0);
  AcceptCounter counter;
  SocketEngine engine(listener.get(), counter);
  const std::array<std::uint8_t, 8> mad{1};
  std::vector<GuardedFd> senders;
  for (std::size_t i = 0; i <= kSenders; ++i) {
    senders.push_back(connect_to(subnet_.folder(), 1, 0));
    ASSERT_TRUE(senders.back());
    ASSERT_EQ(send_message(senders.back().get(), MessageKind::mad, mad), 0);
    if (i == 0) {
      ASSERT_TRUE(eventually([&] { return counter.packets == 1; }));
    }
  }
  counter.before = open_descriptors();
  counter.go_on = true;
  counter.go_on.notify_all();
  EXPECT_TRUE(eventually([&] { return counter.packets == kSenders + 1; }));
  EXPECT_GT(counter.most_in_a_turn, 0U);
  EXPECT_LE(counter.most_in_a_turn, kAcceptsPerTurn);
}

/// Its sender connects again, which takes a descriptor more than the disconnection has freed.
TEST_F(SocketEngineTest, MakesRoomForARingThatDidNotArrive) {
  const GuardedFd idle = connect_to(subnet_.folder(), 1, 0);
  ASSERT_TRUE(send(idle));
  ASSERT_TRUE(eventually([&] { return counter_.packets == 1; }));
  const GuardedFd sender = connect_to(subnet_.folder(), 1, 0);
  ASSERT_TRUE(send(sender));
  ASSERT_TRUE(eventually([&] { return counter_.packets == 2; }));
  const auto ring = make_ring_memory();
  const DescriptorLimit limit(64);
  const auto all = take_all_descriptors();
  ASSERT_TRUE(eventually(
      [&] { return send_message(sender.get(), MessageKind::ring, {}, ring->get()) == 0; }));
  for (const auto* const each : {&sender, &idle}) {
    pollfd closed{each->get(), POLLIN, 0};
    ASSERT_EQ(::poll(&closed, 1, 60'000), 1);
    EXPECT_NE(closed.revents & POLLHUP, 0);
  }
  EXPECT_EQ(counter_.malformed_, 0U) << "the sender has done nothing wrong";
}

TEST_F(SocketEngineTest, PausesAcceptingAndSleepsWithoutDescriptors) {
  GuardedFd sender;
  {
    const DescriptorLimit limit(64);
    auto all = take_all_descriptors();
    all.resize(all.size() - 2);
    sender = connect_to(subnet_.folder(), 1, 0);  // takes two for a moment, and keeps one
    ASSERT_TRUE(sender);
    all.push_back(std::move(take_all_descriptors().front()));
    ASSERT_TRUE(send(sender));
    const auto begun = ipoib::monotonic_now();
    ASSERT_TRUE(eventually([&] { return counter_.pauses >= 2; }));
    EXPECT_GE(ipoib::monotonic_now() - begun, kAcceptPause / 2) << "the first was before";
    EXPECT_LE(counter_.turns, 4 * counter_.pauses + 2);
  }
  EXPECT_TRUE(eventually([&] { return counter_.packets == 1; }));
}

/// Blocks in its first message until `go_on`, and counts the messages of each turn.
struct TurnCounter : Counter {
  void mad_arrived(const MadOnWire& mad) override {
    Counter::mad_arrived(mad);
    ++in_this_turn;
    go_on.wait(false);
  }
  void turn_done() override {
    most_in_a_turn = std::max(most_in_a_turn.load(), std::exchange(in_this_turn, 0));
    Counter::turn_done();
  }
  std::atomic<bool> go_on = false;
  std::size_t in_this_turn = 0;
  std::atomic<std::size_t> most_in_a_turn = 0;
};

TEST_F(LargeBatchTest, WaitsAgainForAReceiverThatTakesPackets) {
  const auto sent = send_some(batch_.size(), SendMode::non_blocking);
  ASSERT_LT(sent, batch_.size()) << "more than there is room for";
  Counter counter;
  SocketEngine engine(listener_.get(), counter);
  ASSERT_TRUE(eventually([&] { return counter.packets == sent; }));
  EXPECT_EQ(send_some(batch_.size(), SendMode::blocking), batch_.size());
}

/// The other end of a connection: the socket, and the ring that has been sent over it.
struct Receiver {
  explicit Receiver(const GuardedFd& listener) : socket(accept_from(listener.get())) {
    MessageReader reader;
    if (!socket || reader.next(socket.get()) != MessageReader::Got::message) return;
    if (auto memory = RingMemory::map(reader.fd().get())) ring.emplace(std::move(*memory));
  }
  /// Returns the number of packets.
  std::size_t take_all() {
    std::vector<ArrivedPacket> packets;
    EXPECT_TRUE(ring->read(packets, 1000));
    ring->release();
    return packets.size();
  }

  GuardedFd socket;
  std::optional<RingReader> ring;
};

/// A receiver that closes first refuses messages, then reads the ring until it is empty. What it
/// may still take is not sent again.
TEST_F(RingWireTest, SendsNothingTwiceWhileTheReceiverCloses) {
  const GuardedFd listener = listen(0);
  for (const bool has_announced : {false, true}) {
    subnet_.fabric().advance_epoch(1, 0);
    ASSERT_EQ(send(0), Delivery::delivered);
    Receiver first(listener);
    ASSERT_TRUE(first.ring);
    ASSERT_EQ(::shutdown(first.socket.get(), SHUT_RD), 0);
    if (has_announced) first.ring->set_state(ReaderState::closing);
    (void)send(0);
    std::size_t taken = first.take_all();
    first.ring->set_state(ReaderState::closed);
    for (;;) {
      Receiver other(listener);
      if (!other.ring) break;
      taken += other.take_all();
    }
    EXPECT_EQ(taken, 2U) << has_announced;
  }
}

TEST_F(LargeBatchTest, SendsAgainPacketsThatTheReceiverHasLeft) {
  ASSERT_EQ(send_some(1, SendMode::non_blocking), 1U);
  Receiver first(listener_);
  ASSERT_TRUE(first.ring);
  EXPECT_EQ(first.take_all(), 1U);
  ASSERT_EQ(::shutdown(first.socket.get(), SHUT_RD), 0);
  first.ring->set_state(ReaderState::closed);
  EXPECT_EQ(send_some(3, SendMode::non_blocking), 3U);
  Receiver second(listener_);
  ASSERT_TRUE(second.ring);
  EXPECT_EQ(second.take_all(), 3U);
  EXPECT_EQ(lost_, 0U);
}

/// That the process before did not take its packets says nothing about this one.
TEST_F(LargeBatchTest, WaitsForTheNextProcessInTheSlot) {
  ASSERT_LT(send_some(batch_.size(), SendMode::non_blocking), batch_.size());
  ASSERT_EQ(why_, Delivery::congested);
  subnet_.fabric().advance_epoch(1, 0);
  Counter counter;
  std::optional<SocketEngine> engine;
  std::thread starter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the ring is full by then
    engine.emplace(listener_.get(), counter);
  });
  EXPECT_EQ(send_some(batch_.size(), SendMode::blocking), batch_.size());
  starter.join();
}

/// A receiver that takes a packet now and then has room for one each time, and a full ring.
TEST_F(LargeBatchTest, WaitsAgainWhenHalfOfTheRingIsFree) {
  const auto fits = send_some(batch_.size(), SendMode::blocking);
  ASSERT_EQ(why_, Delivery::congested);
  const auto connection = accept_from(listener_.get());
  MessageReader reader;
  ASSERT_EQ(reader.next(connection.get()), MessageReader::Got::message);
  const auto memory = RingMemory::map(reader.fd().get()).value();
  RingReader ring(RingMemory::map(reader.fd().get()).value());
  std::vector<ArrivedPacket> packets;
  auto& sleeps = memory.header().writer_sleeps;
  sleeps = 0;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(ring.read(packets, 1));
    ring.release();
    EXPECT_EQ(send_some(2, SendMode::blocking), 1U);
    EXPECT_EQ(why_, Delivery::congested);
    ASSERT_EQ(sleeps, 0U) << "the sender has waited";
  }
  for (std::size_t i = 0; i < fits / 2 + 1; ++i) {
    ASSERT_TRUE(ring.read(packets, 1));
    ring.release();
  }
  (void)send_some(batch_.size(), SendMode::blocking);
  EXPECT_EQ(sleeps, 1U) << "the sender has not waited";
}

/// How often this thread has slept.
long sleeps() {
  rusage usage{};
  EXPECT_EQ(::getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_nvcsw;
}

TEST_F(RingWireTest, DropsAMadInsteadOfWaitingForRoom) {
  const GuardedFd listener = listen(0);
  const std::vector<std::uint8_t> mad(MadPacket::kMaxPacketSize);
  std::uint64_t lost = 0;
  const auto send_mad = [&] { return wire_.send_mad({1, 0}, {mad}, lost); };
  while (send_mad() == Delivery::delivered) {
  }
  const auto receiver = accept_from(listener.get());
  MessageReader reader;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(reader.next(receiver.get()), MessageReader::Got::message);
    const auto before = sleeps();
    EXPECT_EQ(send_mad(), Delivery::delivered);
    EXPECT_EQ(send_mad(), Delivery::congested);
    EXPECT_EQ(sleeps(), before);
  }
}

/// The engine drains the rings of its own process, so it must not sleep for room in that of
/// another.
TEST_F(LargeBatchTest, DoesNotSleepUnlessItMay) {
  ASSERT_LT(send_some(batch_.size(), SendMode::non_blocking), batch_.size());
  const auto connection = accept_from(listener_.get());
  MessageReader reader;
  ASSERT_EQ(reader.next(connection.get()), MessageReader::Got::message);
  ASSERT_EQ(reader.kind(), MessageKind::ring);
  const auto memory = RingMemory::map(reader.fd().get()).value();
  EXPECT_EQ(memory.header().writer_sleeps, 0U);
}

/// Whatever the receiver does in between: also one that takes packets, or claims to be a new
/// process.
TEST_F(RingWireTest, GoesOnWithAReceiverThatNeverFinishesClosing) {
  constexpr int kRounds = 10;
  const GuardedFd listener = listen(0);
  const TextPacket packet(TestSubnet::lid(2), TestSubnet::lid(1), QpnLayout::make(1, 0, 1), "text");
  const auto outgoing = packet.outgoing();
  const OutgoingPacket* const alone = &outgoing;
  std::vector<Receiver> receivers;
  for (int round = 0; round < kRounds; ++round) {
    if (round % 2 == 1) subnet_.fabric().advance_epoch(1, 0);
    Delivery why = Delivery::lost;
    std::uint64_t lost = 0;
    // The first may be lost on the connection that does not close.
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(wire_.send({1, 0}, 1, {&alone, 1}, SendMode::blocking, why, lost), 1U);
    }
    Receiver receiver(listener);
    ASSERT_TRUE(receiver.ring);
    EXPECT_GE(receiver.take_all(), 1U);
    receiver.ring->set_state(ReaderState::closing);
    receivers.push_back(std::move(receiver));
  }
}

TEST_F(RingWireTest, ReadsABoundedNumberOfMessagesPerTurn) {
  const GuardedFd listener = listen(0);
  TurnCounter counter;
  SocketEngine engine(listener.get(), counter);
  const GuardedFd sender = connect_to(subnet_.folder(), 1, 0);
  const std::vector<std::uint8_t> mad(1 + MadPacket::kMaxPacketSize, 1);
  std::size_t sent = 0;
  while (send_message(sender.get(), MessageKind::mad, mad) == 0) ++sent;
  EXPECT_GT(sent, kMessagesPerTurn);
  counter.go_on = true;
  counter.go_on.notify_all();
  EXPECT_TRUE(eventually([&] { return counter.packets == sent && counter.most_in_a_turn != 0; }));
  EXPECT_LE(counter.most_in_a_turn, kMessagesPerTurn);
}

TEST_F(SocketEngineTest, DoesNotSpinWhenAChildSharesItsSockets) {
  GuardedFd sender = connect_to(subnet_.folder(), 1, 0);
  ASSERT_TRUE(send(sender));
  ASSERT_TRUE(eventually([&] { return counter_.packets == 1; }));
  // Not fork(3), whose handlers would close descriptors in the child.
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    // Close the child's copy of the sender; otherwise the engine would not see its end.
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
