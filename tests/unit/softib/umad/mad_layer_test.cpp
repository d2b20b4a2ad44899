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
constexpr std::uint32_t kPlace = 5;
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
    return layer_.add_agent(registration).value();
  }
  ipoib::Result<void> send(std::uint32_t agent, const std::vector<std::uint8_t>& mad,
                           const Persistence& persistence, ipoib::TimePoint now = kStart,
                           std::uint16_t pkey_index = 0) {
    return layer_.send(agent, {kPeer, ServiceLevel(2), Qpn(1), pkey_index}, mad, persistence, port_,
                       now);
  }
  /// What would come back for a packet that was sent.
  static MadPacket answer_to(const MadPacket& sent, std::uint8_t method_code) {
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
  Arrived arrived_one() {
    const auto arrived = layer_.take_arrived();
    EXPECT_THAT(arrived, SizeIs(1));
    return arrived.at(0);
  }

  PortAttributes port_;
  MadLayer layer_{MadRoute{kNode, kPlace, kEpoch, 0}};
  const Persistence once_{milliseconds(100), 0};
};

// Requests and their answers.

TEST_F(MadLayerTest, ARequestCarriesItsSendersRoute) {
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
  EXPECT_EQ(MadRoute::of(id), (MadRoute{kNode, kPlace, kEpoch, agent}));
}

TEST_F(MadLayerTest, TheAnswerGoesToTheAgentThatAsked) {
  (void)add(make_registration(kSa));
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 1), once_));
  EXPECT_EQ(layer_.next_deadline(), kStart + milliseconds(100));
  receive(answer_to(sent_one(), method::kGetResp));
  const auto arrived = arrived_one();
  EXPECT_EQ(arrived.agent, agent);
  EXPECT_EQ(arrived.status, 0);
  EXPECT_EQ(arrived.peer.lid, kPeer);
  EXPECT_THAT(arrived.mad, SizeIs(256));
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
}

TEST_F(MadLayerTest, AnAnswerComesOnce) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 1), once_));
  const auto answer = answer_to(sent_one(), method::kGetResp);
  receive(answer);
  receive(answer);
  EXPECT_THAT(layer_.take_arrived(), SizeIs(1));
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request));
}

TEST_F(MadLayerTest, NobodyAwaitsTheAnswerToARequestWithoutTimeout) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 1), {}));
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
  receive(answer_to(sent_one(), method::kGetResp));
  EXPECT_THAT(layer_.take_arrived(), IsEmpty());
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request));
}

TEST_F(MadLayerTest, AnAnswerToAnotherProcessIsNotOurs) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 1), once_));
  const auto request = sent_one();
  for (const MadRoute other :
       {MadRoute{kNode, kPlace, kEpoch + 1, agent}, MadRoute{kNode, kPlace + 1, kEpoch, agent},
        MadRoute{kNode - 1, kPlace, kEpoch, agent}}) {
    auto answer = answer_to(request, method::kGetResp);
    MadHeader header = MadHeader::parse(answer.mad).value();
    header.transaction_id = std::uint64_t{other.high_half()} << 32 | 1;
    header.emit(answer.mad);
    receive(answer);
    EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request));
  }
}

TEST_F(MadLayerTest, ATimeoutReturnsTheHeaderOfTheRequest) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 5), once_));
  layer_.on_time(kStart + milliseconds(99));
  EXPECT_THAT(layer_.take_arrived(), IsEmpty());
  layer_.on_time(kStart + milliseconds(100));
  const auto arrived = arrived_one();
  EXPECT_EQ(arrived.status, ETIMEDOUT);
  EXPECT_THAT(arrived.mad, SizeIs(kMadHeaderSize));
  EXPECT_EQ(MadHeader::parse(arrived.mad)->transaction_id & 0xffff'ffff, 5U);
  EXPECT_EQ(arrived.peer.lid, kPeer);
}

TEST_F(MadLayerTest, RepetitionsComeBeforeTheTimeout) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 5), {milliseconds(100), 2}));
  const auto first = sent_one();
  for (int i = 1; i <= 2; ++i) {
    layer_.on_time(kStart + i * milliseconds(100));
    EXPECT_EQ(sent_one().mad, first.mad);
    EXPECT_THAT(layer_.take_arrived(), IsEmpty());
  }
  layer_.on_time(kStart + milliseconds(300));
  EXPECT_THAT(layer_.take_outgoing(), IsEmpty());
  EXPECT_EQ(arrived_one().status, ETIMEDOUT);
}

