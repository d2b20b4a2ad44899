#include "softib/umad/mad_layer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "softib/core/mad_route.hpp"

namespace softib::umad {
namespace {

using ipoib::wire::kMadHeaderSize;
using ipoib::wire::kSaHeaderSize;
using ipoib::wire::RmppHeader;
using ipoib::wire::RmppType;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
namespace method = ipoib::wire::method;

constexpr std::uint8_t kSa = ipoib::wire::mgmt_class::kSubnAdm;
constexpr std::uint8_t kPerf = ipoib::wire::mgmt_class::kPerf;
constexpr std::uint32_t kEpoch = 3;
constexpr std::uint32_t kSlot = 5;
constexpr NodeIndex kNode = 1000;
constexpr ipoib::TimePoint kStart{seconds(1000)};
constexpr Lid kOwn{7};
constexpr Lid kPeer{9};

std::vector<std::uint8_t> make_mad(std::uint8_t management_class, std::uint8_t method_code,
                                   std::uint64_t transaction_id, std::size_t size = 256) {
  std::vector<std::uint8_t> mad(size);
  MadHeader header;
  header.management_class = management_class;
  header.class_version = management_class == kSa ? 2 : 1;
  header.method = method_code;
  header.transaction_id = transaction_id;
  header.emit(mad);
  return mad;
}

void set_rmpp(std::span<std::uint8_t> mad, RmppType type, std::uint8_t flags,
              std::uint32_t data1 = 0, std::uint32_t data2 = 0) {
  RmppHeader rmpp;
  rmpp.type = type;
  rmpp.flags = flags | RmppHeader::kActive;
  rmpp.data1 = data1;
  rmpp.data2 = data2;
  rmpp.emit(mad.subspan(kMadHeaderSize));
}

Registration make_registration(std::uint8_t management_class, std::uint8_t rmpp_version = 0,
                               std::initializer_list<std::size_t> methods = {}) {
  Registration registration;
  registration.management_class = management_class;
  registration.class_version = management_class == kSa ? 2 : 1;
  registration.rmpp_version = rmpp_version;
  for (const auto one : methods) registration.methods.set(one);
  return registration;
}

class MadLayerTest : public testing::Test {
 protected:
  MadLayerTest() {
    port_.lid = kOwn;
    port_.pkeys[0] = ipoib::kDefaultPKey;
    port_.pkeys[3] = PKey(0x8012);
  }

  std::uint32_t add(const Registration& registration) {
    return layer_.add_agent(registration, {1, kNode}).value();
  }
  ipoib::Result<void> send(std::uint32_t agent, const std::vector<std::uint8_t>& mad,
                           const RetryPolicy& retry, ipoib::TimePoint now = kStart,
                           std::uint16_t pkey_index = 0) {
    return layer_.send(agent, {kPeer, ServiceLevel(2), Qpn(1), pkey_index}, mad, retry, port_, now);
  }
  /// The reply to a packet.
  static MadPacket reply_to(const MadPacket& sent, std::uint8_t method_code) {
    MadPacket packet = sent;
    std::swap(packet.slid, packet.dlid);
    packet.mad[3] = method_code;
    return packet;
  }
  MadPacket request(const std::vector<std::uint8_t>& mad) const {
    MadPacket packet;
    packet.slid = kPeer;
    packet.dlid = kOwn;
    packet.source = packet.destination = Qpn(1);
    packet.qkey = ipoib::wire::kGsiQKey;
    std::copy(mad.begin(), mad.end(), packet.mad.begin());
    return packet;
  }
  void receive(const MadPacket& packet, ipoib::TimePoint now = kStart) {
    layer_.receive(packet, port_, now);
  }
  MadPacket sent_one() {
    const auto sent = layer_.take_outgoing();
    EXPECT_THAT(sent, SizeIs(1));
    return sent.at(0);
  }
  ReceivedMad received_one() {
    const auto received = layer_.take_received();
    EXPECT_THAT(received, SizeIs(1));
    return received.at(0);
  }

