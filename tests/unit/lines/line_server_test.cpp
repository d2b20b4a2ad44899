#include "lines/line_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ipoib::lines {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using Protocol = LineServer::Protocol;

constexpr std::size_t kMaxLine = 64;
constexpr std::size_t kMaxStream = 100;
constexpr milliseconds kLong{60'000};

/// Answers "x" with "x!", "twice" with two answers, and "later" when told to.
class Echo : public LineHandler {
 public:
  void serve(std::string_view line, const ucred& peer, Done done) override {
    EXPECT_EQ(peer.pid, getpid());
    served.emplace_back(line);
    if (line == "later") return held.set_value(std::move(done));
    if (line == "twice") done("once\n");
    if (line == "stream") {
      return done({"open\n", [this](std::shared_ptr<LineStream> stream) {
                     stream_ = std::move(stream);
                     opened.set_value();
                   }});
    }
    done(std::string(line) + "!\n");
  }
  std::string too_long() override { return "too long\n"; }
  std::string too_many_clients() override { return "full\n"; }
  std::string too_many_streams() override { return "no stream\n"; }
  std::string lost(std::uint64_t lines) override { return "lost " + std::to_string(lines) + "\n"; }
  void on_accept_failure(const std::string& /*why*/) override {
    if (!std::exchange(has_failed_, true)) failure.set_value();
  }

  std::promise<Done> held;
  std::promise<void> failure;
  std::promise<void> opened;
  std::shared_ptr<LineStream> stream_;  ///< the last one; for the thread of the server
  std::vector<std::string> served;

 private:
  bool has_failed_ = false;
};

class Client {
 public:
  explicit Client(const Protocol::endpoint& to) : socket_(context_) {
    socket_.open();
    to_ = to;
  }
  Client& connect() {
    socket_.connect(to_);
    return *this;
  }
  Client& say(const std::string& text) {
    asio::write(socket_, asio::buffer(text));
    return *this;
  }
  /// Returns the next line, or nullopt if there is none.
  std::string hear() {
    boost::system::error_code error;
    const std::size_t size = asio::read_until(socket_, asio::dynamic_buffer(input_), '\n', error);
    if (error) return {};
    std::string line = input_.substr(0, size - 1);
    input_.erase(0, size);
    return line;
  }
  std::string ask(const std::string& line) { return say(line + "\n").hear(); }

 private:
  asio::io_context context_;
  Protocol::socket socket_;
  Protocol::endpoint to_;
  std::string input_;
};

class LineServerTest : public ::testing::Test {
 protected:
  ~LineServerTest() override { stop(); }

  void start(milliseconds idle_timeout = kLong, LineServer::Rate rate = {}, std::size_t clients = 2,
             std::size_t clients_per_user = 2) {
    make(idle_timeout, rate, clients, clients_per_user);
    run();
  }
  /// Listens; run() serves.
  void make(milliseconds idle_timeout, LineServer::Rate rate, std::size_t clients,
            std::size_t clients_per_user) {
    server_.emplace(Protocol::acceptor(context_, place_), echo_,
                    LineServer::Options{.max_line = kMaxLine,
                                        .idle_timeout = idle_timeout,
                                        .max_clients = clients,
                                        .max_clients_per_user = clients_per_user,
                                        .rate = rate,
                                        .max_streams = 1,
                                        .max_streams_per_user = 1,
                                        .max_stream_bytes = kMaxStream});
  }
  void run() {
    thread_ = std::thread([this] { context_.run(); });
  }
  LineServer::Counters counters() {
    std::promise<LineServer::Counters> out;
    asio::post(context_, [&] { out.set_value(server_->counters()); });
    return out.get_future().get();
  }
  /// Stops the server and returns its counters.
  LineServer::Counters stop() {
    if (!thread_.joinable()) return {};
    context_.stop();
    thread_.join();
    const auto counted = server_->counters();
    server_.reset();
    return counted;
  }

  static std::string unique_name() {
    static std::atomic<int> number{0};
    return std::string(1, '\0') + "lines-" + std::to_string(getpid()) + "-" +
           std::to_string(number++);
  }

  /// Opens a stream, whose first line is the response.
  void open(Client& client) {
    echo_.opened = {};
    EXPECT_EQ(client.connect().ask("stream"), "open");
    echo_.opened.get_future().wait();
  }
  /// Pushes lines of ten bytes all at once: "number 00", "number 01" ...
  void push(int from, int count) {
    on_thread([&, this] {
      for (int i = from; i < from + count; ++i) {
        const auto digits = std::string(i < 10 ? "0" : "") + std::to_string(i);
        echo_.stream_->push(std::make_shared<const std::string>("number " + digits + "\n"));
      }
    });
  }
  template <class Call>
  void on_thread(Call call) {
    std::promise<void> ran;
    asio::post(context_, [&] {
      call();
      ran.set_value();
    });
    ran.get_future().wait();
  }
  [[nodiscard]] bool is_open() {
    bool open = false;
    on_thread([&, this] { open = echo_.stream_->is_open(); });
    return open;
  }

  const Protocol::endpoint place_{unique_name()};
  asio::io_context context_;
  Echo echo_;
  std::optional<LineServer> server_;
  std::thread thread_;
};

TEST_F(LineServerTest, AnswersALineByALine) {
  start();
  Client client(place_);
  EXPECT_EQ(client.connect().ask("a"), "a!");
  client.say("b\nc\nd");
  EXPECT_EQ(client.hear(), "b!");
  EXPECT_EQ(client.hear(), "c!");
  EXPECT_EQ(client.ask("e"), "de!");
  EXPECT_EQ(stop().clients, 1U);
}

TEST_F(LineServerTest, HandlesOneLineOfAClientAtATime) {
  start();
  Client client(place_);
  client.connect().say("later\nnext\n");
  auto done = echo_.held.get_future().get();
  Client other(place_);
  EXPECT_EQ(other.connect().ask("x"), "x!") << "another client is not delayed";
  done("at last\n");
  EXPECT_EQ(client.hear(), "at last");
  EXPECT_EQ(client.hear(), "next!");
}

TEST_F(LineServerTest, IgnoresSecondAnswerToALine) {
  start();
  Client client(place_);
  EXPECT_EQ(client.connect().ask("twice"), "once");
  EXPECT_EQ(client.ask("x"), "x!");
}

TEST_F(LineServerTest, IgnoresAnswerAfterItsEnd) {
  start();
  Client client(place_);
  client.connect().say("later\n");
  auto done = echo_.held.get_future().get();
  stop();
  done("too late\n");
  context_.restart();
  context_.run();
  EXPECT_EQ(client.hear(), "");
}

TEST_F(LineServerTest, DisconnectsClientWithEndlessLine) {
  start();
  Client client(place_);
  EXPECT_EQ(client.connect().say(std::string(kMaxLine + 1, 'x')).hear(), "too long");
  EXPECT_EQ(client.hear(), "");
  EXPECT_EQ(stop().too_long, 1U);
}

TEST_F(LineServerTest, ALineMayHaveTheMaximumLength) {
  start();
  Client client(place_);
  const std::string longest(kMaxLine - 1, 'x');  // with its newline
  EXPECT_EQ(client.connect().ask(longest), longest + "!");
  EXPECT_EQ(client.say(longest + "x\n").hear(), "too long");
  EXPECT_EQ(client.hear(), "");
}

/// Connects a client once there is room for it; null if there is never any.
std::unique_ptr<Client> connected_when_free(const Protocol::endpoint& to) {
  constexpr int kAttempts = 10'000;
  for (int i = 0; i < kAttempts; ++i) {
    auto client = std::make_unique<Client>(to);
    try {
      if (client->connect().ask("x") == "x!") return client;
    } catch (const boost::system::system_error&) {
      // The server has closed the socket of a client that it refuses.
    }
    std::this_thread::yield();
  }
  return nullptr;
}

TEST_F(LineServerTest, EndedClientsMakeRoom) {
  start();
  for (int i = 0; i < 4; ++i) {
    const auto first = connected_when_free(place_);
    const auto second = connected_when_free(place_);
    ASSERT_NE(first, nullptr);
    ASSERT_NE(second, nullptr);
  }
}

TEST_F(LineServerTest, TellsRefusedClientsWhy) {
  start();
  Client first(place_);
  Client second(place_);
  Client third(place_);
  EXPECT_EQ(first.connect().ask("x"), "x!");
  EXPECT_EQ(second.connect().ask("x"), "x!");
  EXPECT_EQ(third.connect().hear(), "full");
  EXPECT_EQ(third.hear(), "");
  EXPECT_EQ(first.ask("x"), "x!");
  EXPECT_EQ(stop().refused, 1U);
}

TEST_F(LineServerTest, LimitsTheClientsOfAllUsers) {
  start(kLong, {}, 1, 9);
  Client first(place_);
  Client second(place_);
  EXPECT_EQ(first.connect().ask("x"), "x!");
  EXPECT_EQ(second.connect().hear(), "full");
}

TEST_F(LineServerTest, LimitsTheClientsOfEachUser) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  start(kLong, {}, 3, 1);
  Client first(place_);
  Client second(place_);
  Client other(place_);
  EXPECT_EQ(first.connect().ask("x"), "x!");
  EXPECT_EQ(second.connect().hear(), "full");
  ASSERT_EQ(seteuid(65534), 0);
  EXPECT_EQ(other.connect().ask("x"), "x!");
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(stop().refused, 1U);
}

