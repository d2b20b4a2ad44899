// A hostile peer of a connection, reliable or not: arbitrary packets to a queue pair that has requests and
// receives of its own. They change no memory that was not given to the peer, each request completes
// at most once, and what the queue pair owes stays bounded.
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "cost.hpp"
#include "softib/hca/hca.hpp"

namespace {

using namespace softib;
using ipoib::require;
using ipoib::wire::ConnectedPacket;

using Service = ipoib::wire::ConnectedService;

constexpr std::uint64_t kMaxCost = 5'000'000;
constexpr std::size_t kBuffer = 1024;
constexpr std::uint8_t kUntouched = 0x5a;
constexpr std::uint32_t kRequests = 8;
constexpr std::size_t kMaxPayload = 300;
constexpr std::uint32_t kFirstPsn = 0xfffffe;

PortAttributes make_port() {
  PortAttributes port;
  port.port_guid = Guid(0x0002c90000000005);
  port.lid = Lid(5);
  port.state = PortState::active;
  port.pkeys[0] = ipoib::kDefaultPKey;
  return port;
}

/// Takes as much as `room` says.
struct Sink : ConnectedSink {
  std::size_t try_send(std::span<const OutgoingPacket> batch) override {
    for (const auto& packet : batch) require(packet.size() <= kMaxPacketBytes);
    return std::min(batch.size(), room);
  }
  bool has_untaken(Lid, Qpn) override { return false; }
  std::size_t room = 0;
};

class Target {
 public:
  explicit Target(ibv_qp_type type) : type_(type) {
    connect();
    post();
  }

  /// | how 8 | opcode 8 | PSN, relative 8 | value 8 | payload |
  void feed(ipoib::ConstBytes data) {
    const ipoib::CostLimit limit(kMaxCost);
    ipoib::ByteReader reader(data);
    const auto how = reader.u8();
    ConnectedPacket packet;
    packet.lrh.dlid = Lid(5);
    packet.lrh.slid = Lid(6);
    packet.bth.pkey = ipoib::kDefaultPKey;
    packet.bth.destination = qp_->number();
    packet.service = is_reliable() == ((how & 64) == 0) ? Service::reliable : Service::unreliable;
    packet.opcode = static_cast<ipoib::wire::ConnectedOpcode>(reader.u8() % 0x15);
    packet.bth.psn = ipoib::wire::Psn(kFirstPsn) + reader.u8();
    packet.bth.ack_request = (how & 1) != 0;
    const auto value = reader.u8();
    packet.aeth = {static_cast<ipoib::wire::Aeth::Kind>(value >> 5 & 3),
                   static_cast<std::uint8_t>(value & 31), value};
    const std::uint32_t key = (how & 2) != 0 ? shared_.key : shared_.key + value;
    packet.reth = {address(guarded_.data() + 1) + ((how & 4) != 0 ? value : 0U), key,
                   (how & 8) != 0 ? 0xffffffff - value : value * 4U};
    packet.atomic = {packet.reth.address, key, value, how};
    packet.original = value;
    const auto payload = reader.rest().first(std::min(reader.left(), kMaxPayload));
    receive(packet, (how & 16) != 0 ? full(payload) : payload);
    if ((how & 32) != 0) serve(how);
    check();
  }

 private:
  /// A payload of the path MTU, which the first packets of a message need.
  static ipoib::ConstBytes full(ipoib::ConstBytes payload) {
    static std::array<std::uint8_t, 256> bytes;
    bytes.fill(payload.empty() ? 1 : payload.front());
    return bytes;
  }
  static std::uint64_t address(const std::uint8_t* bytes) {
    return std::bit_cast<std::uint64_t>(bytes);
  }

  [[nodiscard]] bool is_reliable() const { return type_ == IBV_QPT_RC; }