  PortAttributes port_;
  MadLayer layer_{MadRoute{kNode, kSlot, kEpoch, 0}};
  const RetryPolicy once_{milliseconds(100), 0};
};

// Requests and responses.

TEST_F(MadLayerTest, PutsTheRouteIntoTheTransactionId) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 0xaaaa'bbbb'0000'0011), once_, kStart, 3));
  const auto packet = sent_one();
  EXPECT_EQ(packet.slid, kOwn);
  EXPECT_EQ(packet.dlid, kPeer);
  EXPECT_EQ(packet.sl, ServiceLevel(2));
  EXPECT_EQ(packet.pkey, PKey(0x8012));
  EXPECT_EQ(packet.source, Qpn(1));
  EXPECT_EQ(packet.destination, Qpn(1));
  EXPECT_EQ(packet.qkey, ipoib::wire::kGsiQKey);
  const auto id = MadHeader::parse(packet.mad)->transaction_id;
  EXPECT_EQ(id & 0xffff'ffff, 0x11U);
  EXPECT_EQ(MadRoute::of(id), (MadRoute{kNode, kSlot, kEpoch, agent}));
}

TEST_F(MadLayerTest, SendsAndReceivesByAGlobalRoute) {
  port_.port_guid = Guid(0x42);
  const auto agent = add(make_registration(kSa, 0, {method::kReport}));
  MadAddress to{kPeer, {}, Qpn(1), 0, 0};
  to.global = ipoib::GlobalRoute{.dgid = Gid(Gid::kLinkLocalPrefix, Guid(9)),
                                 .flow_label = 0x12345,
                                 .hop_limit = 3,
                                 .traffic_class = 4};
  ASSERT_TRUE(layer_.send(agent, to, make_mad(kSa, method::kGet, 1), once_, port_, kStart));
  const auto packet = sent_one();
  ASSERT_TRUE(packet.grh);
  EXPECT_EQ(packet.grh->sgid, port_.gid());
  EXPECT_EQ(packet.grh->dgid, to.global->dgid);
  EXPECT_EQ(packet.grh->flow_label, 0x12345U);
  EXPECT_EQ(packet.grh->hop_limit, 3);
  EXPECT_EQ(packet.grh->traffic_class, 4);
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  EXPECT_EQ(MadPacket::parse(packet.emit(bytes))->grh->dgid, packet.grh->dgid);

  auto response = packet;
  response.reverse();
  response.mad[3] = method::kGetResp;
  receive(response);
  EXPECT_EQ(received_one().peer.global, to.global);
  auto report = request(make_mad(kSa, method::kReport, 7));
  receive(report);
  EXPECT_FALSE(received_one().peer.global);
  to.global->sgid_index = 1;
  EXPECT_EQ(
      layer_.send(agent, to, make_mad(kSa, method::kGet, 2), once_, port_, kStart).error().code,
      EINVAL);
}

TEST_F(MadLayerTest, PortMayRequireAGrhForQp1) {
  port_.port_guid = Guid(0x42);
  port_.grh_required = true;
  const auto agent = add(make_registration(kSa, 0, {method::kReport}));
  EXPECT_EQ(send(agent, make_mad(kSa, method::kGet, 1), once_).error().code, EINVAL);
  const auto smi = add(make_registration(ipoib::wire::mgmt_class::kSubnLid));
  EXPECT_TRUE(send(smi, make_mad(ipoib::wire::mgmt_class::kSubnLid, method::kGet, 1), once_))
      << "subnet management packets have none";
}

TEST_F(MadLayerTest, DeliversTheResponseToTheRequestingAgent) {
  (void)add(make_registration(kSa));
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 1), once_));
  EXPECT_EQ(layer_.next_deadline(), kStart + milliseconds(100));
  receive(reply_to(sent_one(), method::kGetResp));
  const auto received = received_one();
  EXPECT_EQ(received.agent, agent);
  EXPECT_EQ(received.status, 0);
  EXPECT_EQ(received.peer.lid, kPeer);
  EXPECT_THAT(received.mad, SizeIs(256));
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
}

TEST_F(MadLayerTest, DropsADuplicateResponse) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 1), once_));
  const auto response = reply_to(sent_one(), method::kGetResp);
  receive(response);
  receive(response);
  EXPECT_THAT(layer_.take_received(), SizeIs(1));
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request));
}

TEST_F(MadLayerTest, DropsTheResponseToARequestWithoutTimeout) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 1), {}));
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
  receive(reply_to(sent_one(), method::kGetResp));
  EXPECT_THAT(layer_.take_received(), IsEmpty());
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request));
}

TEST_F(MadLayerTest, DropsResponsesForOtherProcesses) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 1), once_));
  const auto request = sent_one();
  for (const MadRoute other :
       {MadRoute{kNode, kSlot, kEpoch + 1, agent}, MadRoute{kNode, kSlot + 1, kEpoch, agent},
        MadRoute{kNode - 1, kSlot, kEpoch, agent}}) {
    auto response = reply_to(request, method::kGetResp);
    MadHeader header = MadHeader::parse(response.mad).value();
    header.transaction_id = std::uint64_t{other.high_half()} << 32 | 1;
    header.emit(response.mad);
    receive(response);
    EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request));
  }
}

TEST_F(MadLayerTest, ReportsATimeoutWithTheHeaderOfTheRequest) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 5), once_));
  layer_.on_time(kStart + milliseconds(99));
  EXPECT_THAT(layer_.take_received(), IsEmpty());
  layer_.on_time(kStart + milliseconds(100));
  const auto received = received_one();
  EXPECT_EQ(received.status, ETIMEDOUT);
  EXPECT_THAT(received.mad, SizeIs(kMadHeaderSize));
  EXPECT_EQ(MadHeader::parse(received.mad)->transaction_id & 0xffff'ffff, 5U);
  EXPECT_EQ(received.peer.lid, kPeer);
}

