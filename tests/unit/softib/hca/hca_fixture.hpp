// Two HCAs connected by a list: packets that one sends are delivered to both.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "softib/core/large_packet.hpp"
#include "softib/hca/hca.hpp"

namespace softib::hca {

inline constexpr std::uint32_t kQKey = 0x0b1b;
inline constexpr std::size_t kGrh = 40;
inline constexpr std::uint32_t kQueue = 64;  ///< work requests per queue of a host
inline const Gid kGroup = *Gid::parse("ff12:401b:ffff::ffff:ffff");
inline constexpr Lid kGroupLid{0xc000};

inline PortAttributes make_port(std::uint16_t lid, std::uint8_t number = 1,
                                std::uint8_t hca_ports = 1) {
  PortAttributes port;
  port.number = number;
  port.hca_ports = hca_ports;
  port.port_guid = Guid(0x0002c90000000000 + lid);
  port.lid = Lid(lid);
  port.sm_lid = Lid(1);
  port.state = PortState::active;
  port.pkeys[0] = PKey(0xffff);
  port.pkeys[1] = PKey(0x8012);
  port.pkeys[2] = PKey(0x0012);
  return port;
}

/// The ports of an HCA with two.
inline HcaPorts two_ports(std::uint16_t first_lid, std::uint16_t second_lid) {
  HcaPorts ports(make_port(first_lid, 1, 2));
  ports.set(make_port(second_lid, 2, 2));
  return ports;
}

class ListSink : public PacketSink {
 public:
  void send(std::span<const OutgoingPacket> batch) override {
    batches.push_back(batch.size());
    for (const auto& packet : batch) {
      for_each_packet(packet, [&](ConstBytes bytes) {
        packets.emplace_back(bytes.begin(), bytes.end());
        checksums_valid.push_back(packet.checksums_valid);
        ports.push_back(packet.port);
      });
    }
  }
  std::vector<std::size_t> batches;
  std::vector<std::vector<std::uint8_t>> packets;
  std::vector<bool> checksums_valid;  ///< of each packet
  std::vector<std::uint8_t> ports;    ///< by which each leaves
};

/// Sends all posted work requests of a queue pair.
inline void transmit(Hca& hca, QueuePair& qp, PacketSink& sink) {
  for (auto batch = hca.next_packets(qp); !batch.empty(); batch = hca.next_packets(qp)) {
    sink.send(batch);
  }
}

/// Attributes for ibv_modify_qp from RESET to RTS.
inline ibv_qp_attr attributes(ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  attr.port_num = 1;
  attr.qkey = kQKey;
  attr.sq_psn = 100;
  return attr;
}
inline constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
inline constexpr int kToRts = IBV_QP_STATE | IBV_QP_SQ_PSN;

/// Copies, except from and to what is missing.
class TestMemory : public OnDemandMemory {
 public:
  bool read(std::span<std::uint8_t> to, const std::uint8_t* from) override {
    if (!has(from, to.size())) return false;
    std::memcpy(to.data(), from, to.size());
    return true;
  }
  bool write(std::uint8_t* to, ConstBytes from) override {
    if (!has(to, from.size())) return false;
    std::memcpy(to, from.data(), from.size());
    return true;
  }
  bool populate(std::uint8_t* begin, std::size_t size) override { return has(begin, size); }

  std::span<const std::uint8_t> missing;

 private:
  [[nodiscard]] bool has(const std::uint8_t* begin, std::size_t size) const {
    return begin + size <= missing.data() || begin >= missing.data() + missing.size();
  }
};

/// An HCA with one protection domain, one registered buffer and one completion queue.
struct Host {
  explicit Host(std::uint16_t lid, std::uint32_t epoch = 1)
      : Host(HcaPorts(make_port(lid)), epoch) {}
  explicit Host(const HcaPorts& ports, std::uint32_t epoch = 1)
      : hca(epoch, 0, ports, &on_demand),
        pd(*hca.create_protection_domain()),
        cq(*hca.create_completion_queue(256)),
        memory(65536),
        region(*hca.register_memory(*pd, memory.data(), memory.size(),
                                    std::bit_cast<std::uint64_t>(memory.data()),
                                    IBV_ACCESS_LOCAL_WRITE)) {}

