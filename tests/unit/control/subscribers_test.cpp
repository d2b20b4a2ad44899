// Subscriptions, through the sockets of a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <deque>
#include <optional>

#include "line_client.hpp"
#include "running_server.hpp"

namespace ipoib::control {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

Event neighbour(std::uint32_t number = 2) {
  Entry entry;
  entry.address = Ipv4Address(0x0a000000 + number);
  entry.state = "reachable";
  return NeighbourEvent{"changed", "confirmed", entry};
}
Event group() { return GroupEvent{"joined", "joined", {Gid{}, Lid(0xc000), "full"}}; }
Event link_event(const std::vector<std::string>& changed = {"state", "qkey"}) {
  LinkEvent event{changed, {}};
  event.info.qkey = QKey(0xb1b);
  return event;
}

/// A client that has subscribed.
class Subscriber : public LineClient {
 public:
  Subscriber(const RunningServer& server, const Topics& topics, const char* socket = kControlSocket,
             milliseconds interval = milliseconds(1000))
      : LineClient(server.name(), socket) {
    response_ = ask(InterfaceRequest(SubscribeRequest{topics, interval}));
  }
  [[nodiscard]] const Response& response() const { return *response_; }
  Event next() {
    const auto text = line();
    if (!text) return LostEvent{};
    auto event = parse_event(*text);
    EXPECT_TRUE(event.has_value()) << *text;
    return event.has_value() ? *event : LostEvent{};
  }