TEST_F(MadLayerTest, ANegativeTimeoutWaitsForEver) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 5), {milliseconds(-1), 0}));
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
  receive(answer_to(sent_one(), method::kGetResp));
  EXPECT_EQ(arrived_one().status, 0);
}

TEST_F(MadLayerTest, WhatCannotBeSentIsRefused) {
  const auto agent = add(make_registration(kSa));
  const auto refused = [&](const ipoib::Result<void>& result) {
    return !result && result.error().code == EINVAL;
  };
  EXPECT_TRUE(refused(send(agent + 1, make_mad(kSa, method::kGet, 1), once_)));
  EXPECT_TRUE(refused(send(agent, make_mad(kSa, method::kGet, 1, 35), once_)));
  EXPECT_TRUE(refused(send(agent, make_mad(kSa, method::kGet, 1, 257), once_)));
  EXPECT_TRUE(refused(send(agent, make_mad(kSa, method::kGet, 1), once_, kStart, 1)));
  EXPECT_TRUE(refused(send(agent, make_mad(kSa, method::kGet, 1), once_, kStart, 99)));
  EXPECT_TRUE(send(agent, make_mad(kSa, method::kGet, 1), once_));
  EXPECT_TRUE(refused(send(agent, make_mad(kSa, method::kGet, 1), once_)));  // the same transaction
  EXPECT_TRUE(send(agent, make_mad(kSa, method::kGet, 2, 36), once_));
}

TEST_F(MadLayerTest, TransactionsAreBounded) {
  const auto agent = add(make_registration(kSa));
  for (std::size_t i = 0; i < kMaxTransactions; ++i) {
    ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, i), once_));
  }
  const auto more = send(agent, make_mad(kSa, method::kGet, kMaxTransactions), once_);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ENOMEM);
}

TEST_F(MadLayerTest, AnAgentThatGoesTakesItsTransactionsAlong) {
  const auto agent = add(make_registration(kSa));
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGet, 1), once_));
  const auto answer = answer_to(sent_one(), method::kGetResp);
  layer_.remove_agent(agent);
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
  const auto next = add(make_registration(kSa));
  EXPECT_NE(next, agent);
  receive(answer);
  EXPECT_THAT(layer_.take_arrived(), IsEmpty());
}

// Requests of others.

TEST_F(MadLayerTest, ARequestGoesToTheAgentThatHasRegistered) {
  (void)add(make_registration(kPerf));
  const auto agent = add(make_registration(kPerf, 0, {method::kGet}));
  receive(request(make_mad(kPerf, method::kGet, 77)));
  const auto arrived = arrived_one();
  EXPECT_EQ(arrived.agent, agent);
  EXPECT_EQ(MadHeader::parse(arrived.mad)->transaction_id, 77U);
  receive(request(make_mad(kPerf, method::kSet, 78)));
  receive(request(make_mad(kSa, method::kGet, 79)));
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_agent,
                                               fabric::PortCounter::drop_mad_no_agent));
}