  [[nodiscard]] QueuePairConfig config() {
    return {.pd = pd,
            .send_cq = cq,
            .receive_cq = cq,
            .cap = {.max_send_wr = kQueue,
                    .max_recv_wr = kQueue + 1,
                    .max_send_sge = 4,
                    .max_recv_sge = 5,
                    .max_inline_data = 256}};
  }
  QueuePair& make_qp(ibv_qp_state state = IBV_QPS_RTS) { return make_qp(state, config()); }
  QueuePair& make_qp(ibv_qp_state state, const QueuePairConfig& with, std::uint16_t pkey = 0) {
    auto& qp = **hca.create_queue_pair(with);
    bring(qp, state, pkey);
    return qp;
  }
  void bring(QueuePair& qp, ibv_qp_state state, std::uint16_t pkey = 0) {
    auto attr = attributes(IBV_QPS_INIT);
    attr.pkey_index = pkey;
    if (state >= IBV_QPS_INIT) {
      EXPECT_TRUE(hca.modify(qp, attr, kToInit));
    }
    if (state >= IBV_QPS_RTR) modify(qp, IBV_QPS_RTR, IBV_QP_STATE);
    if (state >= IBV_QPS_RTS) modify(qp, IBV_QPS_RTS, kToRts);
    if (state > IBV_QPS_RTS) modify(qp, state, IBV_QP_STATE);
  }
  void modify(QueuePair& qp, ibv_qp_state state, int mask = IBV_QP_STATE) {
    EXPECT_TRUE(hca.modify(qp, attributes(state), mask));
  }
  [[nodiscard]] AddressHandle& handle(std::uint16_t lid, std::optional<Gid> dgid = {}) {
    ibv_ah_attr attr{};
    attr.dlid = lid;
    attr.port_num = 1;
    attr.sl = 3;
    if (dgid) {
      attr.is_global = 1;
      attr.grh.hop_limit = 7;
      attr.grh.flow_label = 0x12345;
      attr.grh.traffic_class = 0x1c;
      std::copy_n(dgid->bytes().begin(), Gid::kSize, attr.grh.dgid.raw);
    }
    return **hca.create_address_handle(*pd, attr);
  }
  [[nodiscard]] ibv_sge element(std::size_t offset, std::size_t size) {
    return {std::bit_cast<std::uint64_t>(memory.data() + offset), static_cast<std::uint32_t>(size),
            region.key};
  }
  [[nodiscard]] ibv_send_wr send_request(AddressHandle& to, Qpn qpn, ibv_sge& sge) {
    ibv_send_wr wr{};
    wr.wr_id = 1;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = &to;
    wr.wr.ud.remote_qpn = qpn.value();
    wr.wr.ud.remote_qkey = kQKey;
    return wr;
  }
  /// Posts and transmits. Returns 0 or the error.
  int send(QueuePair& qp, ibv_send_wr& wr, PacketSink& sink) {
    ibv_send_wr* bad = nullptr;
    const int error = hca.post_send(qp, &wr, &bad);
    transmit(hca, qp, sink);
    return error;
  }
  int receive_into(QueuePair& qp, std::size_t offset, std::size_t size, std::uint64_t id = 2) {
    auto sge = element(offset, size);
    ibv_recv_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return hca.post_receive(qp, &wr, &bad);
  }
  [[nodiscard]] std::vector<ibv_wc> poll() { return poll(*cq); }
  [[nodiscard]] static std::vector<ibv_wc> poll(CompletionQueue& from) {
    std::vector<ibv_wc> out(512);
    out.resize(static_cast<std::size_t>(std::max(0, from.poll(out))));
    return out;
  }
  [[nodiscard]] std::vector<ibv_event_type> async_events() const {
    std::vector<ibv_event_type> types;
    for (const auto& event : hca.events()) {
      if (const auto* async = std::get_if<AsyncEvent>(&event)) types.push_back(async->type);
    }
    return types;
  }
  [[nodiscard]] std::size_t completion_events() const {
    return static_cast<std::size_t>(
        std::count_if(hca.events().begin(), hca.events().end(),
                      [](const auto& e) { return std::holds_alternative<CompletionEvent>(e); }));
  }

  TestMemory on_demand;
  Hca hca;
  ProtectionDomain* pd;
  CompletionQueue* cq;
  std::vector<std::uint8_t> memory;
  MemoryRegion region;
};

class HcaTest : public testing::Test {
 protected:
  /// Delivers all packets sent so far to both hosts, and clears the list.
  void deliver() {
    const auto checksums_valid = std::exchange(sink.checksums_valid, {});
    const auto packets = std::exchange(sink.packets, {});
    for (std::size_t i = 0; i < packets.size(); ++i) {
      a.hca.receive({packets[i], checksums_valid[i]});
      b.hca.receive({packets[i], checksums_valid[i]});
    }
  }
  ListSink sink;
  Host a{5};
  Host b{6};
};

}  // namespace softib::hca
