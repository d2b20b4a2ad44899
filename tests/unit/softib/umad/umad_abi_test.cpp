// The libibumad ABI as a program sees it, on a subnet whose SA is this test. As in any program, the
// process has one endpoint until it ends.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "forked.hpp"
#include "packets.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/core/rmpp_sender.hpp"
#include "softib/endpoint/last_error.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/subnet/node_attributes.hpp"
#include "softib/umad/abi.hpp"
#include "softib/umad/umad_host.hpp"
#include "test_subnet.hpp"

namespace softib::umad {
namespace {

using ipoib::wire::kSaHeaderSize;
using ipoib::wire::MadHeader;
using test::TestSubnet;
namespace method = ipoib::wire::method;

constexpr std::uint8_t kSa = ipoib::wire::mgmt_class::kSubnAdm;
constexpr int kSaVersion = 2;
constexpr int kLong = 30'000;  ///< milliseconds, for events that must come

/// Responds on node 0.
class Responder : public endpoint::MadReceiver {
 public:
  using Respond = std::function<void(endpoint::Endpoint&, MadPacket)>;
  explicit Responder(endpoint::Endpoint& endpoint) : endpoint_(endpoint) {}

  bool receive_mad(const MadPacket& request) override {
    const std::lock_guard lock(mutex_);
    MadPacket packet = request;
    std::swap(packet.slid, packet.dlid);
    if (respond_) respond_(endpoint_, packet);
    return true;
  }
  void set(Respond respond) {
    const std::lock_guard lock(mutex_);
    respond_ = std::move(respond);
  }

 private:
  endpoint::Endpoint& endpoint_;
  std::mutex mutex_;
  Respond respond_;
};

void send_packet(endpoint::Endpoint& from, const MadPacket& packet) {
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  from.send_mad(1, packet.emit(bytes));
}

/// One for all tests; never destroyed, as the endpoint of the process.
struct World {
  TestSubnet subnet{2};
  std::unique_ptr<endpoint::Endpoint> sm = subnet.attach(0);
  Responder responder{*sm};

  World() {
    sm->add_mad_receiver(responder);
    subnet.enter("host1");
  }
};

World& world() {
  static World& one = *new World;
  static const test::FolderAtExit removed(one.subnet.folder());
  return one;
}

void respond(endpoint::Endpoint& sm, MadPacket packet) {
  packet.mad[3] |= method::kResponse;
  send_packet(sm, packet);
}

/// A umad buffer with room for a MAD of `size` bytes.
class Buffer {
 public:
  explicit Buffer(std::size_t size = 256) : bytes_(umad_size() + size) {}
  [[nodiscard]] void* umad() { return bytes_.data(); }
  [[nodiscard]] std::uint8_t* mad() { return static_cast<std::uint8_t*>(umad_get_mad(umad())); }
  [[nodiscard]] int size() const { return static_cast<int>(bytes_.size() - umad_size()); }

 private:
  std::vector<std::uint8_t> bytes_;
};

class UmadTest : public testing::Test {
 protected:
  UmadTest() {
    world().responder.set(respond);
    port_ = umad_open_port(nullptr, 0);
    EXPECT_GE(port_, 0);
  }
  ~UmadTest() override {
    if (port_ >= 0) umad_close_port(port_);
  }

