#include "control/server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "as_nobody.hpp"
#include "line_client.hpp"
#include "running_server.hpp"

namespace ipoib::control {
namespace {

using std::chrono::milliseconds;
using testing::Contains;
using testing::HasSubstr;

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

TEST(Server, LetsOnlyRootChangeAndSeeMembers) {
  REQUIRE_ROOT();
  RunningServer server;
  {
    const AsNobody nobody;
    ASSERT_TRUE(nobody.ok());
    LineClient client(server.name());
    for (const Request& change :
         {kSet, Request(InterfaceRequest(DeleteRequest{kAddress})),
          Request(InterfaceRequest(FlushRequest{})), Request(LogRequest{{{"link", "off"}}}),
          Request(MembersRequest{})}) {
      const Response response = client.ask(change);
      ASSERT_TRUE(response.has_error());
      EXPECT_EQ(response.error().code, EPERM);
      EXPECT_THAT(response.error().message, HasSubstr("only root"));
    }
    EXPECT_TRUE(client.ask(kInfo).has_value());
  }
  EXPECT_EQ(server.counters().denied, 5U);
  LineClient root(server.name());
  EXPECT_EQ(root.ask(InterfaceRequest(GetRequest{kAddress})).error().code, ENOENT);
  EXPECT_TRUE(root.ask(kSet).has_value());
  EXPECT_TRUE(root.ask(InterfaceRequest(GetRequest{kAddress})).has_value());
  EXPECT_EQ(root.ask(kSet).error().code, EEXIST);
}

TEST(Server, ChangesLogLevels) {
  REQUIRE_ROOT();
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

TEST(Server, LimitsClients) {
  RunningServer server;
  const std::size_t limit = geteuid() == 0 ? kMaxClients : kMaxClients - kReservedForRoot;
  std::vector<LineClient> clients;
  for (std::size_t i = 0; i < limit; ++i) {
    clients.emplace_back(server.name());
    ASSERT_TRUE(clients.back().ask(kInfo).has_value()) << i;
  }
  LineClient one_more(server.name());
  const auto response = one_more.line();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(parse_response(kInfo, *response).error().code, EBUSY);
  EXPECT_FALSE(one_more.line().has_value());
  EXPECT_EQ(server.counters().refused, 1U);

  EXPECT_TRUE(clients.front().ask(kInfo).has_value()) << "connected clients are not disturbed";
  // A new client is accepted once the server has seen another one disconnect.
  clients.pop_back();
  for (;;) {
    LineClient next(server.name());
    if (next.ask(kInfo).has_value()) break;
  }
}

TEST(Server, ReservesConnectionsForRoot) {
  REQUIRE_ROOT();
  RunningServer server;
  std::vector<LineClient> clients;
  {
    const AsNobody nobody;
    for (std::size_t i = 0; i < kMaxClients - kReservedForRoot; ++i) {
      clients.emplace_back(server.name());
      ASSERT_TRUE(clients.back().ask(kInfo).has_value()) << i;
    }
    LineClient one_more(server.name());
    EXPECT_EQ(parse_response(kInfo, one_more.line().value()).error().code, EBUSY);
  }
  LineClient root(server.name());
  EXPECT_TRUE(root.ask(kInfo).has_value());
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
  EXPECT_THROW(RunningServer(kIdleTimeout, first.name()), std::system_error);
}

}  // namespace
}  // namespace ipoib::control
