// The daemon in place of ibacm: its socket, and its clients, on an io_context of the test.
#include "daemon/acm/server.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "ipoib/monotonic_clock.hpp"
#include "ipoib/unix_path.hpp"
#include "tests/unit/control/temporary_run_folder.hpp"
#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::daemon::acm {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using wire::acm::Status;

const IpAddress kPeer = *parse_ip_address("10.44.0.2");
constexpr std::size_t kRequest = wire::acm::kHeaderSize + wire::acm::kEntrySize;

/// A request for the path to kPeer.
std::vector<std::uint8_t> request() {
  std::vector<std::uint8_t> out(kRequest);
  out[0] = out[1] = 1;
  store_native(&out[6], static_cast<std::uint16_t>(kRequest));
  out[8] = 77;
  store_native(&out[16], 2U);
  store_native(&out[20], std::uint16_t{2});
  std::ranges::copy(std::get<Ipv4Address>(kPeer).bytes(), &out[24]);
  return out;
}

class Program {
 public:
  explicit Program(const std::string& path) {
    const auto to = UnixPath::of(path).value();
    connected_ = ::connect(socket_.get(), to.address(), UnixPath::size()) == 0;
  }
  [[nodiscard]] bool is_connected() const { return connected_; }
  void send(const std::vector<std::uint8_t>& bytes) const {
    ASSERT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// Bytes that have arrived; nullopt: the server has closed the connection.
  [[nodiscard]] std::optional<std::vector<std::uint8_t>> receive() const {
    std::vector<std::uint8_t> out(wire::acm::kMaxMessage);
    const auto size = ::recv(socket_.get(), out.data(), out.size(), MSG_DONTWAIT);
    if (size == 0 || (size < 0 && errno != EAGAIN)) return std::nullopt;
    out.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return out;
  }
  /// The status of the response that has arrived; nullopt: none.
  [[nodiscard]] std::optional<Status> status() const {
    const auto bytes = receive();
    if (!bytes || bytes->size() < wire::acm::kHeaderSize) return std::nullopt;
    EXPECT_EQ((*bytes)[8], 77) << "the transaction";
    return static_cast<Status>((*bytes)[2]);
  }
  [[nodiscard]] bool is_closed() const { return !receive().has_value(); }

 private:
  const FileDescriptor socket_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  bool connected_ = false;
};

class AcmServer : public testing::Test {
 protected:
  void serve(const Server::Limits& limits = {}) {
    server_.emplace(
        context_, socket_,
        [this](const wire::acm::Wanted& wanted, Server::Done done) {
          EXPECT_EQ(wanted.destination, kPeer);
          if (!holds_) return done(answer_);
          held_.push_back(std::move(done));
        },
        *link::silent_logger(), limits);
  }
  void run() {
    context_.restart();
    context_.poll();
  }
  void run_until(const std::function<bool()>& condition) {
    const auto end = monotonic_now() + 10s;
    while (!condition()) {
      ASSERT_LT(monotonic_now(), end);
      context_.restart();
      context_.run_for(1ms);
    }
  }
  [[nodiscard]] std::string path() const { return control::kRunFolder.path() + "/ibacm.sock"; }
  [[nodiscard]] const Counters& counters() const { return socket_.counters; }