TEST_F(MadLayerTest, RetriesBeforeItReportsATimeout) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 5), {milliseconds(100), 2}));
  const auto first = sent_one();
  for (int i = 1; i <= 2; ++i) {
    layer_.on_time(kStart + i * milliseconds(100));
    EXPECT_EQ(sent_one().mad, first.mad);
    EXPECT_THAT(layer_.take_received(), IsEmpty());
  }
  layer_.on_time(kStart + milliseconds(300));
  EXPECT_THAT(layer_.take_outgoing(), IsEmpty());
  EXPECT_EQ(received_one().status, ETIMEDOUT);
}

TEST_F(MadLayerTest, WaitsForeverWithANegativeTimeout) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 5), {milliseconds(-1), 0}));
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
  receive(reply_to(sent_one(), method::kGetResp));
  EXPECT_EQ(received_one().status, 0);
}

TEST_F(MadLayerTest, RefusesInvalidSends) {
  const auto agent = add(make_registration(kSa));
  const auto refusal = [&](const ipoib::Result<void>& result) {
    EXPECT_EQ(result.error().code, EINVAL);
    return result.error().message;
  };
  const std::string no_mad =
      "no agent has this number, or the MAD is shorter than its headers of 36 bytes";
  EXPECT_EQ(refusal(send(agent + 1, make_mad(kSa, method::kGet, 1), once_)), no_mad);
  EXPECT_EQ(refusal(send(agent, make_mad(kSa, method::kGet, 1, 35), once_)), no_mad);
  EXPECT_EQ(refusal(send(agent, make_mad(kSa, method::kGet, 1, 257), once_)),
            "the MAD is longer than 256 bytes, and does not use RMPP");
  const std::string no_key =
      "the P_Key table has no valid key at this index: smpquery pkeys prints it";
  EXPECT_EQ(refusal(send(agent, make_mad(kSa, method::kGet, 1), once_, kStart, 1)), no_key);
  EXPECT_EQ(refusal(send(agent, make_mad(kSa, method::kGet, 1), once_, kStart, 99)), no_key);
  EXPECT_TRUE(send(agent, make_mad(kSa, method::kGet, 1), once_));
  EXPECT_EQ(refusal(send(agent, make_mad(kSa, method::kGet, 1), once_)),
            "a request with this transaction ID waits for its response: use another ID");
  EXPECT_TRUE(send(agent, make_mad(kSa, method::kGet, 2, 36), once_));
}

TEST_F(MadLayerTest, BoundsTransactions) {
  const auto agent = add(make_registration(kSa));
  for (std::size_t i = 0; i < kMaxTransactions; ++i) {
    ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, i), once_));
  }
  const auto more = send(agent, make_mad(kSa, method::kGet, kMaxTransactions), once_);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ENOMEM);
  EXPECT_EQ(more.error().message, "the process has " + std::to_string(kMaxTransactions) +
                                      " requests without response, the maximum: wait for some");
}

TEST_F(MadLayerTest, DropsTheTransactionsOfARemovedAgent) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 1), once_));
  const auto response = reply_to(sent_one(), method::kGetResp);
  layer_.remove_agent(agent);
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
  const auto next = add(make_registration(kSa));
  EXPECT_NE(next, agent);
  receive(response);
  EXPECT_THAT(layer_.take_received(), IsEmpty());
}

// Requests from other ports.

TEST_F(MadLayerTest, DeliversRequestsToTheRegisteredAgent) {
  (void)add(make_registration(kPerf));
  const auto agent = add(make_registration(kPerf, 0, {method::kGet}));
  receive(request(make_mad(kPerf, method::kGet, 77)));
  const auto received = received_one();
  EXPECT_EQ(received.agent, agent);
  EXPECT_EQ(MadHeader::parse(received.mad)->transaction_id, 77U);
  receive(request(make_mad(kPerf, method::kSet, 78)));
  receive(request(make_mad(kSa, method::kGet, 79)));
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_agent,
                                               fabric::PortCounter::drop_mad_no_agent));
}

TEST_F(MadLayerTest, AnAgentGetsWhatArrivesAtItsPort) {
  const auto asks = make_registration(kPerf, 0, {method::kGet});
  const auto first = add(asks);
  const auto second = layer_.add_agent(asks, {2, kNode + 1}).value();
  receive(request(make_mad(kPerf, method::kGet, 77)));
  EXPECT_EQ(received_one().agent, first);
  auto packet = request(make_mad(kPerf, method::kGet, 78));
  packet.port = 2;
  receive(packet);
  EXPECT_EQ(received_one().agent, second);
}

TEST_F(MadLayerTest, AnAgentSendsByItsPort) {
  const auto agent = layer_.add_agent(make_registration(kPerf), {2, kNode + 1}).value();
  port_.number = 2;
  ASSERT_TRUE(send(agent, make_mad(kPerf, method::kGet, 5), once_));
  const auto packet = sent_one();
  EXPECT_EQ(packet.port, 2);
  const auto id = MadHeader::parse(packet.mad)->transaction_id;
  EXPECT_EQ(MadRoute::of(id).node, kNode + 1) << "so the response returns to that port";
  auto reply = reply_to(packet, method::kGetResp);
  reply.port = 1;
  receive(reply);
  EXPECT_THAT(layer_.take_drops(), SizeIs(1)) << "it has arrived at the other port";
  reply.port = 2;
  receive(reply);
  EXPECT_EQ(received_one().agent, agent);
}

