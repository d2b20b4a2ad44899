// Port counters, requested and reset like perfquery does.
#include "softib/subnet/performance.hpp"

#include <gtest/gtest.h>

#include "sa_client.hpp"

namespace softib::subnet {
namespace {

using ipoib::wire::MadHeader;
namespace attribute = ipoib::wire::attribute;
namespace mad_status = ipoib::wire::mad_status;
namespace method = ipoib::wire::method;

constexpr std::size_t kData = 64;

class PerformanceTest : public ::testing::Test {
 protected:
  PerformanceTest() {
    counters_[node_].transmit_data = 0x1'0000'0005;
    counters_[node_].receive_data = 40;
    counters_[node_].transmit_packets = 7;
    counters_[node_].receive_packets = 9;
    counters_[node_].transmit_discards = 70'000;
    counters_[node_].relay_errors = 3;
  }
  /// Request with PortSelect and CounterSelect.
  MadPacket request(Lid to, std::uint16_t attribute_id, std::uint8_t port,
                    std::uint8_t code = method::kGet, std::uint16_t select = 0) {
    MadHeader header;
    header.management_class = ipoib::wire::mgmt_class::kPerf;
    header.class_version = 1;
    header.method = code;
    header.attribute_id = attribute_id;
    MadPacket packet;
    packet.slid = manager_.node(asker_)->port.lid;
    packet.dlid = to;
    packet.source = Qpn(0x10400);
    packet.destination = Qpn(1);
    packet.qkey = ipoib::wire::kGsiQKey;
    header.emit(packet.mad);
    packet.mad[kData + 1] = port;
    ipoib::store_be(&packet.mad[kData + 2], select);
    return packet;
  }
  MadPacket send_request(const MadPacket& packet) {
    const auto response = agents_.handle(packet, manager_);
    EXPECT_EQ(response.outcome, AgentOutcome::responded);
    EXPECT_EQ(response.packet.dlid, packet.slid);
    EXPECT_EQ(response.packet.slid, packet.dlid);
    EXPECT_EQ(response.packet.destination, packet.source);
    EXPECT_EQ(MadHeader::parse(response.packet.mad)->method, method::kGetResp);
    EXPECT_EQ(MadHeader::parse(response.packet.mad)->status, response.status);
    return response.packet;
  }
  std::uint16_t refusal(const MadPacket& packet) {
    return MadHeader::parse(send_request(packet).mad)->status;
  }
  template <class Value>
  static Value at(const MadPacket& packet, std::size_t offset) {
    return ipoib::load_be<Value>(&packet.mad[kData + offset]);
  }
  [[nodiscard]] Lid lid() const { return manager_.node(node_)->port.lid; }

