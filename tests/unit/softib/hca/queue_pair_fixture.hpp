// A queue pair and what it uses of its HCA, without an HCA: its packets are in an outbox.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "hca_fixture.hpp"
#include "softib/hca/queue_pair_table.hpp"
#include "softib/hca/shared_receives.hpp"
#include "softib/hca/work_completion.hpp"

namespace softib::hca {

using ipoib::wire::Aeth;
using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedPacket;

class QueuePairTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kFirst = 100;  ///< PSN in both directions
  static constexpr std::uint32_t kMtu = 1024;

  QueuePairTest() { std::iota(memory.begin(), memory.end(), std::uint8_t{0}); }

  QueuePair& make(ibv_qp_type type = IBV_QPT_RC) {
    QueuePairConfig config{.pd = &pd, .send_cq = &cq, .receive_cq = &cq, .type = type};
    config.cap.max_send_wr = config.cap.max_recv_wr = 8;
    config.cap.max_send_sge = config.cap.max_recv_sge = 2;
    auto& qp = qps.add(config, hca);
    auto& attributes = qp.connection().attributes;
    attributes.path.dlid = 6;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.packet_mtu = IBV_MTU_1024;
    attributes.peer = Qpn(77);
    attributes.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    attributes.max_sent_reads = attributes.max_received_reads = 2;
    attributes.min_rnr_timer = 12;
    attributes.retry_count = attributes.rnr_retry = 1;
    qp.set_state(IBV_QPS_RTS);
    qp.connection().requester.start(Psn(kFirst));
    qp.connection().responder.start(Psn(kFirst));
    return qp;
  }
  [[nodiscard]] std::uint64_t address(std::size_t offset) {
    return std::bit_cast<std::uint64_t>(memory.data() + offset);
  }
  [[nodiscard]] ibv_sge element(std::size_t offset, std::size_t size) {
    return {address(offset), static_cast<std::uint32_t>(size), region.key};
  }
  [[nodiscard]] std::vector<ibv_wc> poll() {
    std::vector<ibv_wc> out(16);
    out.resize(static_cast<std::size_t>(cq.poll(out)));
    return out;
  }
  [[nodiscard]] std::vector<ibv_wc_status> statuses() {
    std::vector<ibv_wc_status> out;
    for (const auto& wc : poll()) out.push_back(wc.status);
    return out;
  }
  [[nodiscard]] static ConnectedPacket headers(const OutgoingPacket& packet) {
    const auto parsed =
        ConnectedPacket::parse_headers(ConstBytes(packet.header).first(packet.header_size));
    EXPECT_TRUE(parsed);
    return parsed.value_or(ConnectedPacket());
  }
  /// The headers of all packets in the outbox.
  [[nodiscard]] std::vector<ConnectedPacket> sent() const {
    std::vector<ConnectedPacket> out;
    for (const auto& packet : outbox.packets()) out.push_back(headers(packet));
    return out;
  }
  [[nodiscard]] std::vector<ibv_event_type> async_events() const {
    std::vector<ibv_event_type> out;
    for (const auto& event : events.pending()) {
      if (const auto* async = std::get_if<AsyncEvent>(&event)) out.push_back(async->type);
    }
    return out;
  }

  HcaPorts ports{make_port(5)};
  HcaCounters counters;
  EventList events{counters};
  MemoryTable table;
  Completions completions{events, counters};
  QueuePairTable qps{1, 0};
  SharedReceives shared{1, 0, ports, qps, events, counters};
  Dependencies hca{ports, table, completions, events, shared, counters};
  ProtectionDomain pd;
  CompletionQueue cq{64};
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(1 << 20);
  MemoryRegion region =
      *table.add(pd, memory.data(), memory.size(), address(0),
                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  Outbox outbox;
};

}  // namespace softib::hca
