// Tests the port with an in-memory libibumad: the functions defined here replace the library's.
#include "verbs/umad_port.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/umad.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tests/support/softib/temporary_folder.hpp"
#include "wire/mad.hpp"

namespace {

/// The calls that the MAD device has received, and its behaviour.
struct Kernel {
  struct Sent {
    int agent;
    ib_mad_addr_t to;
    int timeout_ms;
    int retries;
    std::vector<std::uint8_t> mad;
  };
  struct Pending {
    std::uint32_t status = 0;
    std::vector<std::uint8_t> mad;
    ib_mad_addr_t from{};
  };
  int open_result = 7;
  int register_result = 3;
  int send_result = 0;
  int receive_error = 0;
  int reason = 0;  ///< errno of the call that fails
  std::vector<std::vector<int>> registered;
  std::vector<Sent> sent;
  std::deque<Pending> pending;
  int open_ports = 0;
  int agents = 0;
  bool reports_are_taken = false;  ///< by another agent
  bool gives_reports = false;
  std::vector<std::uint16_t> pkeys;
  std::uint64_t port_guid = 0;
  std::string issm_path;  ///< empty: unknown
  int open_queries = 0;   ///< calls of umad_get_port that were not released
};
Kernel kernel;

/// The agent that is registered for reports.
int report_agent() { return 0; }

int failing(int result) {
  if (kernel.reason != 0) errno = kernel.reason;
  return result;
}

}  // namespace

extern "C" {

int umad_init() { return 0; }

// The layout since Linux 2.6.27, with a P_Key index.
size_t umad_size() { return sizeof(ib_user_mad); }
void* umad_get_mad(void* umad) { return static_cast<ib_user_mad*>(umad)->data; }
ib_mad_addr_t* umad_get_mad_addr(void* umad) { return &static_cast<ib_user_mad*>(umad)->addr; }
int umad_set_pkey(void* umad, int index) {
  static_cast<ib_user_mad*>(umad)->addr.pkey_index = static_cast<std::uint16_t>(index);
  return 0;
}

int umad_open_port(const char* /*device*/, int /*port*/) {
  if (kernel.open_result < 0) return failing(kernel.open_result);
  ++kernel.open_ports;
  return kernel.open_result;
}
int umad_close_port(int port) {
  EXPECT_EQ(port, kernel.open_result);
  --kernel.open_ports;
  return 0;
}
int umad_register(int /*port*/, int mgmt_class, int version, std::uint8_t rmpp, long* methods) {
  if (methods != nullptr) {
    constexpr std::size_t kBits = 8 * sizeof(long);
    for (std::size_t method = 0; method < 128; ++method) {
      const bool is_asked = (methods[method / kBits] >> method % kBits & 1) != 0;
      EXPECT_EQ(is_asked, method == ipoib::wire::method::kReport) << method;
    }
    if (kernel.reports_are_taken) return failing(-EPERM);
    kernel.gives_reports = true;
  }
  if (kernel.register_result < 0) return failing(kernel.register_result);
  kernel.registered.push_back({mgmt_class, version, rmpp});
  ++kernel.agents;
  return methods != nullptr ? report_agent() : kernel.register_result;
}
int umad_unregister(int port, int agent) {
  EXPECT_EQ(port, kernel.open_result);
  EXPECT_GT(kernel.open_ports, 0);
  EXPECT_TRUE(agent == kernel.register_result || agent == report_agent()) << agent;
  --kernel.agents;
  return 0;
}
int umad_send(int port, int agent, void* umad, int length, int timeout_ms, int retries) {
  EXPECT_EQ(port, kernel.open_result);
  if (kernel.send_result < 0) return failing(kernel.send_result);
  const auto* mad = static_cast<std::uint8_t*>(umad_get_mad(umad));
  kernel.sent.push_back(
      {agent, *umad_get_mad_addr(umad), timeout_ms, retries, {mad, mad + length}});
  return 0;
}
int umad_poll(int port, int timeout_ms) {
  EXPECT_EQ(port, kernel.open_result);
  EXPECT_EQ(timeout_ms, 0) << "never blocks";
  return kernel.pending.empty() && kernel.receive_error == 0 ? -ETIMEDOUT : 0;
}
/// Like user_mad.c: returns one MAD, or the first part of a longer one with ENOSPC.
int umad_recv(int port, void* umad, int* length, int timeout_ms) {
  EXPECT_EQ(port, kernel.open_result);
  EXPECT_EQ(timeout_ms, 0) << "never blocks";
  if (kernel.receive_error != 0) return -kernel.receive_error;
  const auto& next = kernel.pending.front();
  auto* header = static_cast<ib_user_mad*>(umad);
  header->status = next.status;
  header->addr = next.from;
  const auto room = static_cast<std::size_t>(*length);
  *length = static_cast<int>(next.mad.size());
  std::copy_n(next.mad.begin(), std::min(room, next.mad.size()),
              static_cast<std::uint8_t*>(umad_get_mad(umad)));
  if (room < next.mad.size()) return -ENOSPC;
  kernel.pending.pop_front();
  return kernel.register_result;
}
int umad_get_fd(int port) { return port; }
int umad_get_port(const char* /*device*/, int number, umad_port_t* port) {
  if (kernel.pkeys.empty()) return -EIO;
  *port = {};
  port->portnum = number;
  port->gid_prefix = htobe64(0xfec0000000000001);
  port->port_guid = htobe64(kernel.port_guid);
  port->pkeys = kernel.pkeys.data();
  port->pkeys_size = static_cast<unsigned>(kernel.pkeys.size());
  ++kernel.open_queries;
  return 0;
}
int umad_release_port(umad_port_t* /*port*/) {
  --kernel.open_queries;
  return 0;
}
int umad_get_issm_path(const char* /*device*/, int /*port*/, char* path, int size) {
  const std::string& known = kernel.issm_path;
  if (known.empty() || known.size() >= static_cast<std::size_t>(size)) return -EINVAL;
  std::copy_n(known.c_str(), known.size() + 1, path);
  return 0;
}

}  // extern "C"