  SubnetManager manager_{SubnetConfig{}};
  NodeIndex asker_ = manager_.add("asker").value();
  NodeIndex node_ = manager_.add("node").value();
  std::map<NodeIndex, PerformanceCounters> counters_;
  PerformanceAgents agents_{[this](NodeIndex node) { return counters_[node]; }};
};

TEST_F(PerformanceTest, NarrowCountersSaturate) {
  const auto response = send_request(request(lid(), attribute::kPortCounters, 1));
  EXPECT_EQ(at<std::uint8_t>(response, 1), 1U);
  EXPECT_EQ(at<std::uint16_t>(response, 12), 0U) << "only the switch counts relay errors";
  EXPECT_EQ(at<std::uint16_t>(response, 14), 0xffffU);
  EXPECT_EQ(at<std::uint32_t>(response, 24), 0xffff'ffffU);
  EXPECT_EQ(at<std::uint32_t>(response, 28), 40U);
  EXPECT_EQ(at<std::uint32_t>(response, 32), 7U);
  EXPECT_EQ(at<std::uint32_t>(response, 36), 9U);
}

TEST_F(PerformanceTest, CountersOfFourBitsShareAByte) {
  const Attachment at_node = manager_.node(node_)->attachment;
  auto& errors = manager_.switches()[at_node.switch_index].ports[at_node.port].link_errors;
  errors = {3, 20, 7};
  const auto port = static_cast<std::uint8_t>(at_node.port);
  const auto ask = [&] {
    return send_request(request(kSwitchLid, attribute::kPortCounters, port));
  };
  EXPECT_EQ(at<std::uint8_t>(ask(), 19), 0x3fU) << "integrity 3, overruns at the most";
  EXPECT_EQ(at<std::uint8_t>(ask(), 6), 7U) << "LinkErrorRecovery";
  manager_.switches()[at_node.switch_index].ports[at_node.port].links_lost = 2;
  EXPECT_EQ(at<std::uint8_t>(send_request(request(lid(), attribute::kPortCounters, 1)), 7), 2U);
  constexpr std::uint16_t kOverruns = 1U << 10;
  auto set = request(kSwitchLid, attribute::kPortCounters, port, method::kSet, kOverruns);
  set.mad[kData + 19] = 0xf2;
  EXPECT_EQ(at<std::uint8_t>(send_request(set), 19), 0x32U) << "only overruns were set";
  set = request(kSwitchLid, attribute::kPortCounters, port, method::kSet, kOverruns >> 1);
  set.mad[kData + 19] = 0x5f;
  EXPECT_EQ(at<std::uint8_t>(send_request(set), 19), 0x52U) << "only integrity was set";
  ++errors[0];
  ++errors[1];
  EXPECT_EQ(at<std::uint8_t>(ask(), 19), 0x63U);
}

TEST_F(PerformanceTest, WideCountersDoNotSaturate) {
  auto get = request(lid(), attribute::kPortCountersExtended, 1);
  get.mad[kData + 4] = 0xff;
  const auto response = send_request(get);
  EXPECT_EQ(at<std::uint32_t>(response, 4), 0U) << "reserved";
  EXPECT_EQ(at<std::uint64_t>(response, 8), 0x1'0000'0005U);
  EXPECT_EQ(at<std::uint64_t>(response, 16), 40U);
  EXPECT_EQ(at<std::uint64_t>(response, 24), 7U);
  EXPECT_EQ(at<std::uint64_t>(response, 32), 9U);
}

TEST_F(PerformanceTest, SwitchPortCountersMirrorTheNodes) {
  const auto port = static_cast<std::uint8_t>(node_ + 1);
  const auto response = send_request(request(kSwitchLid, attribute::kPortCounters, port));
  EXPECT_EQ(at<std::uint16_t>(response, 12), 3U) << "packets that could not be forwarded";
  EXPECT_EQ(at<std::uint32_t>(response, 24), 40U);
  EXPECT_EQ(at<std::uint32_t>(response, 28), 0xffff'ffffU);
  EXPECT_EQ(at<std::uint32_t>(response, 32), 9U);
  EXPECT_EQ(at<std::uint32_t>(response, 36), 7U);
  const auto own = send_request(request(kSwitchLid, attribute::kPortCounters, 0));
  EXPECT_EQ(at<std::uint32_t>(own, 32), 0U);
}

TEST_F(PerformanceTest, SetsOnlySelectedCounters) {
  constexpr std::uint16_t kTransmitPackets = 1U << 14;
  auto set = request(lid(), attribute::kPortCounters, 1, method::kSet, kTransmitPackets);
  ipoib::store_be(&set.mad[kData + 32], std::uint32_t{0x10002});
  EXPECT_EQ(at<std::uint32_t>(send_request(set), 32), 0x10002U);
  counters_[node_].transmit_packets += 5;
  const auto response = send_request(request(lid(), attribute::kPortCounters, 1));
  EXPECT_EQ(at<std::uint32_t>(response, 32), 0x10007U);
  EXPECT_EQ(at<std::uint32_t>(response, 36), 9U);
  const auto wide = send_request(request(lid(), attribute::kPortCountersExtended, 1));
  EXPECT_EQ(at<std::uint64_t>(wide, 24), 0x10007U)
      << "narrow and wide attributes share one counter";
  const auto far = send_request(
      request(kSwitchLid, attribute::kPortCounters, static_cast<std::uint8_t>(node_ + 1)));
  EXPECT_EQ(at<std::uint32_t>(far, 36), 12U) << "the other end has its own counter";
  auto get = request(lid(), attribute::kPortCounters, 1, method::kGet, kTransmitPackets);
  EXPECT_EQ(at<std::uint32_t>(send_request(get), 32), 0x10007U) << "a Get sets nothing";
}

TEST_F(PerformanceTest, WhatWasSetEndsWithTheNode) {
  constexpr std::uint16_t kTransmitPackets = 1U << 14;
  const auto at_switch = static_cast<std::uint8_t>(node_ + 1);
  send_request(request(lid(), attribute::kPortCounters, 1, method::kSet, kTransmitPackets));
  send_request(
      request(kSwitchLid, attribute::kPortCounters, at_switch, method::kSet, kTransmitPackets));
  counters_[node_] = {};
  agents_.forget(node_, manager_.node(node_)->attachment);
  EXPECT_EQ(at<std::uint32_t>(send_request(request(lid(), attribute::kPortCounters, 1)), 32), 0U);
  const auto far = send_request(request(kSwitchLid, attribute::kPortCounters, at_switch));
  EXPECT_EQ(at<std::uint32_t>(far, 32), 0U);
}

TEST_F(PerformanceTest, ClassPortInfoHasTheCapabilities) {
  auto get = request(lid(), attribute::kClassPortInfo, 0);
  get.mad[kData + 20] = 0xff;
  const auto response = send_request(get);
  EXPECT_EQ(at<std::uint8_t>(response, 20), 0U) << "what the request had there";
  EXPECT_EQ(at<std::uint8_t>(response, 0), 1U);
  EXPECT_EQ(at<std::uint8_t>(response, 1), 1U);
  EXPECT_EQ(at<std::uint16_t>(response, 2), 0x1400U);
}

TEST_F(PerformanceTest, InvalidRequestsGetAnErrorStatus) {
  EXPECT_EQ(refusal(request(lid(), attribute::kPortCounters, 2)), mad_status::kInvalidField);
  EXPECT_EQ(refusal(request(kSwitchLid, attribute::kPortCounters, 200)), mad_status::kInvalidField);
  EXPECT_EQ(refusal(request(lid(), 0x0077, 1)), mad_status::kUnsupportedMethodAttribute);
  EXPECT_EQ(refusal(request(lid(), attribute::kPortCounters, 1, method::kGetTable)),
            mad_status::kUnsupportedMethodAttribute);
  auto version = request(lid(), attribute::kPortCounters, 1);
  version.mad[2] = 9;
  EXPECT_EQ(refusal(version), mad_status::kUnsupportedVersion);
}

TEST_F(PerformanceTest, PortMayRequireAGrh) {
  SubnetConfig config;
  config.grh_required = true;
  SubnetManager manager{config};
  const NodeIndex node = manager.add("node").value();
  auto packet = request(manager.node(node)->port.lid, attribute::kPortCounters, 1);
  EXPECT_EQ(agents_.handle(packet, manager).outcome, AgentOutcome::wrong_gid);
  packet.grh.emplace().dgid = manager.node(node)->port.gid();
  EXPECT_EQ(agents_.handle(packet, manager).outcome, AgentOutcome::responded);
  packet.grh->dgid = Gid(Gid::kLinkLocalPrefix, Guid(0x1234));
  EXPECT_EQ(agents_.handle(packet, manager).outcome, AgentOutcome::wrong_gid);
}

TEST_F(PerformanceTest, NoResponseWithoutAnActivePort) {
  const auto outcome = [&](const MadPacket& packet) {
    return agents_.handle(packet, manager_).outcome;
  };
  EXPECT_EQ(outcome(request(Lid(0x77), attribute::kPortCounters, 1)), AgentOutcome::unreachable);
  ASSERT_TRUE(manager_.set_port_state(node_, PortState::down));
  EXPECT_EQ(outcome(request(lid(), attribute::kPortCounters, 1)), AgentOutcome::unreachable);
  auto response = request(lid(), attribute::kPortCounters, 1, method::kGetResp);
  EXPECT_EQ(outcome(response), AgentOutcome::unmatched_response);
  response.mad[1] = ipoib::wire::mgmt_class::kSubnAdm;
  EXPECT_EQ(outcome(response), AgentOutcome::malformed);
}

}  // namespace
}  // namespace softib::subnet
