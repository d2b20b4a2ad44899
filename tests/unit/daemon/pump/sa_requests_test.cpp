#include "daemon/pump/sa_requests.hpp"

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <map>

#include "ipoib/log.hpp"
#include "sa/sa_client.hpp"
#include "tests/unit/sa/memory_mad_port.hpp"

namespace ipoib::daemon {
namespace {

TEST(SaRequestsTest, IdNamesTheInterface) {
  constexpr std::uint32_t kLast = (1U << 24) - 1;
  for (const std::uint32_t number : {0U, 1U, 2U, kLast}) {
    const InterfaceNumber interface(number);
    const auto first = first_link_request(interface).value();
    EXPECT_EQ(interface_of(wire::SaRequestId(first)), interface);
    EXPECT_EQ(interface_of(wire::SaRequestId(first + kRequestsPerInterface - 1)), interface);
    EXPECT_EQ(interface_of(first_control_request(interface)), interface);
    for (const PortRole role : kPortRoles) {
      for (const auto id :
           {first_link_request(interface, role), first_control_request(interface, role)}) {
        EXPECT_EQ(interface_of(id), interface);
        EXPECT_EQ(port_of(id), role);
        EXPECT_EQ(port_of(wire::SaRequestId(id.value() + kRequestsPerPort / 2 - 1)), role);
      }
    }
    EXPECT_GT(first_control_request(interface).value(), first);
  }
}

/// All interfaces of a port share one client and its limits.
TEST(SaRequestsTest, InterfacesOfAPortShareTheBoundOfItsRequests) {
  constexpr std::uint32_t kInterfaces = 5;
  constexpr std::uint32_t kEach = 20;
  constexpr TimePoint kNow{std::chrono::seconds(1)};
  Logger log("sa", std::make_shared<spdlog::sinks::null_sink_st>());
  sa::MemoryMadPort port;
  sa::Config config;
  config.window = 8;
  config.max_waiting = kInterfaces * kEach - config.window;
  sa::SaClient client(config, port, log, 1, sa::random_from(1));
  client.set_sm(MadDestination{Lid(1), ServiceLevel(0), 0}, kNow);
  const auto query = wire::path_query(Gid(1, Guid(1)), Gid(1, Guid(2)), kDefaultPKey);
  for (std::uint32_t id = 0; id < kEach; ++id) {
    for (std::uint32_t number = 1; number <= kInterfaces; ++number) {
      const auto first = first_link_request(InterfaceNumber(number)).value();
      client.request({wire::SaRequestId(first + id), query}, kNow);
    }
  }
  EXPECT_EQ(port.sent.size(), config.window);
  client.request({first_link_request(InterfaceNumber(9)), query}, kNow);
  EXPECT_EQ(client.counters().overloaded, 1U);
  client.responses().clear();

  std::map<InterfaceNumber, std::uint32_t> answered;
  for (std::size_t next = 0; next < port.sent.size(); ++next) {
    auto path = query.record;
    path.dlid = Lid(4);
    path.mtu = 4;
    port.respond(port.sent[next], 0, path);
    client.on_readable(kNow);
    ASSERT_LE(port.sent.size(), next + 1 + config.window);
    for (const auto& response : std::exchange(client.responses(), {})) {
      ++answered[interface_of(response.id)];
    }
  }
  EXPECT_EQ(answered.size(), kInterfaces);
  for (const auto& [number, count] : answered) EXPECT_EQ(count, kEach);
}

}  // namespace
}  // namespace ipoib::daemon
