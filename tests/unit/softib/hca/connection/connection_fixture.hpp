// Two HCAs with connected queue pairs, and a network between them that loses, duplicates, reorders
// and stalls packets, in virtual time.
#pragma once

#include <map>
#include <numeric>
#include <random>

#include "softib/core/large_packet.hpp"
#include "tests/unit/softib/hca/hca_fixture.hpp"

namespace softib::hca {

using ipoib::Duration;
using ipoib::TimePoint;
using ipoib::wire::ConnectedPacket;

/// Shares of the packets, in a thousand.
struct NetworkFaults {
  unsigned loss = 0;
  unsigned duplicate = 0;
  unsigned reorder = 0;
  unsigned whole = 0;  ///< runs of packets that arrive as one, instead of one by one
  unsigned stall = 0;  ///< nothing arrives for a while, so that time-outs pass
};

class Network {
 public:
  static constexpr Duration kDelay = std::chrono::microseconds(1);
  static constexpr Duration kReorderedDelay = std::chrono::microseconds(200);
  static constexpr Duration kStall = std::chrono::milliseconds(100);

  explicit Network(std::uint32_t seed = 1) : random_(seed) {}
  void add(Hca& hca) { hcas_.push_back(std::make_unique<Port>(*this, hca)); }

  /// Serves the HCAs and delivers the packets that arrive next. Returns false when nothing is left.
  bool step() {
    TimePoint next = ipoib::kNever;
    for (auto& port : hcas_) next = std::min(next, port->serve());
    if (!packets_.empty()) next = std::min(next, packets_.begin()->first);
    if (next == ipoib::kNever) return false;
    now = std::max(now, next);
    while (!packets_.empty() && packets_.begin()->first <= now) {
      const auto record = std::move(packets_.begin()->second);
      packets_.erase(packets_.begin());
      const auto lrh = ipoib::wire::Lrh::parse(record.bytes);
      for (auto& port : hcas_) {
        if (port->hca.ports()[1].has(lrh->dlid))
          port->hca.receive({record.bytes, false, record.gso});
      }
    }
    for (auto& port : hcas_) port->hca.connections().expire(now);
    return true;
  }
  void run() {
    for (std::size_t steps = 0; step(); ++steps) ASSERT_LT(steps, 1'000'000U) << "never ends";
  }
  void send(const OutgoingPacket& packet) {
    std::vector<std::uint8_t> bytes(packet.size());
    write_packet(packet, bytes.data());
    if (packet.gso.packets > 1 && happens(faults.whole)) return send(bytes, packet.gso);
    for_each_packet(packet, [this](ConstBytes one) { send(one); });
  }
  /// A packet, or a run that arrives as one.
  void send(ConstBytes bytes, GsoInfo gso = {}) {
    bool is_named = false;
    for_each_packet({bytes, false, gso}, [&](ConstBytes one) {
      const auto packet = *ConnectedPacket::parse(one);
      if (on_packet) on_packet(packet);
      is_named |= is_lost && is_lost(packet);
    });
    if (happens(faults.loss) || is_named) return;
    const int copies = happens(faults.duplicate) ? 2 : 1;
    if (faults.stall != 0 && happens(faults.stall)) stalled_until_ = now + kStall;
    for (int i = 0; i < copies; ++i) {
      const auto delay = happens(faults.reorder) ? kReorderedDelay : kDelay;
      const auto arrival = std::max(now + delay, stalled_until_);
      packets_.emplace(arrival, Record{{bytes.begin(), bytes.end()}, gso});
    }
  }

  TimePoint now{};
  NetworkFaults faults;
  std::size_t room = 1000;   ///< packets that a receiver takes at once
  std::optional<Lid> full;   ///< this receiver takes none
  std::size_t offers = 0;    ///< batches, also those that no receiver took
  bool has_untaken = false;  ///< what ConnectedSink reports
  std::function<void(const OutgoingPacket&)> on_outgoing;
  std::function<void(const ConnectedPacket&)> on_packet;
  std::function<bool(const ConnectedPacket&)> is_lost;  ///< in addition to faults.loss