TEST_F(MadLayerTest, AResponseKeepsTheAskersTransactionId) {
  const auto agent = add(make_registration(kPerf, 0, {method::kGet}));
  ASSERT_TRUE(send(agent, make_mad(kPerf, method::kGetResp, 0x1234'5678'9abc'def0), {}));
  EXPECT_EQ(MadHeader::parse(sent_one().mad)->transaction_id, 0x1234'5678'9abc'def0U);
}

TEST_F(MadLayerTest, VendorsAreToldApartByTheirOui) {
  auto registration = make_registration(0x32, 0, {method::kGet});
  registration.oui = 0x001405;
  const auto agent = add(registration);
  auto mad = make_mad(0x32, method::kGet, 1);
  receive(request(mad));
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_agent));
  mad[37] = 0x00, mad[38] = 0x14, mad[39] = 0x05;
  receive(request(mad));
  EXPECT_EQ(arrived_one().agent, agent);
}

TEST_F(MadLayerTest, ThePortChecksKeys) {
  (void)add(make_registration(kPerf, 0, {method::kGet}));
  auto packet = request(make_mad(kPerf, method::kGet, 1));
  packet.qkey = QKey(1);
  receive(packet);
  packet = request(make_mad(kPerf, method::kGet, 1));
  packet.pkey = PKey(0x8013);
  receive(packet);
  EXPECT_THAT(layer_.take_drops(),
              ElementsAre(fabric::PortCounter::drop_qkey, fabric::PortCounter::drop_pkey));
  packet.pkey = PKey(0x0012);  // a limited member may talk to a full one
  receive(packet);
  EXPECT_EQ(arrived_one().peer.pkey_index, 3);
}

TEST_F(MadLayerTest, SubnetManagementHasNoKeys) {
  const auto agent = add(make_registration(0x81));
  MadAddress to;
  to.lid = ipoib::kPermissiveLid;
  ASSERT_TRUE(layer_.send(agent, to, make_mad(0x81, method::kGet, 1), once_, port_, kStart));
  const auto packet = sent_one();
  EXPECT_EQ(packet.source, Qpn(0));
  EXPECT_EQ(packet.qkey, QKey(0));
  auto answer = answer_to(packet, method::kGetResp);
  answer.pkey = PKey(0x1111);
  receive(answer);
  EXPECT_EQ(arrived_one().agent, agent);
}

TEST_F(MadLayerTest, RegistrationsFollowTheRulesOfTheKernel) {
  const auto refused = [](const Registration& registration) { return !registration.check(); };
  EXPECT_FALSE(refused(make_registration(kSa, 1)));
  EXPECT_FALSE(refused(make_registration(0)));
  EXPECT_FALSE(refused(make_registration(0x81)));
  EXPECT_TRUE(refused(make_registration(kSa, 2)));
  EXPECT_TRUE(refused(make_registration(kPerf, 1)));  // a class without RMPP
  EXPECT_TRUE(refused(make_registration(0x50)));
  EXPECT_TRUE(refused(make_registration(0x32)));  // no OUI
  auto version = make_registration(kPerf);
  version.class_version = 0x83;
  EXPECT_TRUE(refused(version));
}

TEST_F(MadLayerTest, ClaimsDifferByClassVersionMethodAndVendor) {
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
  MadPacket ask() {
    agent_ = add(make_registration(kSa, 1));
    EXPECT_TRUE(send(agent_, make_mad(kSa, method::kGetTable, 1), {seconds(1), 0}));
    return sent_one();
  }
  static MadPacket segment(const MadPacket& question, std::uint32_t number, std::uint8_t flags,
                           std::uint32_t length = 0) {
    MadPacket packet = answer_to(question, method::kGetTableResp);
    set_rmpp(packet.mad, RmppType::data, flags, number, length);
    packet.mad[kSaHeaderSize] = static_cast<std::uint8_t>(number);
    return packet;
  }
  RmppHeader control() { return RmppHeader::parse(ConstBytes(sent_one().mad).subspan(24)).value(); }
  std::uint32_t agent_ = 0;
};

TEST_F(MadLayerRmppTest, ATableIsPutTogether) {
  const auto question = ask();
  receive(segment(question, 1, RmppHeader::kFirst));
  EXPECT_EQ(control().data2, 1 + kRmppWindow);
  receive(segment(question, 2, 0));
  EXPECT_THAT(layer_.take_arrived(), IsEmpty());
  receive(segment(question, 3, RmppHeader::kLast, 20 + 10));
  const auto ack = control();
  EXPECT_EQ(ack.type, RmppType::ack);
  EXPECT_EQ(ack.data1, 3U);
  const auto table = arrived_one();
  EXPECT_EQ(table.agent, agent_);
  ASSERT_THAT(table.mad, SizeIs(kSaHeaderSize + 410));
  EXPECT_EQ(table.mad[kSaHeaderSize], 1);
  EXPECT_EQ(table.mad[kSaHeaderSize + 200], 2);
  EXPECT_EQ(table.mad[kSaHeaderSize + 400], 3);
}

TEST_F(MadLayerRmppTest, WhenTheLastAckIsLostItIsSentAgain) {
  const auto question = ask();
  const auto only = segment(question, 1, RmppHeader::kFirst | RmppHeader::kLast, 30);
  receive(only);
  EXPECT_EQ(control().data1, 1U);
  EXPECT_THAT(layer_.take_arrived(), SizeIs(1));
  receive(only);
  EXPECT_EQ(control().data1, 1U);
  EXPECT_THAT(layer_.take_arrived(), IsEmpty());
  // It is not remembered for ever.
  layer_.on_time(kStart + kReassemblyMemory);
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
  receive(only);
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request));
}