  void connect() {
    ibv_qp_attr attr{};
    attr.port_num = attr.ah_attr.port_num = 1;
    attr.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    attr.path_mtu = IBV_MTU_256;
    attr.rq_psn = attr.sq_psn = kFirstPsn;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 2;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 6;
    attr.ah_attr.dlid = 6;
    attr.qp_state = IBV_QPS_INIT;
    require(hca_.modify(*qp_, attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
                .has_value());
    attr.qp_state = IBV_QPS_RTR;
    const int to_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    const int reliable_to_rtr = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    require(hca_.modify(*qp_, attr, to_rtr | (is_reliable() ? reliable_to_rtr : 0)).has_value());
    attr.qp_state = IBV_QPS_RTS;
    const int reliable_to_rts =
        IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    require(hca_.modify(*qp_, attr,
                        IBV_QP_STATE | IBV_QP_SQ_PSN | (is_reliable() ? reliable_to_rts : 0))
                .has_value());
  }

  void post() {
    constexpr std::array kOpcodes = {IBV_WR_SEND, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
                                     IBV_WR_ATOMIC_FETCH_AND_ADD};
    for (std::uint32_t i = 0; i < kRequests; ++i) {
      ibv_sge local{address(local_.data() + 1), 600, own_.key};
      ibv_send_wr send{};
      send.sg_list = &local;
      send.num_sge = 1;
      send.opcode = is_reliable() ? kOpcodes[i % kOpcodes.size()]
                    : i % 2 == 0  ? IBV_WR_SEND
                                  : IBV_WR_RDMA_WRITE;
      send.send_flags = IBV_SEND_SIGNALED;
      ibv_send_wr* bad_send = nullptr;
      require(hca_.post_send(*qp_, &send, &bad_send) == 0);
      ibv_recv_wr receive{i, nullptr, &local, 1};
      ibv_recv_wr* bad_receive = nullptr;
      require(hca_.post_receive(*qp_, &receive, &bad_receive) == 0);
    }
    hca_.connections().activate(*qp_);
    serve(0xff);
  }

  void receive(ConnectedPacket& packet, ipoib::ConstBytes payload) {
    using ipoib::wire::ConnectedOpcode;
    if (packet.opcode >= ConnectedOpcode::acknowledge || packet.opcode == ConnectedOpcode::read_request) {
      payload = {};
    }
    std::vector<std::uint8_t> bytes(ConnectedPacket::kMaxHeaderSize);
    bytes.resize(packet.emit_headers(payload.size(), bytes));
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    bytes.resize(bytes.size() + packet.bth.pad);
    hca_.receive({bytes});
  }

  void serve(std::uint8_t how) {
    now_ += std::chrono::microseconds(how) * 100;
    sink_.room = how % 5;
    hca_.connections().expire(now_);
    (void)hca_.connections().serve(now_, sink_);
  }

  void check() {
    std::array<ibv_wc, 4 * kRequests> wc;
    const int count = cq_->poll(wc);
    require(count >= 0);
    completed_ += static_cast<std::size_t>(count);
    require(completed_ <= 2 * kRequests);
    require(guarded_.front() == kUntouched && guarded_.back() == kUntouched);
    require(local_.front() == kUntouched && local_.back() == kUntouched);
    hca_.clear_events();
  }

  ibv_qp_type type_;
  hca::Hca hca_{1, 0, make_port()};
  hca::ProtectionDomain* pd_ = *hca_.create_protection_domain();
  hca::CompletionQueue* cq_ = *hca_.create_completion_queue(4 * kRequests);
  hca::QueuePair* qp_ = *hca_.create_queue_pair({.pd = pd_,
                                                 .send_cq = cq_,
                                                 .receive_cq = cq_,
                                                 .cap = {kRequests, kRequests, 1, 1, 0},
                                                 .type = type_});
  std::vector<std::uint8_t> guarded_ = std::vector<std::uint8_t>(kBuffer + 2, kUntouched);
  std::vector<std::uint8_t> local_ = std::vector<std::uint8_t>(600 + 2, kUntouched);
  hca::MemoryRegion shared_ =
      *hca_.register_memory(*pd_, guarded_.data() + 1, kBuffer, address(guarded_.data() + 1),
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  hca::MemoryRegion own_ = *hca_.register_memory(
      *pd_, local_.data() + 1, 600, address(local_.data() + 1), IBV_ACCESS_LOCAL_WRITE);
  Sink sink_;
  ipoib::TimePoint now_{};
  std::size_t completed_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const auto type : {IBV_QPT_RC, IBV_QPT_UC}) {
    Target target(type);
    // An input is a sequence of packets, each after its length.
    ipoib::ByteReader reader({data, size});
    while (reader.left() > 1) {
      const std::size_t length = reader.u8();
      target.feed(reader.take(std::min(length, reader.left())));
    }
  }
  return 0;
}