TEST_F(MadLayerTest, KeepsTheTransactionIdOfAResponse) {
  const auto agent = add(make_registration(kPerf, 0, {method::kGet}));
  ASSERT_TRUE(send(agent, make_mad(kPerf, method::kGetResp, 0x1234'5678'9abc'def0), {}));
  EXPECT_EQ(MadHeader::parse(sent_one().mad)->transaction_id, 0x1234'5678'9abc'def0U);
}

TEST_F(MadLayerTest, SendsNoGrhToQp0) {
  const auto agent = add(make_registration(ipoib::wire::mgmt_class::kSubnLid));
  MadAddress to{kPeer, {}, Qpn(0), 0, 0};
  to.global = ipoib::GlobalRoute{.dgid = Gid(Gid::kLinkLocalPrefix, Guid(9))};
  const auto mad = make_mad(ipoib::wire::mgmt_class::kSubnLid, method::kGet, 1);
  ASSERT_TRUE(layer_.send(agent, to, mad, once_, port_, kStart));
  EXPECT_FALSE(sent_one().grh) << "SMPs are not routed (IBA 13.5.1)";
}

TEST_F(MadLayerTest, BoundsAgents) {
  std::vector<std::uint32_t> agents;
  for (std::size_t i = 0; i < kMaxAgents; ++i) agents.push_back(add(make_registration(kSa)));
  const auto refused = layer_.add_agent(make_registration(kSa), {1, kNode});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "a process can have " + std::to_string(kMaxAgents) + " agents: unregister some");
  layer_.remove_agent(agents[3]);
  EXPECT_EQ(add(make_registration(kSa)), agents[3]) << "the free number";
}

TEST_F(MadLayerTest, DistinguishesVendorsByOui) {
  auto registration = make_registration(0x32, 0, {method::kGet});
  registration.oui = 0x001405;
  const auto agent = add(registration);
  auto mad = make_mad(0x32, method::kGet, 1);
  receive(request(mad));
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_agent));
  mad[37] = 0x00, mad[38] = 0x14, mad[39] = 0x05;
  receive(request(mad));
  EXPECT_EQ(received_one().agent, agent);
}

TEST_F(MadLayerTest, TellsThePKeyOfAMadToQp1) {
  (void)add(make_registration(kPerf, 0, {method::kGet}));
  auto packet = request(make_mad(kPerf, method::kGet, 1));
  packet.pkey = PKey(0x0012);  // a limited member may send to a full one
  receive(packet);
  EXPECT_EQ(received_one().peer.pkey_index, 3);
}

TEST_F(MadLayerTest, DropsAMadWhosePKeyHasGone) {
  (void)add(make_registration(kPerf, 0, {method::kGet}));
  auto packet = request(make_mad(kPerf, method::kGet, 1));
  packet.pkey = PKey(0x8013);
  receive(packet);
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_pkey));
}

TEST_F(MadLayerTest, ChecksNoKeysOnQp0) {
  const auto agent = add(make_registration(0x81));
  MadAddress to;
  to.lid = ipoib::kPermissiveLid;
  ASSERT_TRUE(layer_.send(agent, to, make_mad(0x81, method::kGet, 1), once_, port_, kStart));
  const auto packet = sent_one();
  EXPECT_EQ(packet.source, Qpn(0));
  EXPECT_EQ(packet.qkey, QKey(0));
  auto response = reply_to(packet, method::kGetResp);
  response.pkey = PKey(0x1111);
  receive(response);
  EXPECT_EQ(received_one().agent, agent);
}

TEST_F(MadLayerTest, ChecksRegistrationsLikeTheKernel) {
  const auto refused = [](const Registration& registration) { return !registration.check(); };
  EXPECT_FALSE(refused(make_registration(kSa, 1)));
  EXPECT_FALSE(refused(make_registration(0)));
  EXPECT_FALSE(refused(make_registration(0x81)));
  EXPECT_TRUE(refused(make_registration(kSa, 2)));
  EXPECT_TRUE(refused(make_registration(kPerf, 1)));  // a class without RMPP
  EXPECT_FALSE(refused(make_registration(0x4f - 0x20)));
  EXPECT_TRUE(refused(make_registration(0x50)));
  EXPECT_TRUE(refused(make_registration(0x32)));  // no OUI
  auto vendor = make_registration(0x32, 1);
  vendor.oui = 0xffffff;
  EXPECT_FALSE(refused(vendor));
  vendor.oui = 0x1000000;
  EXPECT_TRUE(refused(vendor));
  auto version = make_registration(kPerf);
  version.class_version = 0x82;
  EXPECT_FALSE(refused(version));
  version.class_version = 0x83;
  EXPECT_TRUE(refused(version));
}