TEST_F(MadLayerRmppTest, WhileSegmentsComeTheRequestDoesNotTimeOut) {
  const auto question = ask();
  receive(segment(question, 1, RmppHeader::kFirst), kStart + milliseconds(900));
  layer_.on_time(kStart + milliseconds(1100));
  EXPECT_THAT(layer_.take_arrived(), IsEmpty());
  layer_.on_time(kStart + milliseconds(1900));
  EXPECT_EQ(arrived_one().status, ETIMEDOUT);
}

TEST_F(MadLayerRmppTest, ASenderThatFallsSilentIsAborted) {
  const auto question = ask();
  receive(segment(question, 1, RmppHeader::kFirst));
  (void)sent_one();
  layer_.on_time(kStart + kReassemblyTimeout);
  EXPECT_EQ(control().type, RmppType::abort);
}

TEST_F(MadLayerRmppTest, SegmentsWithoutAQuestionStartNothing) {
  const auto question = ask();
  auto stray = segment(question, 1, RmppHeader::kFirst);
  MadHeader header = MadHeader::parse(stray.mad).value();
  header.transaction_id ^= 0xff;
  const auto rmpp = RmppHeader::parse(ConstBytes(stray.mad).subspan(24)).value();
  header.emit(stray.mad);
  rmpp.emit(std::span(stray.mad).subspan(24));
  receive(stray);
  EXPECT_THAT(layer_.take_outgoing(), IsEmpty());
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_no_request));
}

TEST_F(MadLayerRmppTest, ReassembliesAreBounded) {
  agent_ = add(make_registration(kSa, 1));
  std::vector<MadPacket> questions;
  for (std::size_t i = 0; i <= kMaxReassemblies; ++i) {
    ASSERT_TRUE(send(agent_, make_mad(kSa, method::kGetTable, i), {seconds(1), 0}));
    questions.push_back(sent_one());
  }
  for (const auto& question : questions) receive(segment(question, 1, RmppHeader::kFirst));
  EXPECT_THAT(layer_.take_outgoing(), SizeIs(kMaxReassemblies));
  EXPECT_THAT(layer_.take_drops(), ElementsAre(fabric::PortCounter::drop_mad_full));
  // One that is complete makes room.
  receive(segment(questions[0], 2, RmppHeader::kLast, 30));
  (void)layer_.take_outgoing();
  receive(segment(questions.back(), 1, RmppHeader::kFirst));
  EXPECT_EQ(control().data1, 1U);
}

TEST_F(MadLayerRmppTest, AnAgentThatDoesRmppItselfGetsEverySegment) {
  auto registration = make_registration(kSa, 1);
  registration.user_rmpp = true;
  const auto agent = add(registration);
  ASSERT_TRUE(send(agent, make_mad(kSa, method::kGetTable, 1), {seconds(1), 0}));
  const auto question = sent_one();
  receive(segment(question, 1, RmppHeader::kFirst));
  receive(segment(question, 2, RmppHeader::kLast, 30));
  EXPECT_THAT(layer_.take_arrived(), SizeIs(2));
  EXPECT_THAT(layer_.take_outgoing(), IsEmpty());
}

