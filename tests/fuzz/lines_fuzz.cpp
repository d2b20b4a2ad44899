// The server of the control sockets with clients that send anything, in pieces, and close at any
// time. Each client gets the response to each of its lines, in order, and nothing else; a line that
// is too long ends it.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <deque>
#include <string>
#include <utility>

#include "cost.hpp"
#include "ipoib/file_descriptor.hpp"
#include "lines/line_server.hpp"
#include "require.hpp"

using namespace ipoib;
using lines::LineServer;

namespace {

constexpr std::size_t kMaxLine = 64;
constexpr std::size_t kMaxClients = 4;
constexpr std::size_t kMaxOfUser = 3;
constexpr std::size_t kMaxSteps = 256;
constexpr std::uint64_t kMaxCost = 50'000;  // for each line that may wait, and a few more

/// Responds to "x" with "x!", at once or when told to.
class Echo : public lines::LineHandler {
 public:
  void serve(std::string_view line, const ucred& peer, Done done) override {
    require(line.size() < kMaxLine && line.find('\n') == line.npos && peer.pid == ::getpid());
    waiting_.emplace_back(std::string(line) + "!\n", std::move(done));
    if (!holds) answer();
  }
  std::string too_long() override { return "too long\n"; }
  std::string too_many_clients() override { return "full\n"; }
  void on_accept_failure(const std::string& /*why*/) override { require(false); }

  /// Responds to the line that has waited longest; a second response changes nothing.
  bool answer() {
    if (waiting_.empty()) return false;
    const auto [response, done] = std::move(waiting_.front());
    waiting_.pop_front();
    done(response);
    done("twice\n");
    return true;
  }
  void forget() { waiting_.clear(); }
  bool holds = false;

 private:
  std::deque<std::pair<std::string, Done>> waiting_;
};

class World {
 public:
  World() = default;
  [[nodiscard]] FileDescriptor connect() const {
    FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    require(::connect(socket.get(), place_.data(), static_cast<socklen_t>(place_.size())) == 0);
    return socket;
  }
  void run() {
    while (context_.poll() > 0) {
    }
  }
  Echo echo;

 private:
  [[nodiscard]] static std::string name() {
    return std::string(1, '\0') + "lines-fuzz-" + std::to_string(::getpid());
  }
  const LineServer::Protocol::endpoint place_{name()};
  boost::asio::io_context context_;
  LineServer server_{LineServer::Protocol::acceptor(context_, place_), echo,
                     LineServer::Options{.max_line = kMaxLine,
                                         .idle_timeout = std::chrono::hours(1),
                                         .max_clients = kMaxClients,
                                         .max_clients_per_user = kMaxOfUser}};
};

class Client {
 public:
  explicit Client(FileDescriptor socket) : socket_(std::move(socket)) {}

  void send(std::string text) {
    if (has_shut_down_) return;
    const auto sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0) return require(errno == EPIPE && (is_refused_ || expected_.ends_with("long\n")));
    require(sent == static_cast<ssize_t>(text.size()));
    for (const char c : text) expect(c);
  }
  void shut_down() {
    has_shut_down_ = true;
    (void)::shutdown(socket_.get(), SHUT_WR);
  }
  /// Reads what has come, which begins as expected.
  void read() {
    std::array<char, 4096> room;
    for (;;) {
      const auto size = ::recv(socket_.get(), room.data(), room.size(), 0);
      if (size < 0) {
        is_ended_ = errno != EAGAIN;
        break;
      }
      is_ended_ = size == 0;
      if (is_ended_) break;
      got_.append(room.data(), static_cast<std::size_t>(size));
    }
    if (got_ == "full\n" && is_ended_) is_refused_ = true;
    require(is_refused_ || expected_.starts_with(got_));
  }
  [[nodiscard]] bool is_ended() const { return is_ended_; }
  /// Nothing is missing.
  [[nodiscard]] bool is_complete() const {
    return is_refused_ || (got_ == expected_ && is_ended_ == (is_too_long_ || has_shut_down_));
  }

 private:
  void expect(char c) {
    if (is_too_long_) return;
    line_.push_back(c);
    if (c == '\n') {
      expected_ += line_.substr(0, line_.size() - 1) + "!\n";
      line_.clear();
    } else if (line_.size() >= kMaxLine) {
      expected_ += "too long\n";
      is_too_long_ = true;
    }
  }
  FileDescriptor socket_;
  std::string line_;
  std::string expected_;
  std::string got_;
  bool is_too_long_ = false;
  bool has_shut_down_ = false;
  bool is_ended_ = false;
  bool is_refused_ = false;
};

/// Bytes of the input, in which line ends are frequent.
std::string text_of(ByteReader& in) {
  std::string text;
  for (const auto byte : in.take(std::min<std::size_t>(in.u8() % 100, in.left()))) {
    text.push_back(byte % 16 == 0 ? '\n' : static_cast<char>(byte));
  }
  return text;
}

void run(ByteReader in, World& world) {
  const std::size_t size = in.left();
  std::deque<Client> clients;
  const auto any = [&]() -> Client* {
    const std::uint8_t pick = in.u8();
    return clients.empty() ? nullptr : &clients[pick % clients.size()];
  };
  for (std::size_t step = 0; step < kMaxSteps && in.left() > 0; ++step) {
    const CostLimit limit(kMaxCost, 16 + size - in.left());  // each byte may be a line
    switch (in.u8() % 8) {
      case 0:
        if (clients.size() < 2 * kMaxClients) clients.emplace_back(world.connect());
        break;
      case 1:
        world.echo.holds = in.u8() % 2 == 0;
        break;
      case 2:
        (void)world.echo.answer();
        break;
      case 3:
        if (!clients.empty()) clients.pop_front();
        break;
      case 4:
        if (Client* const client = any(); client != nullptr && in.u8() % 4 == 0)
          client->shut_down();
        break;
      default:
        if (Client* const client = any()) client->send(text_of(in));
        break;
    }
    world.run();
    for (Client& client : clients) client.read();
    require(std::ranges::count_if(clients, [](const Client& one) { return !one.is_ended(); }) <=
            std::ptrdiff_t{kMaxOfUser});
  }
  world.echo.holds = false;
  while (world.echo.answer()) world.run();
  world.run();
  for (Client& client : clients) {
    client.read();
    require(client.is_complete());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World& world = *new World;  // never destroyed: it serves until the end
  run(ByteReader({data, size}), world);
  world.run();  // the server sees that the clients are gone
  world.echo.forget();
  return 0;
}
