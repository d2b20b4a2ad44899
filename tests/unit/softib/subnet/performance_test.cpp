// Counters of ports as perfquery asks for them, and resets them.
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
  /// PortSelect, CounterSelect and what a Set writes behind them.
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
  MadPacket ask(const MadPacket& packet) {
    const auto answer = agents_.answer(packet, manager_);
    EXPECT_EQ(answer.outcome, AgentOutcome::responded);
    EXPECT_EQ(answer.packet.dlid, packet.slid);
    EXPECT_EQ(answer.packet.slid, packet.dlid);
    EXPECT_EQ(answer.packet.destination, packet.source);
    EXPECT_EQ(MadHeader::parse(answer.packet.mad)->method, method::kGetResp);
    EXPECT_EQ(MadHeader::parse(answer.packet.mad)->status, answer.status);
    return answer.packet;
  }
  std::uint16_t refusal(const MadPacket& packet) {
    return MadHeader::parse(ask(packet).mad)->status;
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

TEST_F(PerformanceTest, NarrowCountersStickAtTheirLargestValue) {
  const auto answer = ask(request(lid(), attribute::kPortCounters, 1));
  EXPECT_EQ(at<std::uint8_t>(answer, 1), 1U);
  EXPECT_EQ(at<std::uint16_t>(answer, 12), 0U) << "relaying is the switch's";
  EXPECT_EQ(at<std::uint16_t>(answer, 14), 0xffffU);
  EXPECT_EQ(at<std::uint32_t>(answer, 24), 0xffff'ffffU);
  EXPECT_EQ(at<std::uint32_t>(answer, 28), 40U);
  EXPECT_EQ(at<std::uint32_t>(answer, 32), 7U);
  EXPECT_EQ(at<std::uint32_t>(answer, 36), 9U);
}

TEST_F(PerformanceTest, WideCountersHaveRoomForAll) {
  const auto answer = ask(request(lid(), attribute::kPortCountersExtended, 1));
  EXPECT_EQ(at<std::uint64_t>(answer, 8), 0x1'0000'0005U);
  EXPECT_EQ(at<std::uint64_t>(answer, 16), 40U);
  EXPECT_EQ(at<std::uint64_t>(answer, 24), 7U);
  EXPECT_EQ(at<std::uint64_t>(answer, 32), 9U);
}

TEST_F(PerformanceTest, SwitchHasTheOtherEndOfEachCable) {
  const auto port = static_cast<std::uint8_t>(node_ + 1);
  const auto answer = ask(request(kSwitchLid, attribute::kPortCounters, port));
  EXPECT_EQ(at<std::uint16_t>(answer, 12), 3U) << "what it could not relay";
  EXPECT_EQ(at<std::uint32_t>(answer, 32), 9U);
  EXPECT_EQ(at<std::uint32_t>(answer, 36), 7U);
  const auto own = ask(request(kSwitchLid, attribute::kPortCounters, 0));
  EXPECT_EQ(at<std::uint32_t>(own, 32), 0U);
}

TEST_F(PerformanceTest, SetsWhatIsSelectedAndNothingElse) {
  constexpr std::uint16_t kTransmitPackets = 1U << 14;
  auto set = request(lid(), attribute::kPortCounters, 1, method::kSet, kTransmitPackets);
  ipoib::store_be(&set.mad[kData + 32], std::uint32_t{2});
  EXPECT_EQ(at<std::uint32_t>(ask(set), 32), 2U);
  counters_[node_].transmit_packets += 5;
  const auto answer = ask(request(lid(), attribute::kPortCounters, 1));
  EXPECT_EQ(at<std::uint32_t>(answer, 32), 7U);
  EXPECT_EQ(at<std::uint32_t>(answer, 36), 9U);
  const auto wide = ask(request(lid(), attribute::kPortCountersExtended, 1));
  EXPECT_EQ(at<std::uint64_t>(wide, 24), 7U) << "it is one counter";
  const auto far =
      ask(request(kSwitchLid, attribute::kPortCounters, static_cast<std::uint8_t>(node_ + 1)));
  EXPECT_EQ(at<std::uint32_t>(far, 36), 12U) << "the other end has its own";
}

TEST_F(PerformanceTest, SaysWhatItCan) {
  const auto answer = ask(request(lid(), attribute::kClassPortInfo, 0));
  EXPECT_EQ(at<std::uint8_t>(answer, 0), 1U);
  EXPECT_EQ(at<std::uint8_t>(answer, 1), 1U);
  EXPECT_EQ(at<std::uint16_t>(answer, 2), 0x0400U);
}

TEST_F(PerformanceTest, RefusesByStatus) {
  EXPECT_EQ(refusal(request(lid(), attribute::kPortCounters, 2)), mad_status::kInvalidField);
  EXPECT_EQ(refusal(request(kSwitchLid, attribute::kPortCounters, 200)), mad_status::kInvalidField);
  EXPECT_EQ(refusal(request(lid(), 0x0077, 1)), mad_status::kUnsupportedMethodAttribute);
  EXPECT_EQ(refusal(request(lid(), attribute::kPortCounters, 1, method::kGetTable)),
            mad_status::kUnsupportedMethodAttribute);
  auto version = request(lid(), attribute::kPortCounters, 1);
  version.mad[2] = 9;
  EXPECT_EQ(refusal(version), mad_status::kUnsupportedVersion);
}

TEST_F(PerformanceTest, IsSilentWhereNobodyIs) {
  const auto verdict = [&](const MadPacket& packet) {
    return agents_.answer(packet, manager_).outcome;
  };
  EXPECT_EQ(verdict(request(Lid(0x77), attribute::kPortCounters, 1)), AgentOutcome::unreachable);
  ASSERT_TRUE(manager_.set_port_state(node_, PortState::down));
  EXPECT_EQ(verdict(request(lid(), attribute::kPortCounters, 1)), AgentOutcome::unreachable);
  auto response = request(lid(), attribute::kPortCounters, 1, method::kGetResp);
  EXPECT_EQ(verdict(response), AgentOutcome::unmatched_response);
  response.mad[1] = ipoib::wire::mgmt_class::kSubnAdm;
  EXPECT_EQ(verdict(response), AgentOutcome::malformed);
}

}  // namespace
}  // namespace softib::subnet