 private:
  std::optional<Response> response_;
};

TEST(Subscribers, GetTheEventsOfTheirTopics) {
  RunningServer server;
  Subscriber all(server, {.neighbours = true, .link = true, .groups = true});
  Subscriber groups(server, {.groups = true});
  ASSERT_TRUE(all.response().has_value());
  ASSERT_TRUE(groups.response().has_value());
  for (const Event& event : {neighbour(), link_event(), group()}) server.publish(event);
  EXPECT_EQ(all.next(), neighbour());
  EXPECT_EQ(all.next(), link_event());
  EXPECT_EQ(all.next(), group());
  EXPECT_EQ(groups.next(), group());
  EXPECT_EQ(server.counters().subscriptions, 2U);
}

TEST(Subscribers, DetermineWhatTheInterfaceReports) {
  RunningServer server;
  EXPECT_FALSE(server.handler.watched().any());
  {
    const Subscriber neighbours(server, {.neighbours = true});
    EXPECT_EQ(server.handler.watched(), (Topics{.neighbours = true}));
    const Subscriber links(server, {.link = true});
    EXPECT_EQ(server.handler.watched(), (Topics{.neighbours = true, .link = true}));
  }
  // The server notices that a client has gone; then, at the next event, it tells the interface.
  constexpr int kEvents = 10'000;
  for (int i = 0; i < kEvents && server.handler.watched().any(); ++i) server.publish(neighbour());
  EXPECT_FALSE(server.handler.watched().any());
}

TEST(Subscribers, ThatMayOnlyReadDoNotSeeTheQKey) {
  RunningServer server;
  Subscriber reader(server, {.link = true, .groups = true}, kReadSocket);
  Subscriber changer(server, {.link = true});
  for (const Event& event : {link_event({"qkey"}), link_event(), group()}) server.publish(event);
  const auto seen = std::get<LinkEvent>(reader.next());
  EXPECT_EQ(seen.changed, std::vector<std::string>{"state"}) << "the first one is of no use";
  EXPECT_EQ(seen.info.qkey, QKey());
  EXPECT_EQ(reader.next(), group());
  EXPECT_EQ(changer.next(), link_event({"qkey"}));
}

TEST(Subscribers, ThatDoNotReadLoseEventsAndAreToldHowMany) {
  RunningServer server;
  Subscriber slow(server, {.neighbours = true});
  Subscriber other(server, {.groups = true});
  constexpr std::uint32_t kEvents = 10'000;
  for (std::uint32_t i = 0; i < kEvents; ++i) server.publish(neighbour(i));
  ASSERT_GT(server.counters().events_lost, 0U) << "more than the queue and the socket hold";
  server.publish(group());
  EXPECT_EQ(other.next(), group()) << "the others get theirs";
  std::uint32_t received = 0;
  Event event = slow.next();
  for (; event == neighbour(received); event = slow.next()) ++received;
  ASSERT_TRUE(std::holds_alternative<LostEvent>(event)) << emit(event);
  EXPECT_EQ(received + std::get<LostEvent>(event).events, kEvents);
  server.publish(neighbour(1));
  EXPECT_EQ(slow.next(), neighbour(1));
}

TEST(Subscribers, AreToldWhatTheInterfaceHasLost) {
  RunningServer server;
  Subscriber neighbours(server, {.neighbours = true});
  Subscriber links(server, {.link = true});
  server.publish(LostEvent{7});
  server.publish(link_event());
  EXPECT_EQ(neighbours.next(), Event(LostEvent{7}));
  EXPECT_EQ(links.next(), link_event()) << "nothing of this topic is missing";
}

/// Although the server ends at once.
TEST(Subscribers, AreToldThatAnotherDaemonTakesOver) {
  std::optional<RunningServer> server(std::in_place);
  std::deque<Subscriber> all;
  for (const Topics& topics : {Topics{.neighbours = true}, {.link = true}, {.stats = true}}) {
    all.emplace_back(*server, topics);
  }
  server->publish(TakeoverEvent{});
  server.reset();
  for (auto& each : all) {
    EXPECT_EQ(each.next(), Event(TakeoverEvent{}));
    EXPECT_FALSE(each.line()) << "the end";
  }
}

TEST(Subscribers, GetTheDifferencesOfCounters) {
  RunningServer server;
  Subscriber client(server, {.stats = true}, kReadSocket, SubscribeRequest::kMinInterval);
  for (int i = 0; i < 2; ++i) {
    const auto event = std::get<StatsEvent>(client.next());
    const auto sent = std::ranges::find(event.counters, "packets_sent",
                                        [](const auto& each) { return each.counter.name; });
    ASSERT_NE(sent, event.counters.end());
    EXPECT_EQ(sent->delta, 7);
    EXPECT_EQ(sent->counter.value, 7U * static_cast<unsigned>(i + 2));
    EXPECT_GT(event.interval.count(), 0);
    EXPECT_EQ(std::ranges::find(event.counters, "path_failed",
                                [](const auto& each) { return each.counter.name; }),
              event.counters.end())
        << "it does not change";
  }
}

TEST(Subscribers, AreLimitedForEachUser) {
  RunningServer server;
  std::deque<Subscriber> accepted;
  for (std::size_t i = 0; i < kMaxReadingSubscribersPerUser; ++i) {
    accepted.emplace_back(server, Topics{.link = true}, kReadSocket);
    ASSERT_TRUE(accepted.back().response().has_value());
  }
  Subscriber refused(server, {.link = true}, kReadSocket);
  ASSERT_TRUE(refused.response().has_error());
  EXPECT_EQ(refused.response().error().code, EBUSY);
  EXPECT_THAT(refused.response().error().message,
              HasSubstr("too many subscriptions: end some (ibarp monitor and top have one)"));
  EXPECT_TRUE(refused.ask(InterfaceRequest(InfoRequest{})).has_value()) << "it may still ask";
}

TEST(Subscribers, WaitUntilTheInterfaceReports) {
  RunningServer server;
  server.handler.hold();
  LineClient client(server.name());
  client.send(emit(InterfaceRequest(SubscribeRequest{{.neighbours = true}})));
  server.handler.wait_for(1);
  server.publish(neighbour(1));
  server.handler.release();
  ASSERT_TRUE(client.line().has_value());
  server.publish(neighbour(2));
  EXPECT_EQ(parse_event(client.line().value()).value(), neighbour(2));
}

}  // namespace
}  // namespace ipoib::control