TEST_F(LineServerTest, AStreamGetsLinesUntilItsClientCloses) {
  start();
  {
    Client client(place_);
    open(client);
    push(0, 2);
    EXPECT_EQ(client.hear(), "number 00");
    EXPECT_EQ(client.hear(), "number 01");
    EXPECT_TRUE(is_open());
  }
  while (is_open()) std::this_thread::yield();
  push(2, 1);  // does nothing
  EXPECT_EQ(stop().streams, 1U);
}

TEST_F(LineServerTest, AStreamLosesWhatDoesNotFitAndTellsHowMuch) {
  start();
  Client client(place_);
  open(client);
  push(0, 15);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(client.hear(), "number 0" + std::to_string(i));
  EXPECT_EQ(client.hear(), "lost 5");
  push(50, 1);
  EXPECT_EQ(client.hear(), "number 50");
  EXPECT_EQ(stop().lost, 5U);
}

TEST_F(LineServerTest, LimitsTheStreams) {
  start();
  Client first(place_);
  open(first);
  Client second(place_);
  EXPECT_EQ(second.connect().ask("stream"), "no stream");
  EXPECT_EQ(second.ask("x"), "x!") << "it may still ask";
  EXPECT_EQ(stop().refused, 1U);
}

TEST_F(LineServerTest, AStreamIsNotForRequests) {
  start();
  Client client(place_);
  open(client);
  client.say("x\n");
  EXPECT_EQ(client.hear(), "");
  Client other(place_);
  echo_.opened = {};
  other.connect().say("stream\nx\n");
  while (is_open()) std::this_thread::yield();
  (void)other.hear();
  EXPECT_EQ(other.hear(), "");
}

