#include "control/connection.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "control/capture_connection.hpp"
#include "left_over.hpp"
#include "line_client.hpp"
#include "running_server.hpp"
#include "tests/support/emulator.hpp"

namespace ipoib::control {
namespace {

using std::chrono::milliseconds;
using testing::EndsWith;
using testing::IsSupersetOf;
using testing::StartsWith;

const Request kInfoRequest = InterfaceRequest(InfoRequest{});

/// A daemon that sends a fixed text to each client and closes.
class FixedTextServer {
 public:
  explicit FixedTextServer(std::string says)
      : name_(RunningServer::unique_name()),
        folder_(SocketFolder::take(own_network_namespace().value(), name_, {}).value()) {
    const auto listener = folder_.take_control_socket();
    EXPECT_EQ(::fcntl(listener.get(), F_SETFL, 0), 0) << "blocks";
    thread_ = std::thread([listener = ::dup(listener.get()), text = std::move(says)] {
      const FileDescriptor owner(listener);
      const FileDescriptor client(accept(listener, nullptr, nullptr));
      std::string_view left = text;
      while (!left.empty()) {
        const ssize_t n = send(client.get(), left.data(), left.size(), MSG_NOSIGNAL);
        if (n < 0) break;
        left.remove_prefix(static_cast<std::size_t>(n));
      }
    });
  }
  ~FixedTextServer() { thread_.join(); }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
  SocketFolder folder_;
  std::thread thread_;
};

/// The error code of the response, and its message in `why`.
int code_of_response(const std::string& says, std::string& why) {
  const FixedTextServer server(says);
  Connection connection(server.name());
  const Response response = connection.ask(kInfoRequest);
  why = response.has_error() ? response.error().message : "";
  return response.has_error() ? response.error().code : 0;
}

TEST(Connection, RejectsInvalidResponses) {
  std::string why;
  EXPECT_EQ(code_of_response("HTTP/1.1 400 Bad Request\r\n", why), EPROTO);
  EXPECT_EQ(code_of_response("{\"ok\":true}\n", why), EPROTO);
  EXPECT_EQ(code_of_response("{\"ok\":tr", why), EPIPE);
  EXPECT_EQ(code_of_response("", why), EPIPE);
  EXPECT_THAT(why, EndsWith(": ipoibd has closed the connection: see its log, or try again"));
}

TEST(Connection, RejectsEndlessResponse) {
  std::string why;
  EXPECT_EQ(code_of_response(std::string(2 * kMaxResponseLine, ' '), why), EPROTO);
  EXPECT_THAT(why, EndsWith(": the response of ipoibd is too long: restart it, or run the ibarp of "
                            "its version"));
}

TEST(Connection, AcceptsLongResponse) {
  RunningServer server;
  InterfaceInfo info;
  info.groups.resize(5000);
  server.handler.put(info);
  Connection connection(server.name());
  const Response response = connection.ask(kInfoRequest);
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(std::get<InterfaceInfo>(*response).groups.size(), 5000U);
}

TEST(Connection, ReportsResponseThatIsTooLong) {
  RunningServer server;
  InterfaceInfo info;
  info.waiting_for.assign(kMaxResponseLine, 'x');
  server.handler.put(info);
  Connection connection(server.name());
  const Response response = connection.ask(kInfoRequest);
  ASSERT_TRUE(response.has_error());
  EXPECT_EQ(response.error().code, EMSGSIZE);
  EXPECT_EQ(response.error().message,
            "the response is longer than a line may be: ask for less, or run the ibarp of this "
            "version");
}

TEST(Connection, KnowsNamesThatNoInterfaceHas) {
  EXPECT_EQ(Connection("a/b").open().error().message,
            "\"a/b\" cannot be the name of an interface: 1 to 15 characters without / and blanks");
}

TEST(Connection, SaysIfTheDaemonCannotCapture) {
  const FixedTextServer server("");
  Connection connection(server.name());
  EXPECT_THAT(CaptureConnection::begin(connection, {}).error().message,
              EndsWith(": its ipoibd cannot capture: restart it"));
}

TEST(Connection, SaysIfTheDaemonIsSilent) {
  RunningServer server;
  server.on_capture = [kept = std::make_shared<FileDescriptor>()](const auto&, auto connection) {
    *kept = std::move(connection);
  };
  server.handler.hold();
  Connection connection(server.name());
  connection.set_timeout(milliseconds(10));
  EXPECT_THAT(connection.ask(kInfoRequest).error().message,
              EndsWith(": ipoibd does not respond: see its log, or restart it"));
  const auto late = CaptureConnection::begin(connection, {}).error();
  EXPECT_EQ(late.code, ETIMEDOUT);
  EXPECT_THAT(late.message,
              EndsWith(": ipoibd does not respond to the request for a capture: see its log, or "
                       "restart it"));
  server.handler.release();
  Connection events(server.name());
  const Request subscription = InterfaceRequest(SubscribeRequest{{.link = true}});
  ASSERT_TRUE(events.ask(subscription).has_value());
  EXPECT_THAT(events.next_event(milliseconds(0)).error().message,
              EndsWith(": no event has come within the time-out"));
}

/// Its queue of connections is full.
TEST(Connection, SaysIfTheDaemonAcceptsNone) {
  const auto name = RunningServer::unique_name();
  auto folder = SocketFolder::take(own_network_namespace().value(), name, {}).value();
  const auto listener = folder.take_control_socket();
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  const LineClient first(name);
  ASSERT_TRUE(first.connected());
  Connection connection(name);
  connection.set_timeout(milliseconds(10));
  EXPECT_THAT(connection.open().error().message,
              EndsWith(": ipoibd does not accept connections: see its log, or restart it"));
}

TEST(Discovery, FindsServedInterfacesWithValidNames) {
  const RunningServer one;
  const RunningServer other;
  const Connection unused(one.name());
  const auto above = std::filesystem::path(one.folder()).parent_path();
  for (const char* const name : {"a-very-long-name-", "\x1b[2Jib4", ".", "ib-without-socket"}) {
    std::filesystem::create_directory(above / name);
  }
  std::filesystem::create_directory(above / "dead");
  { std::ofstream(above / "dead" / kControlSocket); }
  EXPECT_THAT(served_interfaces().value(), IsSupersetOf({one.name(), other.name()}));
  for (const auto& name : served_interfaces().value()) EXPECT_THAT(name, StartsWith("t"));
  EXPECT_EQ(tun_interfaces().count("lo"), 0U);
}

TEST(Discovery, LooksOnlyAtItsOwnNetworkNamespace) {
  const auto elsewhere =
      SocketFolder::take(own_network_namespace().value() + 1, "t-elsewhere", {}).value();
  EXPECT_FALSE(served_interfaces().value().contains("t-elsewhere"));
  EXPECT_EQ(Connection("t-elsewhere").open().error().code, ENODEV);
}

TEST(Discovery, AsksNoDaemonWhetherItRuns) {
  RunningServer server;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(served_interfaces().value().contains(server.name()));
  EXPECT_EQ(server.counters().clients, 0U);
}

TEST(Connection, FindsAServerInALongFolder) {
  const std::string before = kRunFolder.path();
  const std::string deep = before + "/" + std::string(120, 'x');
  ASSERT_TRUE(std::filesystem::create_directory(deep));
  ::setenv(kRunFolderVariable, deep.c_str(), 1);
  {
    const RunningServer server;
    EXPECT_TRUE(Connection(server.name()).ask(kInfoRequest).has_value());
    EXPECT_TRUE(served_interfaces().value().contains(server.name()));
  }
  ::setenv(kRunFolderVariable, before.c_str(), 1);
}

/// The shortest time that open() took, of several attempts, for an interface whose daemon has died;
/// nullopt if the test may not create one.
std::optional<milliseconds> shortest_open(milliseconds timeout, milliseconds pause) {
  std::optional<milliseconds> shortest;
  std::thread host([&] {
    if (::unshare(CLONE_NEWNET) != 0) return;
    const LeftOver interface;
    if (!interface.made()) return;
    for (int attempt = 0; attempt < 3; ++attempt) {
      if (attempt > 0) std::this_thread::sleep_for(pause);
      Connection connection("ib7");
      connection.set_timeout(timeout);
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_EQ(connection.open().error().code, ESRCH);
      const auto took = std::chrono::floor<milliseconds>(std::chrono::steady_clock::now() - begin);
      shortest = std::min(shortest.value_or(took), took);
    }
  });
  host.join();
  return shortest;
}

/// The first test in this process that waits, so that nothing shortens it.
TEST(ConnectionToADeadDaemon, WaitsNoLongerThanTheTimeOut) {
  SKIP_UNDER_EMULATOR("does not say which interfaces are TUN devices");
  const auto took = shortest_open(milliseconds(0), kReopenPause + milliseconds(1));
  if (!took) GTEST_SKIP() << "cannot create a TUN device here";
  EXPECT_LT(*took, kReopenTime);
}

TEST(ConnectionToADeadDaemon, WaitsForSeveralOnlyOnce) {
  SKIP_UNDER_EMULATOR("does not say which interfaces are TUN devices");
  const auto took = shortest_open(milliseconds(5000), milliseconds(0));
  if (!took) GTEST_SKIP() << "cannot create a TUN device here";
  EXPECT_LT(*took, kReopenTime);
}

}  // namespace
}  // namespace ipoib::control