  boost::asio::io_context context_;
  Socket socket_ = Socket::open({}, 0).value();
  Server::Answer answer_ = wire::acm::Found{};
  bool holds_ = false;
  std::vector<Server::Done> held_;
  std::optional<Server> server_;
};

TEST_F(AcmServer, AnswersRequests) {
  serve();
  const Program program(path());
  for (int i = 0; i < 3; ++i) {
    program.send(request());
    run();
    EXPECT_EQ(program.status(), Status::success);
  }
  answer_ = Status::destination_address;
  program.send(request());
  run();
  EXPECT_EQ(program.status(), Status::destination_address);
  EXPECT_EQ(counters().clients, 1U);
  EXPECT_EQ(counters().requests, 4U);
  EXPECT_EQ(counters().failed, 1U);
}

TEST_F(AcmServer, AMessageMayComeInPieces) {
  serve();
  const Program program(path());
  for (const std::uint8_t byte : request()) {
    run();
    EXPECT_THAT(*program.receive(), IsEmpty());
    program.send({byte});
  }
  auto two = request();
  const auto other = request();
  two.insert(two.end(), other.begin(), other.end());
  program.send(two);
  run();
  EXPECT_THAT(*program.receive(), SizeIs(3 * kRequest));
}

TEST_F(AcmServer, RefusesABadRequestAndEndsAConnectionWhoseNextMessageIsUnknown) {
  serve();
  const Program program(path());
  auto bad = request();
  store_native(&bad[20], std::uint16_t{1});  // a host name
  program.send(bad);
  run();
  EXPECT_EQ(program.status(), Status::destination_type);
  bad[0] = 9;
  program.send(bad);
  run();
  EXPECT_TRUE(program.is_closed());
  EXPECT_EQ(counters().bad_requests, 2U);
  EXPECT_EQ(counters().requests, 0U);
}

TEST_F(AcmServer, ServesOneRequestOfAClientAtATime) {
  serve();
  holds_ = true;
  const Program one(path());
  const Program other(path());
  one.send(request());
  one.send(request());
  other.send(request());
  run();
  ASSERT_THAT(held_, SizeIs(2)) << "one of each";
  held_[1](Status::no_data);
  held_[1](Status::no_memory);  // only the first answer counts
  run();
  EXPECT_EQ(other.status(), Status::no_data);
  EXPECT_THAT(*other.receive(), IsEmpty());
}

TEST_F(AcmServer, LimitsClientsAndThoseOfAUser) {
  serve({.clients = 3, .clients_per_user = 2});
  const Program one(path());
  {
    const Program gone(path());
    run();
  }
  run();
  const Program two(path());
  const Program three(path());
  run();
  EXPECT_FALSE(two.is_closed());
  EXPECT_TRUE(three.is_closed());
  EXPECT_EQ(counters().refused, 1U);
  one.send(request());
  run();
  EXPECT_EQ(one.status(), Status::success);
}

TEST_F(AcmServer, SaysWhyItCannotAcceptAClientAndAcceptsItLater) {
  serve();
  const link::LoggedLines lines;
  const Program program(path());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const FileDescriptor lowest(::dup(STDERR_FILENO));
  const auto none_is_left = static_cast<rlim_t>(lowest.get());
  const rlimit limit{none_is_left, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  run_until([&] { return !lines.all().empty(); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(lines.all(), ElementsAre(testing::HasSubstr(
                               "cannot accept a client of librdmacm: Too many open files; trying "
                               "again")));
  program.send(request());
  std::optional<Status> status;
  run_until([&] { return (status = program.status()).has_value(); });
  EXPECT_EQ(status, Status::success);
}

TEST_F(AcmServer, LimitsTheRateOfAUser) {
  serve({.rate_per_user = 20});  // 5 at once, then one each 50 ms
  const Program program(path());
  for (int i = 0; i < 6; ++i) program.send(request());
  const auto start = monotonic_now();
  std::size_t answered = 0;
  run_until([&] {
    answered += program.receive()->size() / kRequest;
    return answered == 6;
  });
  EXPECT_GE(monotonic_now() - start, 45ms);
  EXPECT_EQ(counters().delayed, 1U);
}

TEST_F(AcmServer, RefusesARequestThatNobodyAnswers) {
  serve({.answer_timeout = 20ms});
  holds_ = true;
  const Program program(path());
  program.send(request());
  std::optional<Status> status;
  run_until([&] { return (status = program.status()).has_value(); });
  EXPECT_EQ(status, Status::timed_out);
  held_.at(0)(Status::no_data);
  run();
  EXPECT_THAT(*program.receive(), IsEmpty());
}

TEST_F(AcmServer, ClientsStayConnectedFromOneServerToTheNext) {
  serve();
  const Program idle(path());
  const Program waiting(path());
  const Program within(path());
  holds_ = true;
  waiting.send(request());
  within.send({1, 1});
  run();
  server_.reset();
  EXPECT_EQ(waiting.status(), Status::no_data);
  EXPECT_THAT(socket_.clients, SizeIs(2));
  const Program early(path());
  early.send(request());
  holds_ = false;
  serve();
  EXPECT_THAT(socket_.clients, IsEmpty());
  idle.send(request());
  waiting.send(request());
  run();
  EXPECT_EQ(early.status(), Status::success);
  EXPECT_EQ(idle.status(), Status::success);
  EXPECT_EQ(waiting.status(), Status::success);
  EXPECT_TRUE(within.is_closed()) << "where its message goes on is not known";
  held_.at(0)(Status::no_memory);  // for the server before
}

// --- The socket ----------------------------------------------------------------------------------

mode_t mode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
}

TEST(AcmSocket, IsForThoseWhoMayRead) {
  const std::string path = control::kRunFolder.path() + "/ibacm.sock";
  {
    const auto socket = Socket::open({}, 0).value();
    EXPECT_EQ(mode_of(path), 0666U);
  }
  EXPECT_EQ(mode_of(path), 0U) << "removed";
  {
    const auto socket = Socket::open({::getgid(), "own", true}, 0).value();
    EXPECT_EQ(mode_of(path), 0660U);
  }
  const auto socket = Socket::open({std::nullopt, "", true}, 0).value();
  EXPECT_EQ(mode_of(path), 0600U);
}

TEST(AcmSocket, OnlyThatOfThePredecessorIsReplaced) {
  const std::string path = control::kRunFolder.path() + "/ibacm.sock";
  std::optional<Socket> before(Socket::open({}, 0).value());
  EXPECT_EQ(Socket::open({}, 0).error().code, EADDRINUSE);
  EXPECT_EQ(Socket::open({}, ::getpid() + 1).error().code, EADDRINUSE);
  const auto after = Socket::open({}, ::getpid()).value();
  before.reset();
  EXPECT_TRUE(Program(path).is_connected()) << "its name is still there";
}

TEST(AcmSocket, IsReplacedIfItsProcessHasDied) {
  const std::string path = control::kRunFolder.path() + "/ibacm.sock";
  {
    const FileDescriptor dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto to = UnixPath::of(path).value();
    ASSERT_EQ(::bind(dead.get(), to.address(), UnixPath::size()), 0);
  }
  EXPECT_TRUE(Socket::open({}, 0).has_value());
}

TEST(AcmSocket, LinkFromTheNameThatProgramsKnow) {
  const auto& system = control::kRunFolder.path();
  const std::string run = system + "/ipoibd";
  const std::string name = system + "/ibacm.sock";
  std::filesystem::create_directory(run);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(link_socket(run, system));
    EXPECT_EQ(std::filesystem::read_symlink(name), "ipoibd/ibacm.sock");
  }
  std::filesystem::remove(name);
  std::filesystem::create_symlink("nowhere", name);
  ASSERT_TRUE(link_socket(run, system));
  EXPECT_EQ(std::filesystem::read_symlink(name), "ipoibd/ibacm.sock");
  std::filesystem::remove(name);
  {
    const auto other = Socket::open({}, 0).value();  // of ibacm itself, for example
    EXPECT_EQ(link_socket(run, system).error().code, EADDRINUSE);
    EXPECT_TRUE(Program(name).is_connected());
  }
  EXPECT_TRUE(link_socket("/elsewhere/ipoibd", system));
  EXPECT_FALSE(std::filesystem::exists(name)) << "the run folder of a test";
  std::filesystem::remove_all(run);
}

}  // namespace
}  // namespace ipoib::daemon::acm