TEST_F(MadLayerTest, ClaimsDependOnClassVersionMethodAndOui) {
  auto sa = make_registration(kSa, 0, {1, 6});
  EXPECT_THAT(sa.claims(), ElementsAre(0x020301, 0x020306));
  sa.class_version = 1;
  EXPECT_THAT(sa.claims(), ElementsAre(0x010301, 0x010306));
  auto vendor = make_registration(0x32, 0, {1});
  vendor.oui = 0x001405;
  EXPECT_THAT(vendor.claims(), ElementsAre(0x0014'0500'3201));
  EXPECT_THAT(make_registration(kSa).claims(), IsEmpty());
}

// RMPP.

class MadLayerRmppTest : public MadLayerTest {
 protected:
  MadPacket send_request() {
    agent_ = add(make_registration(kSa, 1));
    EXPECT_TRUE(send(agent_, make_mad(kSa, method::kGetTable, 1), {seconds(1), 0}));
    return sent_one();
  }
  static MadPacket segment(const MadPacket& request, std::uint32_t number, std::uint8_t flags,
                           std::uint32_t length = 0) {
    MadPacket packet = reply_to(request, method::kGetTableResp);
    set_rmpp(packet.mad, RmppType::data, flags, number, length);
    packet.mad[kSaHeaderSize] = static_cast<std::uint8_t>(number);
    return packet;
  }
  RmppHeader control() { return RmppHeader::parse(ConstBytes(sent_one().mad).subspan(24)).value(); }
  std::uint32_t agent_ = 0;
};

TEST_F(MadLayerRmppTest, ReassemblesATable) {
  const auto request = send_request();
  receive(segment(request, 1, RmppHeader::kFirst));
  EXPECT_EQ(control().data2, 1 + kRmppWindow);
  receive(segment(request, 2, 0));
  EXPECT_THAT(layer_.take_received(), IsEmpty());
  receive(segment(request, 3, RmppHeader::kLast, 20 + 10));
  const auto ack = control();
  EXPECT_EQ(ack.type, RmppType::ack);
  EXPECT_EQ(ack.data1, 3U);
  const auto table = received_one();
  EXPECT_EQ(table.agent, agent_);
  ASSERT_THAT(table.mad, SizeIs(kSaHeaderSize + 410));
  EXPECT_EQ(table.mad[kSaHeaderSize], 1);
  EXPECT_EQ(table.mad[kSaHeaderSize + 200], 2);
  EXPECT_EQ(table.mad[kSaHeaderSize + 400], 3);
}

TEST_F(MadLayerRmppTest, RepeatsTheLastAckForARepeatedSegment) {
  const auto request = send_request();
  const auto only = segment(request, 1, RmppHeader::kFirst | RmppHeader::kLast, 30);
  receive(only);
  EXPECT_EQ(control().data1, 1U);
  EXPECT_THAT(layer_.take_received(), SizeIs(1));
  receive(only);
  EXPECT_EQ(control().data1, 1U);
  EXPECT_THAT(layer_.take_received(), IsEmpty());
  // Then the transfer is discarded.
  layer_.on_time(kStart + kReassemblyRetention);
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
  receive(only);
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request));
}

TEST_F(MadLayerRmppTest, RestartsTheTimeoutOfTheRequestAtEachSegment) {
  const auto request = send_request();
  receive(segment(request, 1, RmppHeader::kFirst), kStart + milliseconds(900));
  layer_.on_time(kStart + milliseconds(1100));
  EXPECT_THAT(layer_.take_received(), IsEmpty());
  layer_.on_time(kStart + milliseconds(1900));
  EXPECT_EQ(received_one().status, ETIMEDOUT);
}

TEST_F(MadLayerRmppTest, DuplicatesRenewNoTimer) {
  const auto request = send_request();
  receive(segment(request, 1, RmppHeader::kFirst));
  for (int tenth = 1; tenth < 10; ++tenth) {
    receive(segment(request, 1, RmppHeader::kFirst), kStart + tenth * milliseconds(100));
  }
  EXPECT_THAT(layer_.take_outgoing(), SizeIs(10)) << "each is acknowledged";
  layer_.on_time(kStart + seconds(1));
  EXPECT_EQ(received_one().status, ETIMEDOUT);
  receive(segment(request, 1, RmppHeader::kFirst), kStart + kReassemblyTimeout - seconds(1));
  (void)layer_.take_outgoing();
  layer_.on_time(kStart + kReassemblyTimeout);
  EXPECT_EQ(control().type, RmppType::abort);
}

TEST_F(MadLayerRmppTest, ProgressRenewsTheTimer) {
  const auto request = send_request();
  receive(segment(request, 1, RmppHeader::kFirst));
  receive(segment(request, 2, 0), kStart + seconds(30));
  (void)layer_.take_outgoing();
  layer_.on_time(kStart + kReassemblyTimeout);
  EXPECT_THAT(layer_.take_outgoing(), IsEmpty());
  layer_.on_time(kStart + seconds(30) + kReassemblyTimeout);
  EXPECT_EQ(control().type, RmppType::abort);
}

TEST_F(MadLayerRmppTest, OnlyTheFirstSegmentBeginsATransfer) {
  const auto request = send_request();
  receive(segment(request, 2, 0));
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request));
  layer_.on_time(kStart + seconds(1));
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever) << "there is no transfer";
}

