// Captures that begin and end while an endpoint exists; `softib capture` itself is tested as a
// program (tests/unit/softib/cli/capture_test.py).
#include "softib/endpoint/live_captures.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "erf/capture_messages.hpp"
#include "packets.hpp"
#include "softib/transport/unix_socket.hpp"
#include "test_subnet.hpp"

namespace softib::endpoint {
namespace {

using test::eventually;
using test::Mailbox;
using test::send_text;
using test::TestSubnet;

constexpr fabric::CaptureId kId = 77;

/// The socket of a process that captures, and its connections.
class Capturer {
 public:
  explicit Capturer(const fabric::SubnetFolder& folder)
      : listener_(
            transport::listen_at(folder.open().value().get(), fabric::capture_name(kId)).value()) {}

  /// Packets that have come: LRH to padding, with the direction.
  struct Packet {
    bool is_received = false;
    std::vector<std::uint8_t> bytes;
  };
  [[nodiscard]] const std::vector<Packet>& packets() {
    while (auto connection = transport::accept_from(listener_.get())) {
      connections_.push_back(std::move(connection));
    }
    std::vector<std::uint8_t> message(ipoib::erf::kMaxCaptureMessage);
    for (auto& connection : connections_) {
      ssize_t size = 0;
      while (connection &&
             (size = ::recv(connection.get(), message.data(), message.size(), MSG_DONTWAIT)) > 0) {
        ipoib::erf::CaptureMessageReader reader(
            ipoib::ConstBytes(message).first(static_cast<std::size_t>(size)));
        lost_ += reader.lost();
        while (const auto record = reader.next()) {
          packets_.push_back({record->is_received, {record->packet.begin(), record->packet.end()}});
        }
      }
      if (connection && size == 0) {
        connection.reset();
        ++ended_;
      }
    }
    return packets_;
  }
  [[nodiscard]] std::size_t connections() {
    (void)packets();
    return connections_.size();
  }
  [[nodiscard]] std::size_t ended() {
    (void)packets();
    return ended_;
  }
  [[nodiscard]] std::uint64_t lost() {
    (void)packets();
    return lost_;
  }
  void end() { connections_.clear(); }

 private:
  transport::GuardedFd listener_;
  std::vector<transport::GuardedFd> connections_;
  std::vector<Packet> packets_;
  std::size_t ended_ = 0;
  std::uint64_t lost_ = 0;
};

class LiveCaptures : public testing::Test {
 protected:
  LiveCaptures() {
    one_->set_receiver(&first_);
    two_->set_receiver(&second_);
  }
  ~LiveCaptures() override {
    one_->set_receiver(nullptr);
    two_->set_receiver(nullptr);
  }
  void set_captures(NodeIndex node, const fabric::NodeCaptures& captures) {
    subnet_.fabric().set_captures(node, fabric::encode(captures));
    ASSERT_TRUE(one_->wake_processes(node));
  }
  void begin(NodeIndex node, bool received) {
    const auto before = capturer_.connections();
    set_captures(node, {{kId, received}});
    ASSERT_TRUE(eventually([&] { return capturer_.connections() > before; }));
  }
  void send(const std::string& text) {
    send_text(*one_, TestSubnet::lid(2), QpnLayout::make(two_->epoch(), two_->slot(), 1), text);
    ASSERT_EQ(second_.next_text(), text);
  }
  void send_more_than_there_is_room_for() {
    const std::string text(2000, 'x');
    for (int i = 0; i < kPackets; ++i) {
      send_text(*one_, TestSubnet::lid(2), QpnLayout::make(two_->epoch(), two_->slot(), 1), text);
    }
  }
  [[nodiscard]] bool has(std::size_t packets) {
    return eventually([&] { return capturer_.packets().size() >= packets; }) &&
           capturer_.packets().size() == packets;
  }

  static constexpr int kPackets = 5000;  // more than a queue of at most 2 MB has room for