 private:
  struct Port : ConnectedSink {
    Port(Network& of, Hca& which) : network(of), hca(which) {}
    TrySent try_send(std::span<const OutgoingPacket> batch) override {
      ++network.offers;
      if (batch.front().dlid == network.full) return 0;
      const auto count = std::min(batch.size(), network.room);
      for (const auto& packet : batch.first(count)) {
        EXPECT_NE(packet.purpose, Purpose::datagram);
        if (network.on_outgoing) network.on_outgoing(packet);
        network.send(packet);
      }
      return count;
    }
    bool has_untaken(std::uint8_t, Lid, Qpn) override { return network.has_untaken; }
    /// As devices do, only if a connection is active or a deadline has passed. Returns the next
    /// one.
    TimePoint serve() {
      auto& connections = hca.connections();
      if (deadline <= network.now) connections.resume();
      if (connections.has_active() || deadline <= network.now) {
        deadline = connections.serve(network.now, *this);
        deadline = std::min(deadline, connections.resume_at(network.now));
      }
      return deadline;
    }
    Network& network;
    Hca& hca;
    TimePoint deadline = ipoib::kNever;
  };
  struct Record {
    std::vector<std::uint8_t> bytes;
    GsoInfo gso;
  };
  bool happens(unsigned share) { return random_() % 1000 < share; }

