#include "softib/umad/umad_host.hpp"

#include <gmock/gmock.h>
#include <poll.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "softib/core/rmpp_sender.hpp"
#include "softib/umad/mad_class.hpp"

namespace softib::umad {
namespace {

constexpr std::uint8_t kSaClass = ipoib::wire::mgmt_class::kSubnAdm;
constexpr Lid kHostLid{2};
constexpr Lid kSmLid{1};

/// An endpoint that gives each MAD to a function.
class FakeEndpoint final : public endpoint::MadEndpoint {
 public:
  std::function<void(const MadPacket&)> on_send;
  std::vector<std::pair<int, fabric::PortCounter>> counted;  ///< with the number of the port

  void send_mad(std::uint8_t /*port*/, ConstBytes packet) override {
    on_send(MadPacket::parse(packet).value());
  }
  [[nodiscard]] NodeIndex node_of(std::uint8_t /*port*/) const override { return 1; }
  [[nodiscard]] HcaPorts ports() const override {
    PortAttributes port;
    port.lid = kHostLid;
    port.pkeys[0] = ipoib::kDefaultPKey;
    port.hca_ports = 2;
    HcaPorts ports(port);
    port.number = 2;
    ports.set(port);
    return ports;
  }
  [[nodiscard]] endpoint::RemoteProcess self() const override { return {1, 0, 1}; }
  void set_mad_deadline(endpoint::MadReceiver&, ipoib::TimePoint) override {}
  void add_mad_receiver(endpoint::MadReceiver&, endpoint::ManagementClasses) override {}
  void count_at(std::uint8_t port, fabric::PortCounter counter, std::uint64_t) override {
    counted.emplace_back(port, counter);
  }
};

bool is_readable(int fd) {
  pollfd event{fd, POLLIN, 0};
  return ::poll(&event, 1, 0) == 1;
}

/// What nobody has requested must not keep out responses. Here it is segments for an agent that
/// does RMPP itself.
TEST(UmadHost, QueueHasRoomForResponsesDuringAFlood) {
  FakeEndpoint endpoint;
  UmadHost host(endpoint, 0, fabric::SubnetFolder("/nonexistent"), nullptr);
  endpoint::MadReceiver& engine = host;
  const int port = host.open_port(0);
  Registration asks;
  asks.management_class = kSaClass;
  asks.class_version = 2;
  asks.rmpp_version = 1;
  asks.user_rmpp = true;
  const int agent = host.add_agent(port, asks);
  ASSERT_EQ(agent, 0);
  std::optional<MadPacket> sent;
  endpoint.on_send = [&](const MadPacket& packet) { sent = packet; };
  std::vector<std::uint8_t> request(ipoib::wire::kMadSize);
  ipoib::wire::MadHeader header;
  header.management_class = kSaClass;
  header.class_version = 2;
  header.method = ipoib::wire::method::kGet;
  header.emit(request);
  ASSERT_EQ(host.send(port, agent, {kSmLid, {}, Qpn(1)}, request, {std::chrono::seconds(1), 0}), 0);
  ASSERT_TRUE(sent);

  MadPacket flood = *sent;
  flood.slid = Lid(9);
  flood.dlid = kHostLid;
  flood.mad[3] |= ipoib::wire::method::kResponse;
  ipoib::wire::RmppHeader segment;
  segment.type = ipoib::wire::RmppType::data;
  segment.flags = ipoib::wire::RmppHeader::kActive;
  segment.emit(std::span(flood.mad).subspan(ipoib::wire::kMadHeaderSize));
  for (std::size_t i = 0; i < kMaxQueuedMads + 1; ++i) EXPECT_TRUE(engine.receive_mad(flood));
  MadPacket response = *sent;
  std::swap(response.slid, response.dlid);
  response.mad[3] |= ipoib::wire::method::kResponse;
  EXPECT_TRUE(engine.receive_mad(response));

  std::size_t others = 0;
  std::size_t responses = 0;
  while (const auto received = host.receive(port, ipoib::wire::kMadSize)) {
    ++(received->mad.solicited ? responses : others);
  }
  EXPECT_EQ(others, kMaxQueuedUnsolicited);
  EXPECT_EQ(responses, 1U);
  EXPECT_TRUE(engine.receive_mad(flood));
  EXPECT_TRUE(host.receive(port, ipoib::wire::kMadSize)) << "there is room again";
}

TEST(UmadHost, CountsAMadThatNobodyTakesAtItsPort) {
  FakeEndpoint endpoint;
  UmadHost host(endpoint, 0, fabric::SubnetFolder("/nonexistent"), nullptr);
  endpoint::MadReceiver& engine = host;
  MadPacket packet;
  packet.slid = kSmLid, packet.dlid = kHostLid;
  packet.source = packet.destination = ipoib::wire::kGsiQpn;
  packet.port = 2;
  ipoib::wire::MadHeader header;
  header.management_class = kSaClass;
  header.method = ipoib::wire::method::kGet;
  header.emit(packet.mad);
  EXPECT_TRUE(engine.receive_mad(packet));
  EXPECT_THAT(endpoint.counted,
              testing::ElementsAre(std::pair(2, fabric::PortCounter::drop_mad_no_agent)));
}

TEST(UmadHost, UnknownPortsAndAgentsAreInvalid) {
  FakeEndpoint endpoint;
  UmadHost host(endpoint, 0, fabric::SubnetFolder("/nonexistent"), nullptr);
  endpoint.on_send = [](const MadPacket&) { ADD_FAILURE() << "is sent"; };
  const std::vector<std::uint8_t> mad(ipoib::wire::kMadSize);
  EXPECT_EQ(host.open_port(-1), -EINVAL);
  EXPECT_EQ(host.open_port(endpoint.ports().count() + 1), -EINVAL);
  const int port = host.open_port(1);
  constexpr auto kAgents = static_cast<int>(kMaxPortAgents);
  for (const auto& [unknown, agent] : {std::pair{port + 1, 0}, std::pair{port, -1},
                                       std::pair{port, 0}, std::pair{port, kAgents}}) {
    EXPECT_EQ(host.remove_agent(unknown, agent), -EINVAL) << agent;
    EXPECT_EQ(host.send(unknown, agent, {kSmLid, {}, Qpn(1)}, mad, {}), -EINVAL) << agent;
  }
  EXPECT_EQ(host.add_agent(port + 1, {}), -EINVAL);
  EXPECT_EQ(host.receive(port + 1, mad.size())->id, -EINVAL);
  EXPECT_FALSE(host.receive(port, mad.size()));
  EXPECT_EQ(host.close_port(port + 1), -EINVAL);
  EXPECT_EQ(host.close_port(port), 0);
}

TEST(MadClass, HasRmppAndAHeader) {
  struct Row {
    std::uint8_t management_class;
    bool has_rmpp;
    std::size_t header;
  };
  for (const auto& row : {Row{0x03, true, 56}, Row{0x06, true, 64}, Row{0x10, true, 64},
                          Row{0x12, true, 64}, Row{0x30, true, 40}, Row{0x4f, true, 40},
                          Row{0x04, false, 24}, Row{0x2f, false, 24}, Row{0x50, false, 24}}) {
    EXPECT_EQ(has_rmpp(row.management_class), row.has_rmpp) << int(row.management_class);
    EXPECT_EQ(header_size(row.management_class), row.header) << int(row.management_class);
  }
}

/// A program may exit as soon as it has the response.
TEST(UmadHost, SendsTheLastAckBeforeTheMessageIsReadable) {
  FakeEndpoint endpoint;
  UmadHost host(endpoint, 0, fabric::SubnetFolder("/nonexistent"), nullptr);
  endpoint::MadReceiver& engine = host;
  const int port = host.open_port(0);
  Registration registration;
  registration.management_class = kSaClass;
  registration.class_version = 2;
  registration.rmpp_version = 1;
  const int agent = host.add_agent(port, registration);
  ASSERT_EQ(agent, 0);

  std::vector<MadPacket> sent;
  endpoint.on_send = [&](const MadPacket& packet) {
    EXPECT_FALSE(is_readable(port));
    sent.push_back(packet);
  };
  std::vector<std::uint8_t> request(ipoib::wire::kMadSize);
  ipoib::wire::MadHeader header;
  header.management_class = kSaClass;
  header.method = ipoib::wire::method::kGetTable;
  header.emit(request);
  ASSERT_EQ(host.send(port, agent, {kSmLid, {}, Qpn(1)}, request, {std::chrono::seconds(1), 0}), 0);
  ASSERT_EQ(sent.size(), 1U);

  MadPacket response = sent.front();
  std::swap(response.slid, response.dlid);
  std::vector<std::uint8_t> message(response.mad.begin(), response.mad.end());
  message[3] |= ipoib::wire::method::kResponse;
  RmppSender sender(std::move(message), ipoib::wire::kSaHeaderSize);
  response.mad = sender.sendable().front();
  EXPECT_TRUE(engine.receive_mad(response));
  EXPECT_EQ(sent.size(), 2U);
  EXPECT_TRUE(is_readable(port));
}

}  // namespace
}  // namespace softib::umad