/// Others may know the transaction id.
TEST_F(MadLayerRmppTest, TakesTheResponseOnlyFromWhereTheRequestWasSent) {
  const auto request = send_request();
  auto forged = segment(request, 1, RmppHeader::kFirst | RmppHeader::kLast, 30);
  forged.slid = Lid(10);
  receive(forged);
  auto short_one = reply_to(request, method::kGetTableResp);
  short_one.slid = Lid(10);
  receive(short_one);
  EXPECT_THAT(layer_.take_received(), IsEmpty());
  EXPECT_THAT(layer_.take_outgoing(), IsEmpty());
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request,
                                               fabric::PortCounter::drop_mad_no_request));
  receive(segment(request, 1, RmppHeader::kFirst | RmppHeader::kLast, 30));
  EXPECT_TRUE(received_one().solicited) << "that of the right port is still awaited";
}

TEST_F(MadLayerRmppTest, TakesTheResponseFromAnyLidOfThePort) {
  port_.lmc = 1;
  const auto request = send_request();
  auto response = segment(request, 1, RmppHeader::kFirst | RmppHeader::kLast, 30);
  response.slid = Lid(8);  // with LMC 1 of the same port as 9
  receive(response);
  EXPECT_EQ(received_one().agent, agent_);
}

/// Transfers that any port may begin, to an agent that takes long requests.
class MadLayerUnsolicitedTest : public MadLayerRmppTest {
 protected:
  MadLayerUnsolicitedTest() { taker_ = add(make_registration(kSa, 1, {method::kGetTable})); }
  void receive_segment(Lid from, std::uint64_t tid, std::uint32_t number,
                       ipoib::TimePoint now = kStart, std::uint8_t flags = 0) {
    auto packet = request(make_mad(kSa, method::kGetTable, tid));
    packet.slid = from;
    set_rmpp(packet.mad, RmppType::data,
             static_cast<std::uint8_t>(flags | (number == 1 ? RmppHeader::kFirst : 0)), number, 30);
    receive(packet, now);
  }
  /// Two transfers from each of four ports.
  void use_up() {
    for (std::uint16_t port = 0; port < kMaxUnsolicited / kMaxUnsolicitedOfPort; ++port) {
      for (std::uint64_t tid = 0; tid < kMaxUnsolicitedOfPort; ++tid) {
        receive_segment(Lid(static_cast<std::uint16_t>(100 + port)), tid, 1);
      }
    }
    EXPECT_THAT(layer_.take_drops(), IsEmpty());
    EXPECT_THAT(layer_.take_outgoing(), SizeIs(kMaxUnsolicited));
  }
  std::uint32_t taker_ = 0;
};

TEST_F(MadLayerUnsolicitedTest, LongRequestIsDelivered) {
  receive_segment(kPeer, 5, 1);
  receive_segment(kPeer, 5, 2, kStart, RmppHeader::kLast);
  const auto message = received_one();
  EXPECT_EQ(message.agent, taker_);
  EXPECT_FALSE(message.solicited);
  EXPECT_THAT(message.mad, SizeIs(kSaHeaderSize + 200 + 10));
}

TEST_F(MadLayerUnsolicitedTest, HaveASmallBudgetOfTheirOwn) {
  use_up();
  receive_segment(kPeer, 1, 1);
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_full));
  for (std::size_t i = 0; i < kMaxReassemblies; ++i) {
    agent_ = i == 0 ? add(make_registration(kSa, 1)) : agent_;
    ASSERT_TRUE(send(agent_, make_mad(kSa, method::kGetTable, i), {seconds(1), 0}));
    receive(segment(sent_one(), 1, RmppHeader::kFirst));
    EXPECT_EQ(control().type, RmppType::ack) << "what was requested has its own";
  }
}

TEST_F(MadLayerUnsolicitedTest, OnePortCannotUseUpTheBudget) {
  port_.lmc = 3;
  for (std::uint16_t lid = 16; lid < 24; ++lid) receive_segment(Lid(lid), lid, 1);
  EXPECT_THAT(layer_.take_outgoing(), SizeIs(kMaxUnsolicitedOfPort));
  EXPECT_THAT(layer_.take_drops(), SizeIs(8 - kMaxUnsolicitedOfPort));
  receive_segment(kPeer, 1, 1);
  EXPECT_EQ(control().type, RmppType::ack) << "of another port";
}

TEST_F(MadLayerUnsolicitedTest, CompleteOneMakesRoom) {
  use_up();
  receive_segment(Lid(100), 0, 2, kStart, RmppHeader::kLast);
  EXPECT_EQ(control().data1, 2U);
  receive_segment(kPeer, 1, 1);
  EXPECT_EQ(control().type, RmppType::ack);
}

