// Traffic between processes that are stopped, killed and restarted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

#include "packets.hpp"
#include "test_subnet.hpp"

namespace softib::endpoint {
namespace {

using test::eventually;
using test::Mailbox;
using test::send_text;
using test::TestSubnet;

/// A child process that runs endpoint_peer; the destructor kills it.
class Peer {
 public:
  Peer(const TestSubnet& subnet, NodeIndex node) {
    std::array<int, 2> input;
    std::array<int, 2> output;
    if (::pipe(input.data()) != 0 || ::pipe(output.data()) != 0) throw std::runtime_error("pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(input[0], STDIN_FILENO);
      ::dup2(output[1], STDOUT_FILENO);
      for (const int fd : {input[0], input[1], output[0], output[1]}) ::close(fd);
      ::execl(ENDPOINT_PEER, "endpoint_peer", subnet.folder().path().c_str(),
              std::to_string(node).c_str(), nullptr);
      ::_exit(127);
    }
    ::close(input[0]);
    ::close(output[1]);
    in_ = ::fdopen(input[1], "w");
    out_ = ::fdopen(output[0], "r");
    if (std::sscanf(line().c_str(), "ready %u %u", &slot, &epoch) != 2) {
      throw std::runtime_error("the peer did not start");
    }
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() {
    if (pid_ > 0) end(SIGKILL);
    std::fclose(in_);
    std::fclose(out_);
  }

  /// The next line of its output: a text that it received.
  std::string line() {
    std::array<char, 256> text{};
    if (std::fgets(text.data(), text.size(), out_) == nullptr) return "(the end)";
    std::string all(text.data());
    all.pop_back();
    return all;
  }
  void send(Lid lid, Qpn qpn, const std::string& word) {
    std::fprintf(in_, "send %u %u %s\n", unsigned{lid.value()}, qpn.value(), word.c_str());
    std::fflush(in_);
  }
  void signal(int number) const { ::kill(pid_, number); }
  void end(int number) {
    signal(number);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  [[nodiscard]] Qpn qpn() const { return QpnLayout::make(epoch, slot, 1); }

  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;

 private:
  pid_t pid_ = 0;
  FILE* in_ = nullptr;
  FILE* out_ = nullptr;
};

class TwoProcesses : public testing::Test {
 protected:
  TwoProcesses() { here_->set_receiver(&mailbox_); }
  ~TwoProcesses() override { here_->set_receiver(nullptr); }
  [[nodiscard]] std::uint64_t counted(fabric::PortCounter counter) const {
    return here_->counters()[static_cast<std::size_t>(counter)];
  }
  [[nodiscard]] Qpn qpn() const { return QpnLayout::make(here_->epoch(), here_->slot(), 1); }

  TestSubnet subnet_;
  Mailbox mailbox_;
  std::unique_ptr<Endpoint> here_ = subnet_.attach(1);
};

TEST_F(TwoProcesses, SendToEachOther) {
  Peer peer(subnet_, 2);
  send_text(*here_, TestSubnet::lid(2), peer.qpn(), "hello");
  EXPECT_EQ(peer.line(), "hello");
  peer.send(TestSubnet::lid(1), qpn(), "welcome");
  EXPECT_EQ(mailbox_.next_text(), "welcome");
}

TEST_F(TwoProcesses, ShareANode) {
  Peer peer(subnet_, 1);
  EXPECT_EQ(peer.slot, 1U);
  send_text(*here_, TestSubnet::lid(1), peer.qpn(), "neighbour");
  EXPECT_EQ(peer.line(), "neighbour");
}

TEST_F(TwoProcesses, CountsPacketsToAKilledProcess) {
  Peer peer(subnet_, 2);
  send_text(*here_, TestSubnet::lid(2), peer.qpn(), "hello");
  EXPECT_EQ(peer.line(), "hello");
  peer.end(SIGKILL);
  const auto drops = [&] {
    return counted(fabric::PortCounter::drop_lost_peer) +
           counted(fabric::PortCounter::drop_empty_slot);
  };
  // A process that reads its files in /proc may keep its sockets open for a moment.
  constexpr unsigned kMost = 1000;
  unsigned sent = 0;
  for (; drops() == 0 && sent < kMost; ++sent) {
    if (sent != 0) usleep(1000);
    send_text(*here_, TestSubnet::lid(2), peer.qpn(), "?");
  }
  // It may have died before it released the first packet.
  const auto first = drops();
  EXPECT_THAT(first, testing::AnyOf(sent, sent + 1));
  // The sender reclaims the slot of the dead process.
  EXPECT_EQ(subnet_.fabric().occupied(2), SlotSet());
  send_text(*here_, TestSubnet::lid(2), peer.qpn(), "?");
  EXPECT_EQ(drops(), first + 1);
}

TEST_F(TwoProcesses, ARestartedProcessGetsItsSlotAndAnotherEpoch) {
  Peer before(subnet_, 2);
  send_text(*here_, TestSubnet::lid(2), before.qpn(), "one");
  EXPECT_EQ(before.line(), "one");
  before.end(SIGKILL);
  Peer after(subnet_, 2);
  EXPECT_EQ(after.slot, before.slot);
  EXPECT_NE(after.epoch, before.epoch);
  send_text(*here_, TestSubnet::lid(2), after.qpn(), "two");
  EXPECT_EQ(after.line(), "two");
  // It may have died before it released the first packet.
  EXPECT_LE(counted(fabric::PortCounter::drop_lost_peer), 1U);
}

TEST_F(TwoProcesses, MulticastSkipsDeadProcesses) {
  Peer peer(subnet_, 2);
  Peer other(subnet_, 2);
  subnet_.set_group(Lid(0xc000), {1, 2});
  peer.end(SIGKILL);
  for (int i = 0; i < 2; ++i) {
    send_text(*here_, Lid(0xc000), ipoib::kMulticastQpn, "all");
    EXPECT_EQ(other.line(), "all");
    EXPECT_EQ(mailbox_.next_text(), "all");
  }
  EXPECT_EQ(counted(fabric::PortCounter::multicast_copies), 4U);
  EXPECT_EQ(counted(fabric::PortCounter::drop_empty_slot), 1U);
}

TEST_F(TwoProcesses, WaitsOnceForAStoppedProcessWhichContinuesLater) {
  Peer peer(subnet_, 2);
  peer.signal(SIGSTOP);
  // NUL characters, of which the peer prints only newlines: nothing reads its pipe yet.
  const std::string text(4000, '\0');
  while (counted(fabric::PortCounter::drop_congested) == 0) {
    send_text(*here_, TestSubnet::lid(2), peer.qpn(), text);
  }
  send_text(*here_, TestSubnet::lid(1), qpn(), "others");
  EXPECT_EQ(mailbox_.next_text(), "others");
  peer.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] {
    const auto dropped = counted(fabric::PortCounter::drop_congested);
    send_text(*here_, TestSubnet::lid(2), peer.qpn(), "again");
    return counted(fabric::PortCounter::drop_congested) == dropped;
  }));
}

TEST_F(TwoProcesses, ManyProcessesReceiveEveryBroadcast) {
  constexpr int kPeers = 32;
  constexpr int kRounds = 20;
  subnet_.set_group(Lid(0xc000), {1, 2});
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < kPeers; ++i) {
    peers.push_back(std::make_unique<Peer>(subnet_, static_cast<NodeIndex>(1 + i % 2)));
  }
  for (int round = 0; round < kRounds; ++round) {
    const std::string word = "round" + std::to_string(round);
    send_text(*here_, Lid(0xc000), ipoib::kMulticastQpn, word);
    for (auto& peer : peers) ASSERT_EQ(peer->line(), word);
    EXPECT_EQ(mailbox_.next_text(), word);
  }
  // Then all of them send back at the same time.
  for (auto& peer : peers) {
    for (int round = 0; round < kRounds; ++round) peer->send(TestSubnet::lid(1), qpn(), "back");
  }
  for (int i = 0; i < kPeers * kRounds; ++i) ASSERT_EQ(mailbox_.next_text(), "back");
}

}  // namespace
}  // namespace softib::endpoint
