#include "daemon/question.hpp"

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <map>

#include "../sa/memory_mad_port.hpp"
#include "ipoib/log.hpp"
#include "sa/sa_client.hpp"

namespace ipoib::daemon {
namespace {

TEST(QuestionTest, KeepsAllOfItInItsName) {
  constexpr std::uint32_t kLast = (1U << 29) - 1;
  for (const auto kind : {Question::Kind::join, Question::Kind::path, Question::Kind::leave,
                          Question::Kind::members, Question::Kind::subscription}) {
    for (const std::uint32_t number : {1U, 2U, kLast}) {
      const Question question{InterfaceNumber(number), kind, link::QuestionId(0xffffffff - number)};
      EXPECT_EQ(Question::of(question.name()), question);
    }
  }
}

/// All interfaces of a port ask through one client: its bounds are theirs together.
TEST(QuestionTest, InterfacesOfAPortShareTheBoundOfItsRequests) {
  constexpr std::uint32_t kInterfaces = 5;
  constexpr std::uint32_t kEach = 20;
  constexpr TimePoint kNow{std::chrono::seconds(1)};
  Logger log("sa", std::make_shared<spdlog::sinks::null_sink_st>());
  sa::MemoryMadPort port;
  sa::Config config;
  config.window = 8;
  config.max_waiting = kInterfaces * kEach - config.window;
  sa::SaClient client(config, port, log, 1);
  client.set_sm(MadDestination{Lid(1), ServiceLevel(0), 0}, kNow);
  const auto query = sa::path_query(Gid(1, Guid(1)), Gid(1, Guid(2)), kDefaultPKey);
  for (std::uint32_t id = 0; id < kEach; ++id) {
    for (std::uint32_t number = 1; number <= kInterfaces; ++number) {
      const Question question{InterfaceNumber(number), Question::Kind::path, link::QuestionId(id)};
      client.ask(question.name(), query, kNow);
    }
  }
  EXPECT_EQ(port.sent.size(), config.window);
  client.ask(Question{InterfaceNumber(9), Question::Kind::path, {}}.name(), query, kNow);
  EXPECT_EQ(client.counters().overloaded, 1U);
  client.answers().clear();

  std::map<InterfaceNumber, std::uint32_t> answered;
  for (std::size_t next = 0; next < port.sent.size(); ++next) {
    auto path = query.record;
    path.dlid = Lid(4);
    path.mtu = 4;
    port.respond(port.sent[next], 0, path);
    client.on_readable(kNow);
    ASSERT_LE(port.sent.size(), next + 1 + config.window);
    for (const auto& answer : std::exchange(client.answers(), {})) {
      ++answered[Question::of(answer.id).interface];
    }
  }
  EXPECT_EQ(answered.size(), kInterfaces);
  for (const auto& [number, count] : answered) EXPECT_EQ(count, kEach);
}

}  // namespace
}  // namespace ipoib::daemon