TEST_F(MadLayerUnsolicitedTest, AreShort) {
  for (std::uint32_t number = 1; number <= kMaxUnsolicitedSegments; ++number) {
    receive_segment(kPeer, 1, number);
  }
  EXPECT_THAT(layer_.take_drops(), IsEmpty());
  (void)layer_.take_outgoing();
  receive_segment(kPeer, 1, kMaxUnsolicitedSegments + 1);
  EXPECT_EQ(control().type, RmppType::abort);
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_malformed));
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
}

TEST_F(MadLayerUnsolicitedTest, EndInTimeHoweverTheyProceed) {
  for (std::uint32_t number = 1; number <= 39; ++number) {
    receive_segment(kPeer, 1, number, kStart + seconds(number));
  }
  (void)layer_.take_outgoing();
  layer_.on_time(kStart + seconds(1) + kReassemblyTimeout);
  EXPECT_EQ(control().type, RmppType::abort);
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
}

TEST_F(MadLayerRmppTest, AbortsATransferWithoutProgress) {
  const auto request = send_request();
  receive(segment(request, 1, RmppHeader::kFirst));
  (void)sent_one();
  layer_.on_time(kStart + kReassemblyTimeout);
  EXPECT_EQ(control().type, RmppType::abort);
}

TEST_F(MadLayerRmppTest, DropsSegmentsWithoutARequest) {
  const auto request = send_request();
  auto stray = segment(request, 1, RmppHeader::kFirst);
  MadHeader header = MadHeader::parse(stray.mad).value();
  header.transaction_id ^= 0xff;
  const auto rmpp = RmppHeader::parse(ConstBytes(stray.mad).subspan(24)).value();
  header.emit(stray.mad);
  rmpp.emit(std::span(stray.mad).subspan(24));
  receive(stray);
  EXPECT_THAT(layer_.take_outgoing(), IsEmpty());
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request));
}

TEST_F(MadLayerRmppTest, AbortsATransferOfAnotherVersion) {
  auto other = segment(send_request(), 1, RmppHeader::kFirst);
  auto rmpp = RmppHeader::parse(ConstBytes(other.mad).subspan(kMadHeaderSize)).value();
  rmpp.version = 2;
  rmpp.emit(std::span(other.mad).subspan(kMadHeaderSize));
  receive(other);
  EXPECT_EQ(control().type, RmppType::abort);
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_malformed));
}

TEST_F(MadLayerRmppTest, AbortsATransferWithABadSegment) {
  const auto request = send_request();
  receive(segment(request, 1, 0));  // the first one, but not marked
  EXPECT_EQ(control().type, RmppType::abort);
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_malformed));
  receive(segment(request, 1, RmppHeader::kFirst));
  EXPECT_EQ(control().type, RmppType::ack) << "it begins anew";
}

/// Such an agent gets segments whose transaction has ended, but not those of other processes.
TEST_F(MadLayerRmppTest, DropsSegmentsForOtherProcesses) {
  auto registration = make_registration(kSa, 1);
  registration.user_rmpp = true;
  const auto agent = add(registration);
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGetTable, 1), {seconds(1), 0}));
  const auto request = sent_one();
  auto other = segment(request, 1, RmppHeader::kFirst);
  auto header = MadHeader::parse(other.mad).value();
  header.transaction_id =
      std::uint64_t{MadRoute{kNode, kSlot + 1, kEpoch, agent}.high_half()} << 32 | 1;
  const auto rmpp = RmppHeader::parse(ConstBytes(other.mad).subspan(kMadHeaderSize)).value();
  header.emit(other.mad);
  rmpp.emit(std::span(other.mad).subspan(kMadHeaderSize));
  receive(other);
  EXPECT_THAT(layer_.take_received(), IsEmpty());
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request));
}

TEST_F(MadLayerRmppTest, BoundsReassemblies) {
  agent_ = add(make_registration(kSa, 1));
  std::vector<MadPacket> requests;
  for (std::size_t i = 0; i <= kMaxReassemblies; ++i) {
    ASSERT_TRUE(send(agent_, make_mad(kSa, method::kGetTable, i), {seconds(1), 0}));
    requests.push_back(sent_one());
  }
  for (const auto& request : requests) receive(segment(request, 1, RmppHeader::kFirst));
  EXPECT_THAT(layer_.take_outgoing(), SizeIs(kMaxReassemblies));
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_full));
  // A complete transfer is replaced.
  receive(segment(requests[0], 2, RmppHeader::kLast, 30));
  (void)layer_.take_outgoing();
  receive(segment(requests.back(), 1, RmppHeader::kFirst));
  EXPECT_EQ(control().data1, 1U);
}

TEST_F(MadLayerRmppTest, DeliversEachSegmentToAnAgentWithUserRmpp) {
  auto registration = make_registration(kSa, 1);
  registration.user_rmpp = true;
  const auto agent = add(registration);
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGetTable, 1), {seconds(1), 0}));
  const auto request = sent_one();
  receive(segment(request, 1, RmppHeader::kFirst));
  receive(segment(request, 2, RmppHeader::kLast, 30));
  EXPECT_THAT(layer_.take_received(), SizeIs(2));
  EXPECT_THAT(layer_.take_outgoing(), IsEmpty());
}