  std::mt19937 random_;
  TimePoint stalled_until_{};
  std::vector<std::unique_ptr<Port>> hcas_;
  std::multimap<TimePoint, Record> packets_;
};

inline constexpr int kConnectedToInit =
    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
inline constexpr int kRcToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int kRcToRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
inline constexpr int kUcToRtr =
    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
inline constexpr int kUcToRts = IBV_QP_STATE | IBV_QP_SQ_PSN;
inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr std::uint32_t kFirstPsn = 0xfffff0;  ///< soon wraps

/// A host whose memory the peer may read and write.
struct ConnectedHost : Host {
  explicit ConnectedHost(std::uint16_t lid, std::size_t bytes = 1 << 20) : Host(lid), area(bytes) {
    constexpr std::size_t kPattern = 256;
    std::iota(area.begin(), area.begin() + kPattern, static_cast<std::uint8_t>(lid));
    for (auto at = kPattern; at < bytes; at += kPattern) {
      std::copy_n(area.data(), std::min(kPattern, bytes - at), area.data() + at);
    }
    all = *hca.register_memory(*pd, area.data(), area.size(), address(0), kAllAccess);
  }
  [[nodiscard]] std::uint64_t address(std::size_t offset) {
    return std::bit_cast<std::uint64_t>(area.data() + offset);
  }
  [[nodiscard]] ibv_sge part(std::size_t offset, std::size_t size) {
    return {address(offset), static_cast<std::uint32_t>(size), all.key};
  }
  [[nodiscard]] std::vector<std::uint8_t> bytes(std::size_t offset, std::size_t size) const {
    const auto begin = area.begin() + static_cast<std::ptrdiff_t>(offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
  }
  QueuePair& make_connected(std::uint32_t max_requests = kQueue, ibv_qp_type type = IBV_QPT_RC) {
    auto with = config();
    with.type = type;
    with.cap.max_send_wr = with.cap.max_recv_wr = max_requests;
    return **hca.create_queue_pair(with);
  }
  [[nodiscard]] ibv_qp_attr connected_attributes(Qpn peer, std::uint16_t peer_lid) const {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qp_access_flags = kAllAccess;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.value();
    attr.rq_psn = attr.sq_psn = kFirstPsn;
    attr.max_dest_rd_atomic = 5;
    attr.max_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.ah_attr.dlid = peer_lid;
    attr.ah_attr.port_num = 1;
    return attr;
  }
  void connect(QueuePair& qp, ibv_qp_attr attr, ibv_qp_state to = IBV_QPS_RTS) {
    const auto type = qp.config().type;
    const bool receives_reads = type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
    const bool retries = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
    const int timeout = type == IBV_QPT_XRC_RECV ? int{IBV_QP_TIMEOUT} : 0;
    const std::array<std::pair<ibv_qp_state, int>, 3> steps = {
        {{IBV_QPS_INIT, kConnectedToInit},
         {IBV_QPS_RTR, receives_reads ? kRcToRtr : kUcToRtr},
         {IBV_QPS_RTS, (retries ? kRcToRts : kUcToRts) | timeout}}};
    for (const auto& [state, mask] : steps) {
      if (state > to) break;
      attr.qp_state = state;
      ASSERT_TRUE(hca.modify(qp, attr, mask)) << state;
    }
  }
  /// Posts one request; `wr` needs neither elements nor id.
  int post(QueuePair& qp, ibv_send_wr wr, std::vector<ibv_sge> elements, std::uint64_t id = 1,
           unsigned flags = IBV_SEND_SIGNALED) {
    wr.wr_id = id;
    wr.sg_list = elements.data();
    wr.num_sge = static_cast<int>(elements.size());
    wr.send_flags = flags;
    ibv_send_wr* bad = nullptr;
    return hca.post_send(qp, &wr, &bad);
  }
  int post_receive(QueuePair& qp, std::size_t offset, std::size_t size, std::uint64_t id = 2) {
    auto sge = part(offset, size);
    ibv_recv_wr wr{id, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    return hca.post_receive(qp, &wr, &bad);
  }
  [[nodiscard]] static ibv_send_wr request(ibv_wr_opcode opcode, std::uint64_t address = 0,
                                           std::uint32_t key = 0) {
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.imm_data = 0x01020304;
    wr.wr.rdma = {address, key};
    return wr;
  }

  /// An atomic operation on memory of the peer.
  [[nodiscard]] static ibv_send_wr atomic(ibv_wr_opcode opcode, std::uint64_t address,
                                          std::uint32_t key, std::uint64_t compare_add,
                                          std::uint64_t swap = 0) {
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.wr.atomic = {address, compare_add, swap, key};
    return wr;
  }
  [[nodiscard]] std::uint64_t word(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, area.data() + offset, sizeof value);
    return value;
  }
  void set_word(std::size_t offset, std::uint64_t value) {
    std::memcpy(area.data() + offset, &value, sizeof value);
  }

  std::vector<std::uint8_t> area;
  MemoryRegion all;
};

/// Connects queue pairs of two hosts; `retries` are those of the first one.
inline void connect_pair(ConnectedHost& a, QueuePair& qa, ConnectedHost& b, QueuePair& qb,
                         ibv_mtu mtu = IBV_MTU_1024, int retries = 7) {
  auto forth = a.connected_attributes(qb.number(), b.hca.ports()[1].lid.value());
  forth.path_mtu = mtu;
  forth.retry_cnt = static_cast<std::uint8_t>(retries);
  a.connect(qa, forth);
  auto back = b.connected_attributes(qa.number(), a.hca.ports()[1].lid.value());
  back.path_mtu = mtu;
  b.connect(qb, back);
}
/// One of four path MTUs.
inline ibv_mtu mtu_of(std::uint32_t seed) { return static_cast<ibv_mtu>(1 + seed % 4); }

class ConnectionTest : public testing::Test {
 protected:
  explicit ConnectionTest(ibv_qp_type type = IBV_QPT_RC)
      : qa(a.make_connected(kQueue, type)), qb(b.make_connected(kQueue, type)) {
    network.add(a.hca);
    network.add(b.hca);
    connect();
  }
  void connect() { connect_pair(a, qa, b, qb); }
  void reset() {
    a.modify(qa, IBV_QPS_RESET);
    b.modify(qb, IBV_QPS_RESET);
  }
  void reconnect() {
    reset();
    connect();
  }
  /// A request of `a` on the memory of `b` from `offset` on.
  [[nodiscard]] ibv_send_wr remote(ibv_wr_opcode opcode, std::size_t offset) {
    return ConnectedHost::request(opcode, b.address(offset), b.all.key);
  }
  /// A packet as from `a`, which the test may change.
  [[nodiscard]] ConnectedPacket packet(ipoib::wire::ConnectedOpcode opcode,
                                       std::uint32_t psn) const {
    ConnectedPacket out;
    out.service = qb.connection().service;
    out.opcode = opcode;
    out.lrh.slid = Lid(5);
    out.lrh.dlid = Lid(6);
    out.bth.pkey = ipoib::kDefaultPKey;
    out.bth.destination = qb.number();
    out.bth.psn = Psn(kFirstPsn) + psn;
    return out;
  }
  void arrives(ConnectedPacket packet, std::size_t payload_size) {
    std::vector<std::uint8_t> bytes(ConnectedPacket::kMaxHeaderSize);
    bytes.resize(packet.emit_headers(payload_size, bytes));
    bytes.resize(bytes.size() + payload_size + packet.bth.pad, 0x77);
    (a.hca.ports()[1].has(packet.lrh.dlid) ? a : b).hca.receive({bytes});
  }
  [[nodiscard]] static std::vector<ibv_wc_status> statuses(const std::vector<ibv_wc>& completions) {
    std::vector<ibv_wc_status> out;
    for (const auto& wc : completions) out.push_back(wc.status);
    return out;
  }

  ConnectedHost a{5};
  ConnectedHost b{6};
  QueuePair& qa;
  QueuePair& qb;
  Network network;
};

}  // namespace softib::hca
