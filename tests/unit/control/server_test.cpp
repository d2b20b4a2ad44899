#include "control/server.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "as_nobody.hpp"
#include "control/connection.hpp"
#include "ipoib/ancillary_descriptors.hpp"
#include "ipoib/unix_path.hpp"
#include "line_client.hpp"
#include "running_server.hpp"
#include "tests/support/emulator.hpp"

namespace ipoib::control {
namespace {

using std::chrono::milliseconds;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const IpAddress kAddress = Ipv4Address(0x0a2c0002);
const HwAddress kNeighbour{0, Qpn(0x401), Gid(Gid::kLinkLocalPrefix, Guid(1))};
const Request kSet = InterfaceRequest(SetRequest{SetRequest::Mode::add, kAddress, kNeighbour});
const Request kInfo = InterfaceRequest(InfoRequest{});

TEST(Server, RespondsToSeveralRequestsOfAClient) {
  RunningServer server;
  InterfaceInfo info;
  info.interface = "ib7";
  server.handler.put(info);
  LineClient client(server.name());
  ASSERT_TRUE(client.connected());
  for (int i = 0; i < 3; ++i) {
    const Response response = client.ask(kInfo);
    ASSERT_TRUE(response.has_value()) << response.error().message;
    EXPECT_EQ(std::get<InterfaceInfo>(*response).interface, "ib7");
  }
  EXPECT_EQ(server.counters().clients, 1U);
  EXPECT_EQ(server.counters().requests, 3U);
}

TEST(Server, RespondsToPipelinedRequestsInOrder) {
  RunningServer server;
  LineClient client(server.name());
  client.send(emit(kInfo) + emit(Request(LogRequest{})) + "nonsense\n" + emit(kInfo));
  EXPECT_TRUE(parse_response(kInfo, client.line().value()).has_value());
  EXPECT_TRUE(parse_response(LogRequest{}, client.line().value()).has_value());
  EXPECT_EQ(parse_response(kInfo, client.line().value()).error().code, EINVAL);
  EXPECT_TRUE(parse_response(kInfo, client.line().value()).has_value());
  EXPECT_EQ(server.counters().bad_requests, 1U);
}

TEST(Server, RespondsAfterClientHasShutDownWriting) {
  RunningServer server;
  LineClient client(server.name());
  client.send(emit(kInfo));
  shutdown(client.fd(), SHUT_WR);
  EXPECT_TRUE(client.line().has_value());
  EXPECT_FALSE(client.line().has_value());
}

TEST(Server, DisconnectsClientWithEndlessLine) {
  RunningServer server;
  LineClient client(server.name());
  client.send(std::string(kMaxRequestLine, 'x'));
  const auto response = client.line();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(parse_response(kInfo, *response).error().code, EMSGSIZE);
  EXPECT_EQ(parse_response(kInfo, *response).error().message,
            "a request is at most " + std::to_string(kMaxRequestLine) + " bytes long");
  EXPECT_FALSE(client.line().has_value());
  EXPECT_EQ(server.counters().bad_requests, 1U);
}

TEST(Server, AcceptsTheLongestLine) {
  RunningServer server;
  LineClient client(server.name());
  std::string request = emit(kInfo);
  request.insert(1, std::string(kMaxRequestLine - request.size(), ' '));
  ASSERT_EQ(request.size(), kMaxRequestLine);
  client.send(request);
  EXPECT_TRUE(parse_response(kInfo, client.line().value()).has_value());
}

/// The requests that take more than reading.
std::vector<Request> restricted_requests() {
  return {kSet,
          InterfaceRequest(DeleteRequest{kAddress}),
          InterfaceRequest(FlushRequest{}),
          LogRequest{{{"link", "off"}}},
          MembersRequest{},
          TraceRequest{},
          AddInterfaceRequest{PKey(0x8001), ""},
          DeleteInterfaceRequest{}};
}

TEST(Server, TheSocketDecidesWhoMayChangeSomething) {
  RunningServer server;
  LineClient reader(server.name(), kReadSocket);
  for (const Request& change : restricted_requests()) {
    const Response response = reader.ask(change);
    ASSERT_TRUE(response.has_error());
    EXPECT_EQ(response.error().code, EPERM);
    EXPECT_THAT(response.error().message, HasSubstr("only root may"));
  }
  EXPECT_TRUE(reader.ask(kInfo).has_value());
  EXPECT_TRUE(reader.ask(LogRequest{}).has_value());
  EXPECT_EQ(server.counters().denied, restricted_requests().size());
  LineClient changer(server.name());
  EXPECT_EQ(changer.ask(InterfaceRequest(GetRequest{kAddress})).error().code, ENOENT);
  EXPECT_TRUE(changer.ask(kSet).has_value());
  EXPECT_TRUE(changer.ask(InterfaceRequest(GetRequest{kAddress})).has_value());
  EXPECT_EQ(changer.ask(kSet).error().code, EEXIST);
  EXPECT_EQ(changer.ask(CaptureRequest{}).error().message,
            "captures have a socket of their own: connect to capture in the folder of the "
            "interface");
  EXPECT_THAT(changer.ask(TraceRequest{99, 0}).error().message,
              HasSubstr("trace: no such ring; there are "));
}

TEST(Server, SaysThatItCannotAccept) {
  RunningServer server;
  LineClient client(server.name());
  ASSERT_TRUE(client.ask(kInfo).has_value());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto to = UnixPath::of(server.folder() + "/" + kControlSocket);
  const FileDescriptor other(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(::connect(other.get(), to->address(), UnixPath::size()), 0);
  while (server.log_text().find("cannot accept a client of the control socket: ") ==
         std::string::npos) {
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

/// Folders are in the places of two sockets.
TEST(Server, ServesWithoutCapturesAndHandover) {
  const auto name = RunningServer::unique_name();
  const auto folder = std::filesystem::path(kRunFolder.path()) /
                      namespace_folder(own_network_namespace().value()) / name;
  for (const char* const socket : {kCaptureSocket, kHandoverSocket}) {
    std::filesystem::create_directories(folder / socket / "x");
  }
  {
    RunningServer server(kIdleTimeout, name);
    EXPECT_TRUE(LineClient(name).ask(kInfo).has_value());
    EXPECT_THAT(server.log_text(), HasSubstr("no captures: "));
    EXPECT_THAT(server.log_text(), HasSubstr("no other daemon can take over: "));
  }
  std::filesystem::remove_all(folder);
}

TEST(Server, TheFileSystemKeepsOtherUsersFromTheControlSocket) {
  REQUIRE_ROOT();
  const RunningServer server;
  const AsNobody nobody;
  ASSERT_TRUE(nobody.ok());
  EXPECT_FALSE(LineClient(server.name()).connected());
  EXPECT_TRUE(LineClient(server.name(), kReadSocket).ask(kInfo).has_value());
  EXPECT_EQ(Connection(server.name()).open_capture().error().message,
            server.name() + ": only root may capture");
  EXPECT_EQ(::unlink((server.folder() + "/" + kReadSocket).c_str()), -1);
  EXPECT_EQ(::open((server.folder() + "/lock").c_str(), O_RDONLY | O_CLOEXEC), -1);
}

TEST(Server, MembersOfTheGroupMayMakeChanges) {
  REQUIRE_ROOT();
  constexpr gid_t kGroup = 65534;
  const RunningServer server(
      {.interface = RunningServer::unique_name(),
       .access = {.group = kGroup, .group_name = "netadmin", .is_private = false}});
  {
    const AsNobody nobody;
    EXPECT_FALSE(LineClient(server.name()).connected());
    EXPECT_THAT(LineClient(server.name(), kReadSocket).ask(kSet).error().message,
                HasSubstr("only root and members of the group netadmin may change"));
  }
  ASSERT_EQ(::setegid(kGroup), 0);
  {
    const AsNobody member;
    EXPECT_TRUE(LineClient(server.name()).ask(kSet).has_value());
  }
  ASSERT_EQ(::setegid(0), 0);
}

TEST(Server, APrivateServerHasNoSocketForOthers) {
  REQUIRE_ROOT();
  const RunningServer server({.interface = RunningServer::unique_name(),
                              .access = {.group = 65534, .group_name = "x", .is_private = true}});
  EXPECT_TRUE(LineClient(server.name()).ask(kInfo).has_value());
  EXPECT_FALSE(LineClient(server.name(), kReadSocket).connected());
  const AsNobody nobody;
  EXPECT_FALSE(LineClient(server.name()).connected());
}

TEST(Server, OnlyThoseWhoMayMakeChangesSeeTheQKey) {
  RunningServer server;
  InterfaceInfo info;
  info.qkey = QKey(0x1234);
  server.handler.put(info);
  const auto qkey_at = [&](const char* socket) {
    const Response response = LineClient(server.name(), socket).ask(kInfo);
    return std::get<InterfaceInfo>(response.value()).qkey;
  };
  EXPECT_EQ(qkey_at(kControlSocket), QKey(0x1234));
  EXPECT_EQ(qkey_at(kReadSocket), QKey());
}

TEST(Server, ReadersCannotLoadTheInterface) {
  constexpr unsigned kBurst = 5;
  RunningServer server(
      {.interface = RunningServer::unique_name(), .read_rate = {kBurst, std::chrono::hours(1)}});
  std::vector<LineClient> readers;
  for (std::size_t i = 0; i < kMaxReadersPerUser; ++i) {
    readers.emplace_back(server.name(), kReadSocket);
    for (int n = 0; n < 100; ++n) readers.back().send(emit(InterfaceRequest(ListRequest{})));
  }
  while (server.counters().delayed < kMaxReadersPerUser) {
  }
  EXPECT_LE(server.handler.handled(), kBurst);
  LineClient changer(server.name());
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(changer.ask(kInfo).has_value());
  EXPECT_LE(server.handler.handled(), kBurst + 100);
}

TEST(Server, ChangesLogLevels) {
  RunningServer server;
  LineClient client(server.name());
  const Response response = client.ask(LogRequest{{{"link", "debug"}}});
  ASSERT_TRUE(response.has_value());
  EXPECT_THAT(std::get<std::vector<ModuleLevel>>(*response),
              Contains(ModuleLevel{"link", "debug"}));
  EXPECT_EQ(server.loggers[1]->level(), spdlog::level::debug);
  EXPECT_EQ(client.ask(LogRequest{{{"link", "loud"}}}).error().code, EINVAL);
}

TEST(Server, AddsItsOwnCounters) {
  RunningServer server;
  LineClient client(server.name());
  client.send("{}\n");
  ASSERT_TRUE(client.line().has_value());
  const Response response = client.ask(InterfaceRequest(StatsRequest{}));
  ASSERT_TRUE(response.has_value());
  const auto& counters = std::get<std::vector<Counter>>(*response);
  EXPECT_THAT(counters, Contains(Counter{"path_failed", 2, true}));
  EXPECT_THAT(counters, Contains(Counter{"control_bad_requests", 1, false}));
  EXPECT_THAT(counters, Contains(Counter{"control_clients", 1, false}));
  std::vector<std::string> names;
  for (const auto& each : counters) {
    if (each.name.starts_with("control_")) names.push_back(each.name);
  }
  EXPECT_THAT(names,
              testing::ElementsAre("control_clients", "control_clients_refused", "control_requests",
                                   "control_bad_requests", "control_requests_denied",
                                   "control_requests_delayed", "control_timeouts",
                                   "control_subscriptions", "control_events_lost"));
}

TEST(Server, ReturnsTraceInPages) {
  RunningServer server;
  TraceRing& ring = server.trace.add("ib0");
  constexpr std::uint64_t kWritten = TraceRing::kRecords + 100;
  for (std::uint64_t i = 0; i < kWritten; ++i) {
    ring.record("turn", TimePoint(milliseconds(i)), i, 2 * i);
  }
  LineClient client(server.name());
  std::uint64_t expected = 101;
  for (TraceRequest request; request.from < kWritten;) {
    const Response response = client.ask(request);
    ASSERT_TRUE(response.has_value()) << response.error().message;
    const auto& page = std::get<TracePage>(*response);
    EXPECT_EQ(page.rings, 1U);
    EXPECT_EQ(page.thread, "ib0");
    EXPECT_EQ(page.end, kWritten);
    EXPECT_LE(page.lines.size(), kPageLines);
    for (const TraceLine& line : page.lines) {
      EXPECT_EQ(line.sequence, expected);
      EXPECT_EQ(line.first, expected++);
    }
    request.from = page.next;
  }
  EXPECT_EQ(expected, kWritten);
  EXPECT_EQ(client.ask(TraceRequest{1, 0}).error().code, EINVAL);
}

/// Connects as many clients as one user may have, then one more.
void expect_limit(const char* socket, std::size_t limit) {
  RunningServer server;
  std::vector<LineClient> clients;
  for (std::size_t i = 0; i < limit; ++i) {
    clients.emplace_back(server.name(), socket);
    ASSERT_TRUE(clients.back().ask(kInfo).has_value()) << i;
  }
  LineClient one_more(server.name(), socket);
  const auto response = one_more.line();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(parse_response(kInfo, *response).error().code, EBUSY);
  EXPECT_FALSE(one_more.line().has_value());
  EXPECT_EQ(server.counters().refused, 1U);

  EXPECT_TRUE(clients.front().ask(kInfo).has_value()) << "connected clients are not disturbed";
  // A new client is accepted once the server has seen another one disconnect.
  clients.pop_back();
  for (;;) {
    LineClient next(server.name(), socket);
    if (next.ask(kInfo).has_value()) break;
  }
}

TEST(Server, LimitsTheClientsOfAUser) {
  expect_limit(kControlSocket, kMaxClientsPerUser);
  expect_limit(kReadSocket, kMaxReadersPerUser);
}

TEST(Server, ReadersDoNotTakeThePlacesOfOthers) {
  RunningServer server;
  std::vector<LineClient> readers;
  for (std::size_t i = 0; i < kMaxReadersPerUser; ++i) {
    readers.emplace_back(server.name(), kReadSocket);
    ASSERT_TRUE(readers.back().ask(kInfo).has_value()) << i;
  }
  EXPECT_TRUE(LineClient(server.name()).ask(kInfo).has_value());
}

TEST(Server, SlowReaderDoesNotDelayOthers) {
  RunningServer server;
  for (std::uint32_t i = 0; i < kPageEntries; ++i) {
    Entry entry;
    entry.address = Ipv4Address(i);
    entry.state = "failed";
    server.handler.put(entry);
  }
  // Sends far more requests than the socket holds, and reads nothing.
  LineClient slow(server.name());
  std::string requests;
  for (int i = 0; i < 2000; ++i) requests += emit(InterfaceRequest(ListRequest{}));
  while (::send(slow.fd(), requests.data(), requests.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
  }
  ASSERT_EQ(errno, EAGAIN) << "the server must have stopped reading";

  LineClient other(server.name());
  EXPECT_TRUE(other.ask(kInfo).has_value());
}

TEST(Server, DisconnectsIdleClient) {
  RunningServer server(milliseconds(20));
  LineClient silent(server.name());
  EXPECT_FALSE(silent.line().has_value());
  LineClient half(server.name());
  half.send("{\"op\":");
  EXPECT_FALSE(half.line().has_value());
  EXPECT_EQ(server.counters().timeouts, 2U);
}

TEST(Server, DisconnectsClientThatReadsNothing) {
  RunningServer server(milliseconds(20));
  LineClient slow(server.name());
  while (slow.send(emit(Request(TraceRequest{})))) {
  }
  EXPECT_EQ(server.counters().timeouts, 1U);
}

TEST(Server, WaitsForALateResponse) {
  RunningServer server;
  server.handler.hold();
  LineClient client(server.name());
  client.send(emit(kInfo));
  LineClient gone(server.name());
  gone.send(emit(kInfo));
  server.handler.wait_for(2);
  { const LineClient closes(std::move(gone)); }
  server.handler.release();
  EXPECT_TRUE(parse_response(kInfo, client.line().value()).has_value());
  EXPECT_TRUE(client.ask(kInfo).has_value());
}

TEST(Server, DisconnectsClientWhenTheHandlerDoesNotRespond) {
  RunningServer server(milliseconds(20));
  server.handler.hold();
  LineClient client(server.name());
  client.send(emit(kInfo));
  EXPECT_FALSE(client.line().has_value());
  server.handler.release();
  EXPECT_EQ(server.counters().timeouts, 1U);
}

TEST(Server, DisconnectsClientsWhenDestroyed) {
  RunningServer server;
  server.handler.hold();
  LineClient client(server.name());
  client.send(emit(kInfo));
  server.handler.wait_for(1);
  server.stop();
  EXPECT_FALSE(client.line().has_value());
  server.handler.release();
  EXPECT_FALSE(LineClient(server.name()).connected());
}

TEST(Server, RefusesASecondServerOfAnInterface) {
  const RunningServer first;
  try {
    const RunningServer second(kIdleTimeout, first.name());
    FAIL() << "the folder was taken twice";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), EBUSY);
    EXPECT_THAT(error.what(), HasSubstr("another ipoibd runs this interface (process " +
                                        std::to_string(getpid()) + ")"));
  }
  EXPECT_TRUE(LineClient(first.name()).ask(kInfo).has_value());
}

TEST(Server, WaitsForAServerThatIsToEnd) {
  auto first = std::make_unique<RunningServer>();
  RunningServer second({.interface = first->name(), .if_taken = Server::IfTaken::retry});
  first.reset();
  while (!LineClient(second.name()).ask(kInfo).has_value()) {
  }
  EXPECT_EQ(second.counters().clients, 1U);
}

TEST(Server, ReplacesTheSocketsOfADaemonThatHasDied) {
  const auto name = RunningServer::unique_name();
  std::string folder;
  {
    const RunningServer first(kIdleTimeout, name);
    folder = first.folder();
  }
  EXPECT_FALSE(std::filesystem::exists(folder)) << "a server that ends removes its folder";
  std::filesystem::create_directories(folder);
  for (const char* const left : {kControlSocket, kReadSocket, "lock"}) {
    std::ofstream(std::filesystem::path(folder) / left) << "4711\n";
  }
  const RunningServer second(kIdleTimeout, name);
  EXPECT_TRUE(LineClient(name).ask(kInfo).has_value());
  EXPECT_TRUE(LineClient(name, kReadSocket).ask(kInfo).has_value());
}

TEST(Server, TriesAgainIfItCannotOpenItsSockets) {
  const auto name = RunningServer::unique_name();
  std::string folder;
  {
    const RunningServer first(kIdleTimeout, name);
    folder = first.folder();
  }
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path());
  { std::ofstream(folder) << "not a folder"; }
  RunningServer server(kIdleTimeout, name);
  EXPECT_FALSE(LineClient(name).connected());
  std::filesystem::remove(folder);
  while (!LineClient(name).ask(kInfo).has_value()) {
  }
  EXPECT_EQ(server.counters().clients, 1U);
}

/// A server that received one would close it, which may block for as long as its sender likes.
TEST(Server, RefusesDescriptors) {
  SKIP_UNDER_EMULATOR("has no SO_PASSRIGHTS");
  RunningServer server;
  for (const char* const name : {kControlSocket, kReadSocket}) {
    const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto path = UnixPath::of(server.folder() + "/" + name).value();
    ASSERT_EQ(::connect(socket.get(), path.address(), UnixPath::size()), 0);
    char byte = 0;
    iovec piece{&byte, 1};
    msghdr header{};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    AncillaryDescriptors control;
    control.attach(header, std::array{socket.get()});
    int refused = 0;
    socklen_t size = sizeof refused;
    if (::getsockopt(socket.get(), SOL_SOCKET, 83, &refused, &size) != 0) {
      GTEST_SKIP() << "this kernel has no SO_PASSRIGHTS";
    }
    EXPECT_EQ(::sendmsg(socket.get(), &header, MSG_NOSIGNAL), -1) << name;
    EXPECT_EQ(errno, EPERM) << name;
  }
}

/// It would be that of another namespace if it tried again later.
TEST(Server, HasNoSocketsWithoutKnowingTheNamespace) {
  RunningServer server(
      {.interface = RunningServer::unique_name(), .network_namespace = Error(ENOENT, "no /proc")});
  EXPECT_THAT(server.log_text(), HasSubstr("cannot reach it: no /proc"));
  EXPECT_THAT(server.log_text(), Not(HasSubstr("trying again")));
  EXPECT_FALSE(std::filesystem::exists(server.folder()));
}

/// The state of a thread of this process, as in proc(5); 0 if there is no such thread.
char state_of(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(')');
  return name_end == std::string::npos ? '\0' : text[name_end + 2];
}

/// A process that removes the folder of a dead daemon has the lock for a moment.
TEST(SocketFolders, AreTakenFromAProcessThatRemovesThem) {
  const auto name = RunningServer::unique_name();
  const auto home = own_network_namespace().value();
  const auto path = kRunFolder.path() + "/" + namespace_folder(home) + "/" + name;
  std::filesystem::create_directories(path);
  FileDescriptor remover(::open((path + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct flock both {};
  both.l_type = F_WRLCK;
  both.l_whence = SEEK_SET;
  both.l_len = 2;
  ASSERT_EQ(::fcntl(remover.get(), F_OFD_SETLK, &both), 0);
  std::atomic<pid_t> thread = 0;
  std::thread taker([&] {
    thread = ::gettid();
    const auto taken = SocketFolder::take(home, name, {});
    EXPECT_TRUE(taken) << taken.error().message;
    thread = -1;
  });
  // Until it waits, unless it has given up.
  while (thread != -1 && state_of(thread) != 'S') std::this_thread::yield();
  ASSERT_EQ(::unlink((path + "/lock").c_str()), 0);
  ASSERT_EQ(::rmdir(path.c_str()), 0);
  remover.reset();
  taker.join();
}

TEST(SocketFolders, OfDeadDaemonsAreRemovedAndNoneIsCreated) {
  const auto home = own_network_namespace().value();
  const auto living = SocketFolder::take(home, "t-living", {}).value();
  const auto above = kRunFolder.path() + "/" + namespace_folder(home);
  std::filesystem::create_directories(above + "/t-dead");
  { std::ofstream(above + "/t-dead/lock") << 1; }
  std::filesystem::create_directories(kRunFolder.path() + "/net-1/t-dead");
  { std::ofstream(kRunFolder.path() + "/net-1/t-dead/lock") << 1; }
  remove_unused_socket_folders();
  EXPECT_FALSE(std::filesystem::exists(above + "/t-dead"));
  EXPECT_FALSE(std::filesystem::exists(kRunFolder.path() + "/net-1"));
  EXPECT_TRUE(std::filesystem::exists(above + "/t-living/control"));
  const std::string missing = kRunFolder.path() + "/missing";
  ::setenv(kRunFolderVariable, missing.c_str(), 1);
  remove_unused_socket_folders();
  ::setenv(kRunFolderVariable, kRunFolder.path().c_str(), 1);
  EXPECT_FALSE(std::filesystem::exists(missing));
}

}  // namespace
}  // namespace ipoib::control