class MadLayerRmppSendTest : public MadLayerRmppTest {
 protected:
  /// Sends a response of five segments.
  void respond() {
    agent_ = add(make_registration(kSa, 1, {method::kGetTable}));
    auto message = make_mad(kSa, method::kGetTableResp, 0x1234'0000'0001, kSaHeaderSize + 1000);
    set_rmpp(message, RmppType::data, 0);
    ASSERT_TRUE(send(agent_, message, {}));
    first_ = sent_one();
  }
  MadPacket ack(std::uint32_t number, std::uint32_t window) const {
    MadPacket packet = reply_to(first_, method::kGetTable);
    set_rmpp(packet.mad, RmppType::ack, 0, number, window);
    return packet;
  }
  /// Sends a GetMulti request of two segments.
  void send_long_request(unsigned retries) {
    agent_ = add(make_registration(kSa, 1));
    auto message = make_mad(kSa, 0x14, 1, kSaHeaderSize + 300);
    set_rmpp(message, RmppType::data, 0);
    ASSERT_TRUE(send(agent_, message, {seconds(1), retries}));
    first_ = sent_one();
  }
  MadPacket ack_of_request(std::uint32_t number, std::uint32_t window) const {
    MadPacket packet = reply_to(first_, 0x94);
    set_rmpp(packet.mad, RmppType::ack, 0, number, window);
    return packet;
  }
  MadPacket first_;
};

TEST_F(MadLayerRmppSendTest, SendsSegmentsWithinTheWindow) {
  respond();
  EXPECT_EQ(layer_.next_deadline(), kStart + kRmppAckTimeout);
  receive(ack(1, 3));
  EXPECT_THAT(layer_.take_outgoing(), SizeIs(2));
  receive(ack(3, 10));
  EXPECT_THAT(layer_.take_outgoing(), SizeIs(2));
  receive(ack(5, 10));
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
  EXPECT_THAT(layer_.take_received(), IsEmpty());
}

TEST_F(MadLayerRmppSendTest, RetriesWithoutAcksAndReportsATimeout) {
  respond();
  for (unsigned i = 1; i <= kRmppRetries; ++i) {
    layer_.on_time(kStart + i * kRmppAckTimeout);
    EXPECT_EQ(sent_one().mad, first_.mad);
  }
  layer_.on_time(kStart + (kRmppRetries + 1) * kRmppAckTimeout);
  EXPECT_EQ(received_one().status, ETIMEDOUT);
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
}

TEST_F(MadLayerRmppSendTest, ReportsATimeoutAfterAnAbort) {
  respond();
  MadPacket abort = reply_to(first_, method::kGetTable);
  set_rmpp(abort.mad, RmppType::abort, 0);
  receive(abort);
  EXPECT_EQ(received_one().status, ETIMEDOUT);
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
}

TEST_F(MadLayerRmppSendTest, OthersCannotEndTheTransfer) {
  respond();
  MadPacket abort = reply_to(first_, method::kGetTable);
  set_rmpp(abort.mad, RmppType::abort, 0);
  abort.slid = Lid(10);
  receive(abort);
  EXPECT_THAT(layer_.take_received(), IsEmpty());
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request));
  receive(ack(1, 3));
  EXPECT_THAT(layer_.take_outgoing(), SizeIs(2));
}

TEST_F(MadLayerRmppSendTest, AbortsAfterAnInvalidAck) {
  respond();
  receive(ack(2, 10));
  EXPECT_EQ(control().type, RmppType::abort);
  EXPECT_EQ(received_one().status, ETIMEDOUT);
}

TEST_F(MadLayerRmppSendTest, IgnoresAnOldAck) {
  respond();
  receive(ack(1, 3));
  const auto deadline = layer_.next_deadline();
  receive(ack(1, 3), kStart + seconds(1));
  EXPECT_EQ(layer_.next_deadline(), deadline);
}

TEST_F(MadLayerRmppSendTest, AcceptsAnAckOfTheFirstAttemptAfterARestart) {
  send_long_request(1);
  receive(ack_of_request(1, 5));
  EXPECT_THAT(layer_.take_outgoing(), SizeIs(1));
  receive(ack_of_request(2, 5));
  layer_.on_time(kStart + seconds(1));
  EXPECT_EQ(sent_one().mad, first_.mad);
  receive(ack_of_request(2, 5), kStart + seconds(1));
  EXPECT_THAT(layer_.take_received(), IsEmpty());
  EXPECT_EQ(layer_.next_deadline(), kStart + seconds(2));
}

TEST_F(MadLayerRmppSendTest, StartsTheTimeoutOfALongRequestAtItsLastAck) {
  send_long_request(0);
  receive(ack_of_request(1, 5));
  EXPECT_THAT(layer_.take_outgoing(), SizeIs(1));
  receive(ack_of_request(2, 5), kStart + seconds(5));
  EXPECT_EQ(layer_.next_deadline(), kStart + seconds(6));
  receive(reply_to(first_, 0x94));
  EXPECT_THAT(layer_.take_drops(), IsEmpty());
}

}  // namespace
}  // namespace softib::umad