namespace ipoib::verbs {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class UmadPortTest : public testing::Test {
 protected:
  UmadPortTest() { kernel = {}; }

  static std::unique_ptr<UmadPort> open() { return UmadPort::open("mlx5_0", 1).value(); }
  static Error open_error() {
    const auto refused = UmadPort::open("mlx5_0", 1);
    return refused.has_error() ? refused.error() : Error{0, "opened"};
  }
};

/// Reports are single MADs; with RMPP, anybody could begin a transfer to this port.
TEST_F(UmadPortTest, RegistersForTheSaClassWithRmppForResponsesOnly) {
  {
    const auto port = open();
    EXPECT_THAT(kernel.registered, ElementsAre(ElementsAre(0x03, 2, 1), ElementsAre(0x03, 2, 0)));
    EXPECT_EQ(port->fd(), kernel.open_result);
  }
  EXPECT_EQ(kernel.agents, 0);
  EXPECT_EQ(kernel.open_ports, 0);
}

TEST_F(UmadPortTest, ReceivesReportsUnlessAnotherAgentDoes) {
  EXPECT_TRUE(open()->takes_reports());
  EXPECT_TRUE(kernel.gives_reports);
  kernel.reports_are_taken = true;
  EXPECT_FALSE(open()->takes_reports());
  EXPECT_EQ(kernel.agents, 0);
}

TEST_F(UmadPortTest, ClaimsReportsLaterButOnlyOnce) {
  kernel.reports_are_taken = true;
  const auto port = open();
  EXPECT_FALSE(port->claim_reports());
  EXPECT_EQ(kernel.agents, 1);
  kernel.reports_are_taken = false;
  EXPECT_TRUE(port->claim_reports());
  EXPECT_TRUE(port->claim_reports());
  EXPECT_EQ(kernel.agents, 2);
}

TEST_F(UmadPortTest, RespondsToReportsByTheAgentThatReceivesThem) {
  const auto agent_of = [](UmadPort& port, std::uint8_t method) {
    std::vector<std::uint8_t> mad(wire::kMadSize);
    mad[0] = 1;
    mad[1] = wire::mgmt_class::kSubnAdm;
    mad[2] = 2;
    mad[3] = method;
    EXPECT_TRUE(port.send({Lid(1), {}, 0}, mad, {}));
    return kernel.sent.back().agent;
  };
  const auto port = open();
  EXPECT_EQ(agent_of(*port, wire::method::kReportResp), report_agent());
  EXPECT_EQ(agent_of(*port, wire::method::kGet), kernel.register_result);
  kernel.reports_are_taken = true;
  EXPECT_EQ(agent_of(*open(), wire::method::kReportResp), kernel.register_result);
}

TEST_F(UmadPortTest, ErrorSaysWhatIsMissing) {
  kernel.open_result = -ENODEV;
  EXPECT_EQ(open_error().code, ENODEV);
  EXPECT_THAT(open_error().message, AllOf(HasSubstr("mlx5_0 port 1"), HasSubstr("ibstat -l")));
  kernel.open_result = -EINVAL;
  EXPECT_THAT(open_error().message, HasSubstr("modprobe ib_umad"));
  kernel.open_result = -EIO;
  kernel.reason = EACCES;
  EXPECT_EQ(open_error().code, EACCES);
  EXPECT_THAT(open_error().message, HasSubstr("run as root"));
  kernel.open_result = -EOPNOTSUPP;
  EXPECT_EQ(open_error().code, EOPNOTSUPP);
}

TEST_F(UmadPortTest, ClosesThePortWithoutAnAgent) {
  kernel.register_result = -EPERM;
  kernel.reason = ENOMEM;
  EXPECT_EQ(open_error().code, ENOMEM);
  EXPECT_EQ(kernel.open_ports, 0);
  kernel.reason = 0;
  errno = ENOENT;  // of another call
  EXPECT_EQ(open_error().code, EPERM);
}

TEST_F(UmadPortTest, SendsToTheGeneralServicesInterface) {
  const auto port = open();
  const std::vector<std::uint8_t> mad(wire::kMadSize, 0x5a);
  ASSERT_TRUE(port->send({Lid(0x1234), ServiceLevel(5), 2}, mad, std::chrono::microseconds(1500)));
  ASSERT_EQ(kernel.sent.size(), 1U);
  const auto& sent = kernel.sent[0];
  EXPECT_EQ(sent.mad, mad);
  EXPECT_EQ(sent.to.lid, htobe16(0x1234));
  EXPECT_EQ(sent.to.qpn, htobe32(1));
  EXPECT_EQ(sent.to.qkey, htobe32(0x80010000));
  EXPECT_EQ(sent.to.sl, 5);
  EXPECT_EQ(sent.to.pkey_index, 2);
  EXPECT_EQ(sent.to.grh_present, 0);
  EXPECT_EQ(sent.timeout_ms, 2) << "rounded up";
  EXPECT_EQ(sent.retries, 0) << "the client retries";
}

TEST_F(UmadPortTest, SendsToAnotherQueuePairAndByAGlobalRoute) {
  const auto port = open();
  MadDestination to{Lid(7), {}, 0, Qpn(0x123), QKey(0x80015555), GlobalRoute{}};
  to.global->dgid = *Gid::parse("fec0::7");
  to.global->sgid_index = 2;
  to.global->flow_label = 0x12345;
  to.global->hop_limit = 9;
  to.global->traffic_class = 3;
  ASSERT_TRUE(port->send(to, std::vector<std::uint8_t>(wire::kMadSize), Duration(1)));
  const auto& sent = kernel.sent.at(0).to;
  EXPECT_EQ(sent.qpn, htobe32(0x123));
  EXPECT_EQ(sent.qkey, htobe32(0x80015555));
  EXPECT_EQ(sent.grh_present, 1);
  EXPECT_EQ(sent.gid_index, 2);
  EXPECT_THAT(sent.gid, testing::ElementsAreArray(to.global->dgid.bytes()));
  EXPECT_EQ(sent.flow_label, htobe32(0x12345));
  EXPECT_EQ(sent.hop_limit, 9);
  EXPECT_EQ(sent.traffic_class, 3);
}

TEST_F(UmadPortTest, ReturnsThePrefixAndPKeysOfThePort) {
  const auto port = open();
  EXPECT_TRUE(port->source().pkeys.empty()) << "the port cannot be read";
  kernel.pkeys = {0xffff, 0x8012};
  const auto source = port->source();
  EXPECT_EQ(source.gid_prefix, 0xfec0000000000001);
  EXPECT_THAT(source.pkeys, ElementsAre(PKey(0xffff), PKey(0x8012)));
  EXPECT_EQ(kernel.open_queries, 0);
}

class UmadPortIdentity : public UmadPortTest {
 protected:
  UmadPortIdentity() {
    kernel.pkeys = {0xffff};
    kernel.port_guid = 0x0002c90300a1b2c3;
  }
  ~UmadPortIdentity() override { EXPECT_EQ(kernel.open_queries, 0); }
  static std::optional<std::string> identity(const std::filesystem::path& issm) {
    kernel.issm_path = issm.string();
    return open()->identity();
  }
};

TEST_F(UmadPortIdentity, IsTheGuidOfThePortWithAndWithoutTheDeviceOfItsSm) {
  EXPECT_EQ(identity("/dev/null"), "0002c90300a1b2c3") << "a character device";
  EXPECT_EQ(identity("/dev/infiniband/issm987654"), "0002c90300a1b2c3") << "not in the container";
  kernel.port_guid = 0x0002c90300a1b2c4;
  EXPECT_EQ(identity("/dev/null"), "0002c90300a1b2c4");
}

TEST_F(UmadPortIdentity, DistinguishesEmulatedSubnets) {
  const softib::test::TemporaryFolder one;
  const softib::test::TemporaryFolder other;
  std::ofstream(one / "issm") << "";
  std::filesystem::path deep = other.path();
  while (deep.string().size() < 400) deep /= std::string(50, 'd');
  std::filesystem::create_directories(deep);
  std::ofstream(deep / "issm") << "";
  const auto first = identity(one / "issm");
  const auto second = identity(deep / "issm");
  ASSERT_TRUE(first);
  ASSERT_TRUE(second) << "a long path";
  EXPECT_NE(first, second);
  EXPECT_EQ(first, identity(one / "issm"));
}

TEST_F(UmadPortIdentity, IsUnknownIfItWouldNotBeUnique) {
  EXPECT_EQ(identity({}), std::nullopt);
  EXPECT_EQ(identity("/nonexistent/issm"), std::nullopt) << "of an emulated port";
  kernel.port_guid = 0;
  EXPECT_EQ(identity("/dev/null"), std::nullopt);
  kernel.pkeys.clear();
  EXPECT_EQ(identity("/dev/null"), std::nullopt) << "the port cannot be read";
}

TEST_F(UmadPortTest, RoundsAShortTimeoutUp) {
  const auto port = open();
  ASSERT_TRUE(port->send({Lid(1), {}, 0}, std::vector<std::uint8_t>(wire::kMadSize), Duration(1)));
  EXPECT_EQ(kernel.sent[0].timeout_ms, 1);
}

TEST_F(UmadPortTest, SendsAResponseWithoutTimeout) {
  const auto port = open();
  ASSERT_TRUE(port->send({Lid(1), {}, 0}, std::vector<std::uint8_t>(wire::kMadSize), {}));
  EXPECT_EQ(kernel.sent[0].timeout_ms, 0);
}

TEST_F(UmadPortTest, ReturnsTheSenderOfAMad) {
  const auto port = open();
  kernel.pending.push_back({0, std::vector<std::uint8_t>(wire::kMadSize, 0x11)});
  auto& from = kernel.pending.back().from;
  from.lid = htobe16(0x1234);
  from.sl = 3;
  from.pkey_index = 2;
  const auto mad = port->receive();
  ASSERT_TRUE(mad);
  EXPECT_EQ(mad->from, (MadDestination{Lid(0x1234), ServiceLevel(3), 2}));
}

TEST_F(UmadPortTest, ReturnsTheGlobalRouteToTheSender) {
  const auto port = open();
  kernel.pending.push_back({0, std::vector<std::uint8_t>(wire::kMadSize, 0x11)});
  auto& from = kernel.pending.back().from;
  const GlobalRoute route{.dgid = *Gid::parse("fe80::7"),
                          .sgid_index = 2,
                          .flow_label = 0x12345,
                          .hop_limit = 9,
                          .traffic_class = 3};
  from.grh_present = 1;
  from.gid_index = route.sgid_index;
  from.flow_label = htobe32(route.flow_label);
  from.hop_limit = route.hop_limit;
  from.traffic_class = route.traffic_class;
  std::ranges::copy(route.dgid.bytes(), from.gid);
  EXPECT_EQ(port->receive()->from.global, route);
}

TEST_F(UmadPortTest, ErrorSaysWhyASendFailed) {
  const auto port = open();
  kernel.send_result = -EIO;
  kernel.reason = EAGAIN;
  const auto sent = port->send({Lid(7), {}, 0}, std::vector<std::uint8_t>(wire::kMadSize), {});
  ASSERT_TRUE(sent.has_error());
  EXPECT_EQ(sent.error().code, EAGAIN);
  EXPECT_THAT(sent.error().message, HasSubstr("LID 7"));
}

TEST_F(UmadPortTest, ReceivesResponsesAndTimeoutsInOrder) {
  const auto port = open();
  EXPECT_FALSE(port->receive());
  const std::vector<std::uint8_t> response(wire::kMadSize, 0x11);
  const std::vector<std::uint8_t> request(wire::kMadSize, 0x22);
  kernel.pending = {{0, response}, {ETIMEDOUT, request}};
  auto mad = port->receive();
  ASSERT_TRUE(mad);
  EXPECT_FALSE(mad->timed_out);
  EXPECT_EQ(mad->bytes, response);
  mad = port->receive();
  ASSERT_TRUE(mad);
  EXPECT_TRUE(mad->timed_out);
  EXPECT_EQ(mad->bytes, request);
  EXPECT_FALSE(port->receive());
  EXPECT_FALSE(port->failed());
}

TEST_F(UmadPortTest, ReceivesReassembledResponsesOfAnyLength) {
  const auto port = open();
  for (const std::size_t size : {std::size_t{5000}, wire::kMadSize + 1}) {
    std::vector<std::uint8_t> table(size);
    for (std::size_t i = 0; i < size; ++i) table[i] = static_cast<std::uint8_t>(i * 7);
    kernel.pending = {{0, table}};
    const auto mad = port->receive();
    ASSERT_TRUE(mad);
    EXPECT_EQ(mad->bytes, table);
  }
}

TEST_F(UmadPortTest, FailsWhenTheDeviceIsGone) {
  const auto port = open();
  kernel.receive_error = EIO;
  EXPECT_FALSE(port->receive());
  EXPECT_TRUE(port->failed());
  kernel.receive_error = 0;
  kernel.pending = {{0, std::vector<std::uint8_t>(wire::kMadSize)}};
  EXPECT_FALSE(port->receive());
}

TEST_F(UmadPortTest, SurvivesAReadWithoutAMad) {
  const auto port = open();
  for (const int error : {EWOULDBLOCK, EINTR}) {
    kernel.receive_error = error;
    EXPECT_FALSE(port->receive());
    EXPECT_FALSE(port->failed()) << error;
  }
}

}  // namespace
}  // namespace ipoib::verbs