  static Buffer request(std::uint64_t id, std::uint8_t code = method::kGet,
                        std::uint8_t management_class = kSa, std::size_t size = 256) {
    Buffer buffer(size);
    MadHeader header;
    header.management_class = management_class;
    header.class_version = management_class == kSa ? 2 : 1;
    header.method = code;
    header.transaction_id = id;
    header.emit({buffer.mad(), size});
    umad_set_addr(buffer.umad(), TestSubnet::lid(0).value(), 1, 0, 0x8001'0000);
    umad_set_pkey(buffer.umad(), 0);
    return buffer;
  }
  int send(int agent, Buffer buffer, int timeout_ms = kLong, int retries = 0) const {
    return umad_send(port_, agent, buffer.umad(), buffer.size(), timeout_ms, retries);
  }
  int port_ = -1;
};

TEST_F(UmadTest, ReceivesTheResponse) {
  const int agent = umad_register(port_, kSa, kSaVersion, 1, nullptr);
  ASSERT_EQ(agent, 0);
  ASSERT_EQ(send(agent, request(0x11)), 0);
  Buffer reply;
  int length = reply.size();
  EXPECT_EQ(umad_recv(port_, reply.umad(), &length, kLong), agent);
  EXPECT_EQ(length, 256);
  EXPECT_EQ(umad_status(reply.umad()), 0);
  const auto header = MadHeader::parse({reply.mad(), 256}).value();
  EXPECT_EQ(header.method, method::kGetResp);
  EXPECT_EQ(header.transaction_id & 0xffff'ffff, 0x11U);
  EXPECT_EQ(ntohs(umad_get_mad_addr(reply.umad())->lid), TestSubnet::lid(0).value());
  EXPECT_EQ(ntohl(umad_get_mad_addr(reply.umad())->qpn), 1U);
}

TEST_F(UmadTest, ReceivesAndSendsAddressesWithAGlobalRoute) {
  MadPacket request_seen;
  world().responder.set([&](endpoint::Endpoint& sm, MadPacket packet) {
    request_seen = packet;
    packet.sl = ServiceLevel(3);
    std::swap(packet.source, packet.destination);
    auto& grh = packet.grh.value();
    std::swap(grh.sgid, grh.dgid);
    grh.traffic_class = 7;
    grh.flow_label = 0x54321;
    grh.hop_limit = 9;
    respond(sm, packet);
  });
  const int agent = umad_register(port_, kSa, kSaVersion, 1, nullptr);
  auto buffer = request(0x11);
  const Gid sm_gid(Gid::kLinkLocalPrefix, Guid(0x0002'c903'0000'0000));
  ib_mad_addr_t route{};
  route.grh_present = 1;
  std::ranges::copy(sm_gid.bytes(), route.gid);
  route.flow_label = 0x12345;  // umad_set_grh() makes it big-endian
  route.hop_limit = 5;
  route.traffic_class = 6;
  umad_set_grh(buffer.umad(), &route);
  umad_set_addr(buffer.umad(), TestSubnet::lid(0).value(), 1, 0x12, 0x8001'0000);
  ASSERT_EQ(umad_send(port_, agent, buffer.umad(), buffer.size(), kLong, 2), 0);
  Buffer reply;
  int length = reply.size();
  ASSERT_EQ(umad_recv(port_, reply.umad(), &length, kLong), agent);
  const auto& grh = request_seen.grh.value();
  EXPECT_EQ(grh.dgid, sm_gid);
  EXPECT_EQ(grh.sgid, Gid(Gid::kLinkLocalPrefix, Guid(0x0002'c903'0000'0001)));
  EXPECT_EQ(grh.flow_label, 0x12345U);
  EXPECT_EQ(grh.hop_limit, 5);
  EXPECT_EQ(grh.traffic_class, 6);
  EXPECT_EQ(request_seen.sl, ServiceLevel(2));
  EXPECT_EQ(request_seen.qkey, ipoib::wire::kGsiQKey);

  ib_user_mad expected{};
  expected.agent_id = static_cast<std::uint32_t>(agent);
  expected.length = static_cast<std::uint32_t>(sizeof expected + 256);
  expected.addr.qpn = htonl(1);
  expected.addr.lid = htons(TestSubnet::lid(0).value());
  expected.addr.sl = 3;
  expected.addr.grh_present = 1;
  std::ranges::copy(sm_gid.bytes(), expected.addr.gid);
  expected.addr.flow_label = htonl(0x54321);
  expected.addr.hop_limit = 9;
  expected.addr.traffic_class = 7;
  const auto* const found = static_cast<const std::uint8_t*>(reply.umad());
  const auto* const wanted = reinterpret_cast<const std::uint8_t*>(&expected);
  EXPECT_EQ(std::vector(found, found + sizeof expected),
            std::vector(wanted, wanted + sizeof expected));
}

TEST_F(UmadTest, WrongArgumentsAreRefused) {
  const int agent = umad_register(port_, kSa, kSaVersion, 1, nullptr);
  int length = 256;
  Buffer buffer;
  EXPECT_EQ(umad_send(port_, agent, nullptr, 256, 0, 0), -EINVAL);
  EXPECT_EQ(umad_send(port_, agent, request(1).umad(), -1, 0, 0), -EINVAL);
  errno = 0;
  EXPECT_EQ(umad_recv(port_, nullptr, &length, 0), -EINVAL);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(umad_recv(port_, buffer.umad(), nullptr, 0), -EINVAL);
  length = -1;
  EXPECT_EQ(umad_recv(port_, buffer.umad(), &length, 0), -EINVAL);
  length = 256;
  EXPECT_EQ(umad_recv(-2, buffer.umad(), &length, 0), -EINVAL);
  errno = 0;
  EXPECT_EQ(umad_recv(port_, buffer.umad(), &length, 1), -ETIMEDOUT);
  EXPECT_EQ(errno, ETIMEDOUT);
  EXPECT_EQ(umad_recv(port_, buffer.umad(), &length, 0), -EWOULDBLOCK);
  EXPECT_EQ(errno, EWOULDBLOCK);
  EXPECT_EQ(umad_unregister(-2, agent), -EINVAL);

  std::array<std::uint8_t, 3> oui{0, 1, 2};
  for (const int no_vendor : {-1, 256, int{kSa}}) {
    EXPECT_EQ(umad_register_oui(port_, no_vendor, 0, oui.data(), nullptr), -EINVAL);
  }
  std::uint32_t id = 0;
  umad_reg_attr attributes{};
  attributes.mgmt_class = kSa;
  attributes.mgmt_class_version = kSaVersion;
  EXPECT_EQ(umad_register2(port_, nullptr, &id), EINVAL);
  EXPECT_EQ(umad_register2(port_, &attributes, nullptr), EINVAL);
  EXPECT_EQ(umad_register2(-2, &attributes, &id), EINVAL);

  umad_ca_t ca;
  umad_port_t port;
  __be64 guid = 0;
  std::array<char, 256> path{};
  for (const char* const device : {"mlx5_0", "softib1"}) {
    EXPECT_EQ(umad_get_ca(device, &ca), -ENODEV);
    EXPECT_EQ(umad_get_port(device, 1, &port), -ENODEV);
    EXPECT_EQ(umad_get_ca_portguids(device, &guid, 2), -ENODEV);
    EXPECT_EQ(umad_get_issm_path(device, 1, path.data(), path.size()), -ENODEV);
  }
  EXPECT_EQ(umad_get_ca_portguids(fabric::kDeviceName, nullptr, 0), 0);
  EXPECT_EQ(umad_release_ca(nullptr), -ENODEV);
  EXPECT_EQ(umad_release_port(nullptr), -ENODEV);
  EXPECT_EQ(umad_get_issm_path(fabric::kDeviceName, 2, path.data(), path.size()), -EINVAL);
  EXPECT_EQ(umad_get_issm_path(fabric::kDeviceName, 1, path.data(), 0), -EINVAL);
  ASSERT_EQ(umad_get_issm_path(fabric::kDeviceName, 0, path.data(), path.size()), 0);
  const int size = static_cast<int>(std::strlen(path.data()));
  EXPECT_EQ(umad_get_issm_path(fabric::kDeviceName, 1, path.data(), size), -EINVAL);
  EXPECT_EQ(umad_get_issm_path(fabric::kDeviceName, 1, path.data(), size + 1), 0);
  EXPECT_EQ(umad_get_cas_names(nullptr, 0), 0);
  umad_device_node only{nullptr, "a"};
  umad_device_node* head = nullptr;
  EXPECT_EQ(umad_sort_ca_device_list(nullptr, 0), EINVAL);
  EXPECT_EQ(umad_sort_ca_device_list(&head, 1), 0);
  head = &only;
  EXPECT_EQ(umad_sort_ca_device_list(&head, 2), EINVAL);
  EXPECT_EQ(head, &only);
}

TEST_F(UmadTest, PollsThePortAsADescriptor) {
  EXPECT_EQ(umad_get_fd(port_), port_);
  const int agent = umad_register(port_, kSa, kSaVersion, 1, nullptr);
  pollfd readable{port_, POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
  EXPECT_EQ(umad_poll(port_, 0), -ETIMEDOUT);
  ASSERT_EQ(send(agent, request(1)), 0);
  ASSERT_EQ(send(agent, request(2)), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(::poll(&readable, 1, kLong), 1);
    EXPECT_EQ(umad_poll(port_, 0), 0);
    Buffer reply;
    int length = reply.size();
    EXPECT_EQ(umad_recv(port_, reply.umad(), &length, 0), agent);
  }
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
}

TEST_F(UmadTest, ReportsAFailedHca) {
  const int agent = umad_register(port_, kSa, kSaVersion, 1, nullptr);
  auto& subnet = world().subnet;
  subnet.set_failed(1, true);
  (void)world().sm->wake_processes(1);
  EXPECT_EQ(umad_poll(port_, kLong), 0);
  for (int i = 0; i < 2; ++i) {
    Buffer reply;
    int length = reply.size();
    EXPECT_EQ(umad_recv(port_, reply.umad(), &length, 0), -EIO);
    EXPECT_EQ(umad_poll(port_, 0), 0) << "stays readable";
  }
  EXPECT_LT(send(agent, request(0x11)), 0);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(umad_open_port(nullptr, 0), -ENODEV);
  EXPECT_LE(std::ranges::count(testing::internal::GetCapturedStderr(), '\n'), 1) << "said once";
  subnet.set_failed(1, false);
  const int again = umad_open_port(nullptr, 0);
  ASSERT_GE(again, 0);
  EXPECT_NE(again, port_);
  const int other = umad_register(again, kSa, kSaVersion, 1, nullptr);
  auto second = request(0x12);
  EXPECT_EQ(umad_send(again, other, second.umad(), second.size(), kLong, 0), 0);
  Buffer reply;
  int length = reply.size();
  EXPECT_EQ(umad_recv(again, reply.umad(), &length, kLong), other);
  EXPECT_EQ(umad_close_port(again), 0);
  EXPECT_EQ(umad_unregister(port_, agent), 0) << "agents of a failed HCA can be removed";
}

TEST_F(UmadTest, FailsToReceiveWithoutAMad) {
  Buffer reply;
  int length = reply.size();
  EXPECT_EQ(umad_recv(port_, reply.umad(), &length, 0), -EWOULDBLOCK);
  EXPECT_EQ(errno, EWOULDBLOCK);
  EXPECT_EQ(umad_recv(port_, reply.umad(), &length, 1), -ETIMEDOUT);
  EXPECT_EQ(errno, ETIMEDOUT);
  EXPECT_EQ(umad_recv(port_, nullptr, &length, 0), -EINVAL);
}

TEST_F(UmadTest, BlocksUntilAMadArrives) {
  const int agent = umad_register(port_, kSa, kSaVersion, 1, nullptr);
  std::thread later([&] { EXPECT_EQ(send(agent, request(1)), 0); });
  Buffer reply;
  int length = reply.size();
  EXPECT_EQ(umad_recv(port_, reply.umad(), &length, -1), agent);
  later.join();
}

TEST_F(UmadTest, ReceivesATimeout) {
  world().responder.set(nullptr);
  const int agent = umad_register(port_, kSa, kSaVersion, 1, nullptr);
  ASSERT_EQ(send(agent, request(0x22), 1, 2), 0);
  Buffer reply;
  int length = reply.size();
  EXPECT_EQ(umad_recv(port_, reply.umad(), &length, kLong), agent);
  EXPECT_EQ(umad_status(reply.umad()), ETIMEDOUT);
  EXPECT_EQ(length, 24);
  EXPECT_EQ(MadHeader::parse({reply.mad(), 24})->transaction_id & 0xffff'ffff, 0x22U);
}

TEST_F(UmadTest, RetriesBelowTheAbi) {
  std::atomic<int> requests = 0;
  // A request that timed out in another test may arrive only now: it must not be counted.
  constexpr std::uint64_t kId = 0x33;
  world().responder.set([&](endpoint::Endpoint& sm, MadPacket packet) {
    const auto id = MadHeader::parse(packet.mad)->transaction_id & 0xffff'ffff;
    if (id == kId && ++requests == 3) respond(sm, packet);
  });
  const int agent = umad_register(port_, kSa, kSaVersion, 1, nullptr);
  ASSERT_EQ(send(agent, request(kId), 5, 1000), 0);
  Buffer reply;
  int length = reply.size();
  EXPECT_EQ(umad_recv(port_, reply.umad(), &length, kLong), agent);
  EXPECT_EQ(umad_status(reply.umad()), 0);
  EXPECT_GE(requests, 3);
  world().responder.set(nullptr);
}

/// Responds with 1000 bytes of data, in segments as the window allows.
class TableSender {
 public:
  void operator()(endpoint::Endpoint& sm, MadPacket packet) {
    const auto rmpp = ipoib::wire::RmppHeader::parse(ConstBytes(packet.mad).subspan(24)).value();
    if (rmpp.is_active() && rmpp.type == ipoib::wire::RmppType::ack) {
      (void)sender_->receive(rmpp);
    } else {
      std::vector<std::uint8_t> message(packet.mad.begin(), packet.mad.end());
      message.resize(kSaHeaderSize + 1000, 0x5a);
      message[3] |= method::kResponse;
      message[24] = 1;
      sender_.emplace(std::move(message), kSaHeaderSize);
    }
    for (const auto& segment : sender_->sendable()) {
      packet.mad = segment;
      send_packet(sm, packet);
    }
  }

 private:
  std::optional<RmppSender> sender_;
};

TEST_F(UmadTest, ReportsTheBufferSizeThatATableNeeds) {
  world().responder.set(TableSender());
  const int agent = umad_register(port_, kSa, kSaVersion, 1, nullptr);
  ASSERT_EQ(send(agent, request(1, method::kGetTable)), 0);
  Buffer small;
  int length = small.size();
  EXPECT_EQ(umad_recv(port_, small.umad(), &length, kLong), -ENOSPC);
  EXPECT_EQ(errno, ENOSPC);
  ASSERT_EQ(length, static_cast<int>(kSaHeaderSize + 1000));
  // The message stays queued until the buffer is large enough, and the port readable.
  EXPECT_EQ(umad_poll(port_, 0), 0);
  Buffer large(static_cast<std::size_t>(length));
  EXPECT_EQ(umad_recv(port_, large.umad(), &length, 0), agent);
  EXPECT_EQ(length, static_cast<int>(kSaHeaderSize + 1000));
  EXPECT_EQ(large.mad()[kSaHeaderSize + 999], 0x5a);
  EXPECT_EQ(std::memcmp(small.mad(), large.mad(), 256), 0);
  EXPECT_EQ(umad_poll(port_, 0), -ETIMEDOUT);
}

TEST_F(UmadTest, RefusesABufferTooSmallForAMad) {
  const int agent = umad_register(port_, kSa, kSaVersion, 1, nullptr);
  ASSERT_EQ(send(agent, request(1)), 0);
  ASSERT_EQ(umad_poll(port_, kLong), 0);
  Buffer reply(100);
  int length = reply.size();
  EXPECT_EQ(umad_recv(port_, reply.umad(), &length, 0), -EINVAL);
}

TEST_F(UmadTest, RefusesUnknownPortsAndAgents) {
  EXPECT_EQ(send(0, request(1)), -EIO);
  EXPECT_EQ(errno, EINVAL);
  const int agent = umad_register(port_, kSa, kSaVersion, 1, nullptr);
  EXPECT_EQ(umad_unregister(port_, agent), 0);
  EXPECT_EQ(umad_unregister(port_, agent), -EINVAL);
  EXPECT_EQ(send(agent, request(1)), -EIO);
  EXPECT_EQ(umad_send(-1, 0, request(1).umad(), 256, 0, 0), -EIO);
  EXPECT_EQ(umad_close_port(-1), -EINVAL);
}

// Registration.

class Mask {
 public:
  explicit Mask(int method_code) {
    mask_[static_cast<std::size_t>(method_code) / 64] |= 1L << (method_code % 64);
  }
  [[nodiscard]] long* get() { return mask_.data(); }

 private:
  std::array<long, 16 / sizeof(long)> mask_{};
};

TEST_F(UmadTest, DeliversUnsolicitedMadsToTheRegisteredAgent) {
  const int client = umad_register(port_, kSa, kSaVersion, 0, nullptr);
  const int server = umad_register(port_, kSa, kSaVersion, 0, Mask(method::kReport).get());
  EXPECT_NE(client, server);
  MadPacket report;
  report.slid = TestSubnet::lid(0);
  report.dlid = TestSubnet::lid(1);
  report.source = report.destination = Qpn(1);
  report.qkey = ipoib::wire::kGsiQKey;
  MadHeader header;
  header.management_class = kSa;
  header.class_version = kSaVersion;
  header.method = method::kReport;
  header.emit(report.mad);
  send_packet(*world().sm, report);
  Buffer mad;
  int length = mad.size();
  EXPECT_EQ(umad_recv(port_, mad.umad(), &length, kLong), server);
}

TEST_F(UmadTest, RefusesASecondAgentForARequest) {
  ASSERT_GE(umad_register(port_, kSa, kSaVersion, 0, Mask(method::kReport).get()), 0);
  EXPECT_EQ(umad_register(port_, kSa, kSaVersion, 0, Mask(method::kReport).get()), -EPERM);
  EXPECT_STREQ(endpoint::last_error(),
               "umad_register: EPERM: another agent on the HCA has registered for one of these "
               "methods: end it, or leave the method out");
  const int other = umad_open_port(fabric::kDeviceName, 1);
  EXPECT_EQ(umad_register(other, kSa, kSaVersion, 0, Mask(method::kReport).get()), -EPERM);
  EXPECT_GE(umad_register(other, kSa, kSaVersion, 0, Mask(method::kSet).get()), 0);
  EXPECT_GE(umad_register(other, kSa, kSaVersion, 0, nullptr), 0);
  umad_close_port(port_);
  port_ = -1;
  EXPECT_GE(umad_register(other, kSa, kSaVersion, 0, Mask(method::kReport).get()), 0);
  umad_close_port(other);
}

TEST_F(UmadTest, BoundsTheAgentsOfAPort) {
  for (std::size_t i = 0; i < kMaxPortAgents; ++i) {
    EXPECT_EQ(umad_register(port_, kSa, kSaVersion, 1, nullptr), static_cast<int>(i));
  }
  EXPECT_EQ(umad_register(port_, kSa, kSaVersion, 1, nullptr), -EPERM);
}

TEST_F(UmadTest, RegistersVendorClassesWithAnOui) {
  std::array<std::uint8_t, 3> oui{0, 0x14, 5};
  EXPECT_GE(umad_register_oui(port_, 0x32, 0, oui.data(), nullptr), 0);
  EXPECT_EQ(umad_register_oui(port_, kSa, 0, oui.data(), nullptr), -EINVAL);
  EXPECT_GE(umad_register(port_, 0x32, 1, 0, nullptr), 0);  // with the default OUI
}

TEST_F(UmadTest, RegistersWithRegister2) {
  umad_reg_attr attr{};
  attr.mgmt_class = kSa;
  attr.mgmt_class_version = kSaVersion;
  attr.rmpp_version = 1;
  attr.method_mask[0] = 1U << method::kReport;
  std::uint32_t agent = 99;
  EXPECT_EQ(umad_register2(port_, &attr, &agent), 0);
  EXPECT_EQ(agent, 0U);
  EXPECT_EQ(umad_register2(port_, &attr, &agent), EPERM);
  EXPECT_EQ(umad_register2(port_, nullptr, &agent), EINVAL);
  attr.flags = 0x80 | UMAD_USER_RMPP;
  EXPECT_EQ(umad_register2(port_, &attr, &agent), EINVAL);
  EXPECT_EQ(attr.flags, std::uint32_t{UMAD_USER_RMPP});
  attr.method_mask[0] = 0;
  EXPECT_EQ(umad_register2(port_, &attr, &agent), 0);
  attr.mgmt_class = 0x32;
  EXPECT_EQ(umad_register2(port_, &attr, &agent), EINVAL);
}

TEST_F(UmadTest, GivesAChildItsOwnPortsAndClaims) {
  if (!test::kForkIsSafe) GTEST_SKIP() << test::kForkIsUnsafe;
  ASSERT_GE(umad_register(port_, kSa, kSaVersion, 0, Mask(method::kReport).get()), 0);
  const auto work = [&] {
    // Ports of the parent are invalid in the child, which can open its own.
    int failures = send(0, request(1)) == -EIO ? 0 : 1;
    port_ = umad_open_port(nullptr, 1);
    if (umad_register(port_, kSa, kSaVersion, 0, Mask(method::kReport).get()) != -EPERM) {
      failures += 2;
    }
    const int agent = umad_register(port_, kSa, kSaVersion, 0, nullptr);
    Buffer reply;
    int length = reply.size();
    if (send(agent, request(2)) != 0) failures += 4;
    if (umad_recv(port_, reply.umad(), &length, kLong) != agent) failures += 8;
    return failures;
  };
  EXPECT_EQ(test::in_child(work), 0);
  // The parent is not affected.
  const int agent = umad_register(port_, kSa, kSaVersion, 1, nullptr);
  ASSERT_EQ(send(agent, request(3)), 0);
  EXPECT_EQ(umad_poll(port_, kLong), 0);
}

// The device.

TEST_F(UmadTest, DescribesTheDevice) {
  char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN] = {};
  ASSERT_EQ(umad_get_cas_names(names, UMAD_MAX_DEVICES), 1);
  EXPECT_STREQ(names[0], fabric::kDeviceName);
  umad_ca_t ca;
  ASSERT_EQ(umad_get_ca(nullptr, &ca), 0);
  EXPECT_STREQ(ca.ca_name, fabric::kDeviceName);
  EXPECT_EQ(ca.node_type, 1U);
  EXPECT_EQ(ca.numports, 1);
  EXPECT_EQ(be64toh(ca.node_guid), 0x0002'c903'0000'0001U);
  EXPECT_EQ(ca.system_guid, ca.node_guid);
  EXPECT_STREQ(ca.fw_ver, subnet::kFirmwareVersion);
  EXPECT_STREQ(ca.ca_type, subnet::kDeviceType);
  EXPECT_EQ(ca.hw_ver, std::to_string(subnet::kHardwareRevision));
  EXPECT_EQ(ca.ports[0], nullptr);
  ASSERT_NE(ca.ports[1], nullptr);
  const auto& port = *ca.ports[1];
  EXPECT_STREQ(port.ca_name, fabric::kDeviceName);
  EXPECT_EQ(port.portnum, 1);
  EXPECT_EQ(port.base_lid, 2U);
  EXPECT_EQ(port.lmc, 0U);
  EXPECT_EQ(port.sm_sl, 0U);
  EXPECT_NE(port.capmask, 0U);
  EXPECT_EQ(port.sm_lid, 1U);
  EXPECT_EQ(port.state, 4U);
  EXPECT_EQ(port.phys_state, 5U);
  EXPECT_EQ(port.rate, 40U);
  EXPECT_EQ(be64toh(port.gid_prefix), Gid::kLinkLocalPrefix);
  EXPECT_EQ(be64toh(port.port_guid), 0x0002'c903'0000'0001U);
  EXPECT_EQ(port.pkeys_size, kPKeyTableSize);
  EXPECT_EQ(port.pkeys[0], 0xffff);
  EXPECT_STREQ(port.link_layer, "InfiniBand");
  EXPECT_EQ(umad_release_ca(&ca), 0);
  EXPECT_EQ(ca.ports[1], nullptr);

  std::array<__be64, 2> guids{1, 1};
  EXPECT_EQ(umad_get_ca_portguids(fabric::kDeviceName, guids.data(), 2), 2);
  EXPECT_EQ(guids[0], 0U);
  EXPECT_EQ(be64toh(guids[1]), 0x0002'c903'0000'0001U);
  EXPECT_EQ(umad_get_ca_portguids(fabric::kDeviceName, guids.data(), 1), -ENOMEM);
}

TEST_F(UmadTest, HasBothManagementInterfacesOnEachPort) {
  std::array<umad_ca_pair, 2> pairs{};
  ASSERT_EQ(umad_get_smi_gsi_pairs(pairs.data(), 0), 0);
  ASSERT_EQ(umad_get_smi_gsi_pairs(pairs.data(), pairs.size()), 1);
  EXPECT_STREQ(pairs[0].smi_name, "softib0");
  EXPECT_STREQ(pairs[0].gsi_name, "softib0");
  for (const char* const name : {static_cast<const char*>(nullptr), "softib0"}) {
    for (const std::uint8_t port : {std::uint8_t{0}, std::uint8_t{1}}) {
      umad_ca_pair pair{};
      ASSERT_EQ(umad_get_smi_gsi_pair_by_ca_name(name, port, &pair, 1), 0);
      EXPECT_STREQ(pair.smi_name, "softib0");
      EXPECT_STREQ(pair.gsi_name, "softib0");
      EXPECT_EQ(pair.smi_preferred_port, 1U);
      EXPECT_EQ(pair.gsi_preferred_port, 1U);
    }
  }
  umad_ca_pair none = pairs[0];
  EXPECT_EQ(umad_get_smi_gsi_pair_by_ca_name("softib0", 2, &none, 0), -ENODEV);
  EXPECT_STREQ(none.gsi_name, "");
  errno = 0;
  EXPECT_EQ(umad_get_smi_gsi_pair_by_ca_name("softib1", 0, &none, 0), -ENODEV);
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(umad_get_smi_gsi_pair_by_ca_name("softib0", 0, nullptr, 0), -1);
  const int port = umad_open_smi_port("softib0", 1);
  EXPECT_GE(port, 0);
  EXPECT_EQ(umad_close_port(port), 0);
}

TEST_F(UmadTest, DumpsTheHeadOfAMad) {
  ib_user_mad mad{};
  mad.agent_id = 7;
  mad.status = 0x1f;
  mad.timeout_ms = 250;
  ::testing::internal::CaptureStderr();
  umad_dump(&mad);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("agent id 7 status 1f timeout 250\n"));
}

TEST_F(UmadTest, FindsNoOtherDevice) {
  umad_ca_t ca;
  umad_port_t port;
  EXPECT_EQ(umad_get_ca("mlx5_0", &ca), -ENODEV);
  EXPECT_EQ(umad_get_port(fabric::kDeviceName, 2, &port), -EIO);
  EXPECT_EQ(umad_open_port("mlx5_0", 1), -ENODEV);
  EXPECT_EQ(umad_open_port(fabric::kDeviceName, 2), -EINVAL);
}

TEST_F(UmadTest, SortsTheListOfDevices) {
  umad_device_node* list = umad_get_ca_device_list();
  ASSERT_NE(list, nullptr);
  EXPECT_STREQ(list->ca_name, fabric::kDeviceName);
  EXPECT_EQ(list->next, nullptr);
  umad_device_node b{list, "b"};
  umad_device_node z{&b, "z"};
  umad_device_node* head = &z;
  EXPECT_EQ(umad_sort_ca_device_list(&head, 2), 0);
  EXPECT_STREQ(head->ca_name, "b");
  EXPECT_STREQ(head->next->ca_name, "z");
  EXPECT_EQ(head->next->next, list);
  EXPECT_EQ(umad_sort_ca_device_list(&head, 0), 0);
  EXPECT_STREQ(head->next->ca_name, fabric::kDeviceName);
  list->next = nullptr;
  umad_free_ca_device_list(list);
}

TEST_F(UmadTest, CancelsAThreadThatWaits) {
#ifdef IPOIB_ADDRESS_SANITIZER
  GTEST_SKIP() << "the address sanitizer does not support forced unwinding";
#endif
  struct Waiter {
    int port = umad_open_port(fabric::kDeviceName, 1);
    Buffer buffer;
  } waiter;
  ASSERT_GE(waiter.port, 0);
  pthread_t thread{};
  const auto wait = [](void* argument) -> void* {
    auto* const self = static_cast<Waiter*>(argument);
    int length = ipoib::wire::kMadSize;
    (void)umad_recv(self->port, self->buffer.umad(), &length, -1);
    return nullptr;
  };
  ASSERT_EQ(::pthread_create(&thread, nullptr, wait, &waiter), 0);
  ASSERT_EQ(::pthread_cancel(thread), 0);
  void* result = nullptr;
  ASSERT_EQ(::pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_EQ(umad_close_port(waiter.port), 0);
}

TEST_F(UmadTest, DetectsAnOpenIssmDevice) {
  std::array<char, 256> path{};
  ASSERT_EQ(umad_get_issm_path(fabric::kDeviceName, 1, path.data(), path.size()), 0);
  const auto node = world().subnet.folder().open_node(1);
  ASSERT_TRUE(node);
  EXPECT_FALSE(fabric::has_reader(node->get(), fabric::kIssmName));
  {
    const ipoib::FileDescriptor issm(::open(path.data(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    ASSERT_TRUE(issm);
    EXPECT_TRUE(fabric::has_reader(node->get(), fabric::kIssmName));
    ASSERT_EQ(umad_get_issm_path(fabric::kDeviceName, 1, path.data(), path.size()), 0)
        << "while it is open";
  }
  EXPECT_FALSE(fabric::has_reader(node->get(), fabric::kIssmName));
  EXPECT_EQ(umad_get_issm_path(fabric::kDeviceName, 1, path.data(), 5), -EINVAL);
  EXPECT_EQ(umad_get_issm_path(fabric::kDeviceName, 3, path.data(), path.size()), -EINVAL);
}

TEST(UmadBuffer, KeepsAddressesInNetworkOrder) {
  Buffer buffer;
  umad_set_addr(buffer.umad(), 0x1234, 1, 3, static_cast<int>(0x8001'0000));
  const auto* address = umad_get_mad_addr(buffer.umad());
  EXPECT_EQ(ntohs(address->lid), 0x1234);
  EXPECT_EQ(ntohl(address->qpn), 1U);
  EXPECT_EQ(ntohl(address->qkey), 0x8001'0000U);
  EXPECT_EQ(address->sl, 3);
  umad_set_pkey(buffer.umad(), 7);
  EXPECT_EQ(umad_get_pkey(buffer.umad()), 7);
  ib_mad_addr_t grh{};
  grh.gid[15] = 9;
  grh.flow_label = 0x12345;
  grh.hop_limit = 64;
  umad_set_grh(buffer.umad(), &grh);
  EXPECT_EQ(address->grh_present, 1);
  EXPECT_EQ(address->gid[15], 9);
  EXPECT_EQ(ntohl(address->flow_label), 0x12345U);
  umad_set_grh(buffer.umad(), nullptr);
  EXPECT_EQ(address->grh_present, 0);
  EXPECT_EQ(umad_size(), sizeof(ib_user_mad));
}

TEST(UmadBuffer, KeepsTheDebugLevel) {
  EXPECT_EQ(umad_debug(-1), 0);
  EXPECT_EQ(umad_debug(2), 2);
  EXPECT_EQ(umad_debug(0), 0);
}

}  // namespace
}  // namespace softib::umad