class MadLayerRmppSendTest : public MadLayerRmppTest {
 protected:
  /// A response of five segments, as a server sends it.
  void respond() {
    agent_ = add(make_registration(kSa, 1, {method::kGetTable}));
    auto message = make_mad(kSa, method::kGetTableResp, 0x1234'0000'0001, kSaHeaderSize + 1000);
    set_rmpp(message, RmppType::data, 0);
    ASSERT_TRUE(send(agent_, message, {}));
    first_ = sent_one();
  }
  MadPacket ack(std::uint32_t number, std::uint32_t window) const {
    MadPacket packet = answer_to(first_, method::kGetTable);
    set_rmpp(packet.mad, RmppType::ack, 0, number, window);
    return packet;
  }
  /// A request of two segments, GetMulti.
  void ask_at_length(unsigned retries) {
    agent_ = add(make_registration(kSa, 1));
    auto message = make_mad(kSa, 0x14, 1, kSaHeaderSize + 300);
    set_rmpp(message, RmppType::data, 0);
    ASSERT_TRUE(send(agent_, message, {seconds(1), retries}));
    first_ = sent_one();
  }
  MadPacket ack_of_request(std::uint32_t number, std::uint32_t window) const {
    MadPacket packet = answer_to(first_, 0x94);
    set_rmpp(packet.mad, RmppType::ack, 0, number, window);
    return packet;
  }
  MadPacket first_;
};

TEST_F(MadLayerRmppSendTest, ALongMessageFollowsTheWindow) {
  respond();
  EXPECT_EQ(layer_.next_deadline(), kStart + kRmppAckTimeout);
  receive(ack(1, 3));
  EXPECT_THAT(layer_.take_outgoing(), SizeIs(2));
  receive(ack(3, 10));
  EXPECT_THAT(layer_.take_outgoing(), SizeIs(2));
  receive(ack(5, 10));
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
  EXPECT_THAT(layer_.take_arrived(), IsEmpty());
}

TEST_F(MadLayerRmppSendTest, WithoutAcksItIsSentAgainAndGivenUp) {
  respond();
  for (unsigned i = 1; i <= kRmppRetries; ++i) {
    layer_.on_time(kStart + i * kRmppAckTimeout);
    EXPECT_EQ(sent_one().mad, first_.mad);
  }
  layer_.on_time(kStart + (kRmppRetries + 1) * kRmppAckTimeout);
  EXPECT_EQ(arrived_one().status, ETIMEDOUT);
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
}

TEST_F(MadLayerRmppSendTest, AnAbortEndsIt) {
  respond();
  MadPacket abort = answer_to(first_, method::kGetTable);
  set_rmpp(abort.mad, RmppType::abort, 0);
  receive(abort);
  EXPECT_EQ(arrived_one().status, ETIMEDOUT);
  EXPECT_EQ(layer_.next_deadline(), ipoib::kNever);
}

TEST_F(MadLayerRmppSendTest, AnAckThatMakesNoSenseIsAnsweredByAnAbort) {
  respond();
  receive(ack(2, 10));
  EXPECT_EQ(control().type, RmppType::abort);
  EXPECT_EQ(arrived_one().status, ETIMEDOUT);
}

TEST_F(MadLayerRmppSendTest, AnOldAckKeepsNothingAlive) {
  respond();
  receive(ack(1, 3));
  const auto deadline = layer_.next_deadline();
  receive(ack(1, 3), kStart + seconds(1));
  EXPECT_EQ(layer_.next_deadline(), deadline);
}

TEST_F(MadLayerRmppSendTest, AnAckThatComesAfterTheStartAnewCounts) {
  ask_at_length(1);
  receive(ack_of_request(1, 5));
  EXPECT_THAT(layer_.take_outgoing(), SizeIs(1));
  receive(ack_of_request(2, 5));
  layer_.on_time(kStart + seconds(1));
  EXPECT_EQ(sent_one().mad, first_.mad);
  receive(ack_of_request(2, 5), kStart + seconds(1));
  EXPECT_THAT(layer_.take_arrived(), IsEmpty());
  EXPECT_EQ(layer_.next_deadline(), kStart + seconds(2));
}

TEST_F(MadLayerRmppSendTest, ALongRequestAwaitsItsAnswerAfterItsLastAck) {
  ask_at_length(0);
  receive(ack_of_request(1, 5));
  EXPECT_THAT(layer_.take_outgoing(), SizeIs(1));
  receive(ack_of_request(2, 5), kStart + seconds(5));
  EXPECT_EQ(layer_.next_deadline(), kStart + seconds(6));
  receive(answer_to(first_, 0x94));
  EXPECT_THAT(layer_.take_drops(), IsEmpty());
}

}  // namespace
}  // namespace softib::umad
