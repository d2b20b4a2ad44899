#include "softib/umad/umad_host.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <functional>

#include "softib/core/rmpp_sender.hpp"

namespace softib::umad {
namespace {

constexpr std::uint8_t kSaClass = ipoib::wire::mgmt_class::kSubnAdm;
constexpr Lid kHostLid{2};
constexpr Lid kSmLid{1};

/// An endpoint that gives each MAD to a function.
class FakeEndpoint : public endpoint::Endpoint {
 public:
  std::function<void(const MadPacket&)> on_send;

  void send_mad(ConstBytes packet) override { on_send(MadPacket::parse(packet).value()); }
  [[nodiscard]] PortAttributes port() const override {
    PortAttributes port;
    port.lid = kHostLid;
    port.pkeys[0] = ipoib::kDefaultPKey;
    return port;
  }
  [[nodiscard]] const std::string& hca_name() const override { return name_; }
  [[nodiscard]] NodeIndex node() const override { return 1; }
  [[nodiscard]] std::uint32_t slot() const override { return 0; }
  [[nodiscard]] std::uint32_t epoch() const override { return 1; }
  [[nodiscard]] bool is_lost() const override { return false; }
  void detach() override {}
  void send(std::span<const OutgoingPacket>) override {}
  void send_mad_to(NodeIndex, ConstBytes) override {}
  void set_mad_deadline(ipoib::TimePoint) override {}
  [[nodiscard]] bool wake_processes(NodeIndex) override { return true; }
  void set_receiver(endpoint::PacketReceiver*) override {}
  void set_mad_receiver(endpoint::MadReceiver*) override {}
  bool poll_receive_rings() override { return false; }
  void set_waiter(std::size_t, std::uint32_t) override {}
  [[nodiscard]] std::uint32_t add_wakeup_fd(int) override { return 0; }
  void remove_wakeup_fd(std::uint32_t) override {}
  void count(fabric::PortCounter, std::uint64_t) override {}
  [[nodiscard]] fabric::PortCounterValues counters() const override { return {}; }

 private:
  std::string name_ = "host1";
};

bool is_readable(int fd) {
  pollfd event{fd, POLLIN, 0};
  return ::poll(&event, 1, 0) == 1;
}

/// A program may exit as soon as it has the response.
TEST(UmadHost, SendsTheLastAckBeforeTheMessageIsReadable) {
  FakeEndpoint endpoint;
  UmadHost host(endpoint, fabric::SubnetFolder("/nonexistent"), nullptr);
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
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  engine.receive_mad(response.emit(bytes));
  EXPECT_EQ(sent.size(), 2U);
  EXPECT_TRUE(is_readable(port));
}

}  // namespace
}  // namespace softib::umad