  TestSubnet subnet_;
  Mailbox first_;
  Mailbox second_;
  std::unique_ptr<Endpoint> one_ = subnet_.attach(1);
  std::unique_ptr<Endpoint> two_ = subnet_.attach(2);
  Capturer capturer_{subnet_.folder()};
};

TEST_F(LiveCaptures, BeginAndEndBetweenPackets) {
  send("before");
  begin(1, false);
  send("captured");
  ASSERT_TRUE(has(1));
  EXPECT_FALSE(capturer_.packets()[0].is_received);
  const auto& bytes = capturer_.packets()[0].bytes;
  EXPECT_NE(std::string(bytes.begin(), bytes.end()).find("captured"), std::string::npos);
  set_captures(1, {});
  ASSERT_TRUE(eventually([&] { return capturer_.ended() == 1; }));
  send("after");
  EXPECT_EQ(capturer_.packets().size(), 1U);
}

TEST_F(LiveCaptures, AlsoOfWhatIsReceived) {
  begin(2, true);
  send("to two");
  ASSERT_TRUE(has(1));
  EXPECT_TRUE(capturer_.packets()[0].is_received);
}

TEST_F(LiveCaptures, OfWhatIsSentOnly) {
  begin(2, false);
  send("to two");
  begin(1, false);
  send("captured by its sender");
  EXPECT_TRUE(has(1));
}

TEST_F(LiveCaptures, BeginWithANewProcess) {
  set_captures(1, {{kId, false}});
  ASSERT_TRUE(eventually([&] { return capturer_.connections() == 1; }));
  const auto another = subnet_.attach(1);
  // Its first packet is captured, although nobody has waited for anything.
  send_text(*another, TestSubnet::lid(2), QpnLayout::make(two_->epoch(), two_->slot(), 1), "hello");
  EXPECT_TRUE(has(1));
}

TEST_F(LiveCaptures, CountWhatThereIsNoRoomFor) {
  begin(1, false);
  send_more_than_there_is_room_for();
  const auto captured = capturer_.packets().size();
  EXPECT_LT(captured, std::size_t{kPackets});
  send_text(*one_, TestSubnet::lid(2), QpnLayout::make(two_->epoch(), two_->slot(), 1), "last");
  ASSERT_TRUE(eventually([&] { return capturer_.lost() != 0; }));
  EXPECT_EQ(capturer_.packets().size() + capturer_.lost(), std::size_t{kPackets} + 1);
}

TEST_F(LiveCaptures, SayAtTheEndWhatThereWasNoRoomForAlthoughThereIsNone) {
  begin(1, false);
  send_more_than_there_is_room_for();
  set_captures(1, {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the queue is still full
  ASSERT_TRUE(
      eventually([&] { return capturer_.packets().size() != 0 && capturer_.ended() == 1; }));
  EXPECT_EQ(capturer_.packets().size() + capturer_.lost(), std::size_t{kPackets});
}

TEST_F(LiveCaptures, SurviveTheEndOfWhoCaptures) {
  begin(1, false);
  capturer_.end();
  send("nobody reads");
  send("nobody reads again");
  EXPECT_TRUE(capturer_.packets().empty());
}

TEST_F(LiveCaptures, PassNothingOnToWhoDoesNotListen) {
  set_captures(1, {{kId + 1, false}});
  send("no socket");
  EXPECT_EQ(capturer_.connections(), 0U);
}

TEST_F(LiveCaptures, PassesNothingOnToOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  // The listener is of root; the folder of another user. Root is trusted, so the listener must be
  // of a third one: the child listens after it has changed its user.
  const auto folder = subnet_.folder();
  std::array<int, 2> ready{};
  std::array<int, 2> done{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  ASSERT_EQ(::pipe(done.data()), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  ASSERT_EQ(::chmod((folder.path() + "/..").c_str(), 0755), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    char byte = 0;
    ::close(done[1]);
    if (::setuid(kNobody) != 0) {
      byte = 's';
      (void)!::write(ready[1], &byte, 1);
      ::_exit(0);
    }
    const auto at = folder.open();
    auto listener = at ? transport::listen_at(at->get(), fabric::capture_name(kId + 2))
                       : ipoib::Result<transport::GuardedFd>(at.error());
    byte = listener ? 'y' : 'n';
    (void)!::write(ready[1], &byte, 1);
    (void)!::read(done[0], &byte, 1);
    // Whether a connection has come, and stayed.
    bool has_packets = false;
    if (auto connection = transport::accept_from(listener->get())) {
      std::array<char, 16> bytes{};
      has_packets = ::recv(connection.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0;
    }
    ::_exit(has_packets ? 2 : 0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  if (byte == 's') GTEST_SKIP() << "cannot change the user";
  ASSERT_EQ(byte, 'y');
  set_captures(1, {{kId + 2, false}, {kId, false}});
  ASSERT_TRUE(eventually([&] { return capturer_.connections() == 1; }));
  send("secret");
  ASSERT_TRUE(has(1));
  (void)!::write(done[1], &byte, 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (const int each : {ready[0], ready[1], done[0], done[1]}) ::close(each);
}

TEST(CaptureSlots, AreAWord) {
  using fabric::NodeCaptures;
  const NodeCaptures captures{{1, false}, {fabric::kMaxCaptureId, true}, {3, false}, {4, true}};
  EXPECT_EQ(fabric::decode_captures(fabric::encode(captures)), captures);
  EXPECT_EQ(fabric::decode_captures(0), NodeCaptures{});
  EXPECT_EQ(fabric::decode_captures(0x8000), NodeCaptures{}) << "no id";
  EXPECT_LE(fabric::decode_captures(~std::uint64_t{0}).size(), fabric::kMaxCaptures);
}

}  // namespace
}  // namespace softib::endpoint