TEST_F(LineServerTest, AStreamMayBeSilent) {
  start(milliseconds(300));
  Client client(place_);
  open(client);
  Client idle(place_);
  idle.connect();
  EXPECT_EQ(idle.hear(), "") << "began to wait after the stream";
  push(7, 1);
  EXPECT_EQ(client.hear(), "number 07");
}

constexpr std::chrono::hours kNeverAgain{1000};

TEST_F(LineServerTest, ServesNoLineBeyondTheRate) {
  start(kLong, {3, kNeverAgain});
  Client client(place_);
  client.connect();
  for (const char* const line : {"a", "a", "b"})
    EXPECT_EQ(client.ask(line), std::string(line) + "!");
  client.say("c\nd\n");
  Client other(place_);
  other.connect().say("e\n");
  while (counters().delayed < 2) {
  }
  EXPECT_EQ(stop().delayed, 2U) << "a client waits with one line at a time";
  EXPECT_THAT(echo_.served, testing::ElementsAre("a", "a", "b"));
}

TEST_F(LineServerTest, ServesEqualWaitingLinesOnce) {
  constexpr std::size_t kClients = 20;
  make(kLong, {1, std::chrono::seconds(1)}, kClients, kClients);
  std::deque<Client> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.emplace_back(place_).connect().say(i % 4 == 0 ? "x\n" : "y\n");
  }
  run();
  for (std::size_t i = 0; i < kClients; ++i) EXPECT_EQ(clients[i].hear(), i % 4 == 0 ? "x!" : "y!");
  stop();
  EXPECT_LT(echo_.served.size(), kClients / 2);
}

TEST_F(LineServerTest, GoesOnServingAsTheRatePermits) {
  start(kLong, {1, milliseconds(20)});
  Client client(place_);
  client.connect().say("a\nb\nc\nd\n");
  for (const char* const line : {"a!", "b!", "c!", "d!"}) EXPECT_EQ(client.hear(), line);
  Client gone(place_);
  { Client(place_).connect().say("y\n"); }
  EXPECT_EQ(client.ask("z"), "z!");
}

TEST_F(LineServerTest, AClientThatWaitedIsForgotten) {
  start(milliseconds(20), {1, kNeverAgain});
  Client client(place_);
  EXPECT_EQ(client.connect().ask("x"), "x!");
  EXPECT_EQ(client.ask("y"), "") << "disconnected when it has waited for too long";
  EXPECT_EQ(stop().timeouts, 1U);
}

TEST_F(LineServerTest, DisconnectsIdleClient) {
  start(milliseconds(20));
  Client client(place_);
  EXPECT_EQ(client.connect().hear(), "");
  EXPECT_EQ(stop().timeouts, 1U);
}

TEST_F(LineServerTest, AcceptsAgainAfterRunningOutOfDescriptors) {
  start();
  Client client(place_);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  client.connect();
  echo_.failure.get_future().wait();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(client.ask("x"), "x!");
}

}  // namespace
}  // namespace ipoib::lines
