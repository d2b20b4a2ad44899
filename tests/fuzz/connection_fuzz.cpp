// A hostile peer of a connection, reliable or not: arbitrary packets to a queue pair that has
// requests and receives of its own, or shares receives, or is a target of XRC. They change no
// memory that was not given to the peer, each request completes at most once, and what the queue
// pair owes stays bounded. The peer was given a region, a memory window on a part of another one,
// and an on-demand region of which a part is missing.
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
constexpr std::size_t kWindow = 128;  ///< bytes, and where they begin
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
  TrySent try_send(std::span<const OutgoingPacket> batch) override {
    for (const auto& packet : batch) {
      require(packet.payload_size <= std::size_t{packet.gso.packets} * 256);
    }
    return std::min(batch.size(), room);
  }
  bool has_untaken(std::uint8_t, Lid, Qpn) override { return false; }
  std::size_t room = 0;
};

/// All of its second half is missing.
struct HalfMissing final : hca::OnDemandMemory {
  [[nodiscard]] bool has(const std::uint8_t* begin, std::size_t size) const {
    return begin >= bytes.data() && begin + size <= bytes.data() + bytes.size() / 2;
  }
  bool read(std::span<std::uint8_t> to, const std::uint8_t* from) override {
    if (!has(from, to.size())) return false;
    std::copy_n(from, to.size(), to.begin());
    return true;
  }
  bool write(std::uint8_t* to, ipoib::ConstBytes from) override {
    if (!has(to, from.size())) return false;
    std::ranges::copy(from, to);
    return true;
  }
  bool populate(std::uint8_t* begin, std::size_t size) override { return has(begin, size); }
  alignas(8) std::array<std::uint8_t, kBuffer> bytes = make();

 private:
  static std::array<std::uint8_t, kBuffer> make() {
    std::array<std::uint8_t, kBuffer> made;
    made.fill(kUntouched);
    return made;
  }
};

class Target {
 public:
  Target(ibv_qp_type type, bool shares) : type_(type), shares_(shares) {
    qp_ = *hca_.create_queue_pair(config());
    connect();
    post();
  }

  /// | how 8 | is run 1, opcode 7 | PSN, relative 8 | value 8 | payload |
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
    if (is_xrc() && (how & 64) == 0) packet.service = Service::extended;
    packet.shared_queue = shared_queue_->number + ((how & 128) != 0 ? 1U : 0U);
    const auto opcode = reader.u8();
    packet.opcode = opcode_of(opcode & 0x7f);
    packet.bth.psn = ipoib::wire::Psn(kFirstPsn) + reader.u8();
    packet.bth.ack_request = (how & 1) != 0;
    const auto value = reader.u8();
    packet.aeth = {static_cast<ipoib::wire::Aeth::Kind>(value >> 5 & 3),
                   static_cast<std::uint8_t>(value & 31), value};
    const auto [begin, key] = memory_of(how, value);
    packet.reth = {begin + ((how & 4) != 0 ? value : 0U), key,
                   (how & 8) != 0 ? 0xffffffff - value : value * 4U};
    packet.invalidated_key = key;
    packet.atomic = {packet.reth.address, key, value, how};
    packet.original = value;
    const auto payload = reader.rest().first(std::min(reader.left(), kMaxPayload));
    if ((opcode & 0x80) != 0) {
      receive_run(packet, payload, value);
    } else {
      receive(packet, (how & 16) != 0 ? full(payload) : payload);
    }
    if ((how & 32) != 0) serve(how);
    check();
  }

 private:
  static ipoib::wire::ConnectedOpcode opcode_of(std::uint8_t number) {
    using ipoib::wire::ConnectedOpcode;
    constexpr std::array kOthers = {ConnectedOpcode::send_last_invalidate,
                                    ConnectedOpcode::send_only_invalidate,
                                    ConnectedOpcode::atomic_write};
    const auto which = number % (0x15 + kOthers.size());
    return which < 0x15 ? static_cast<ConnectedOpcode>(which) : kOthers[which - 0x15];
  }
  /// An address, and a key that belongs to it or not.
  [[nodiscard]] std::pair<std::uint64_t, std::uint32_t> memory_of(std::uint8_t how,
                                                                  std::uint8_t value) const {
    const auto shared = address(guarded_.data() + 1);
    if ((how & 2) == 0) return {shared, shared_.key + value};
    switch (value % 4) {
      case 0:
        return {address(lent_.data()) + kWindow, ibv_inc_rkey(window_)};
      case 1:
        return {address(on_demand_.bytes.data()) + value * 4U, missing_.key};
      default:
        return {shared, shared_.key};
    }
  }
  /// The queue pair lends a part of a region.
  void bind() {
    ibv_mw window{};
    window.rkey = window_;
    ibv_mr region{};
    region.lkey = region_.key;
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw = {&window,
                  ibv_inc_rkey(window_),
                  {&region, address(lent_.data()) + kWindow, kWindow,
                   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC}};
    ibv_send_wr* bad = nullptr;
    require(hca_.post_send(*qp_, &wr, &bad) == 0);
  }

  /// A payload of the path MTU, which the first packets of a message need.
  static ipoib::ConstBytes full(ipoib::ConstBytes payload) {
    static std::array<std::uint8_t, 256> bytes;
    bytes.fill(payload.empty() ? 1 : payload.front());
    return bytes;
  }
  static std::uint64_t address(const std::uint8_t* bytes) {
    return std::bit_cast<std::uint64_t>(bytes);
  }

  [[nodiscard]] bool is_reliable() const { return type_ != IBV_QPT_UC; }
  [[nodiscard]] bool is_xrc() const { return type_ == IBV_QPT_XRC_RECV; }

  hca::QueuePairConfig config() {
    if (is_xrc()) return {.domain = domain_, .type = type_};
    return {.pd = pd_,
            .send_cq = cq_,
            .receive_cq = cq_,
            .shared = shares_ ? shared_queue_ : nullptr,
            .cap = {kRequests + 1, kRequests, 1, 1, 0},
            .type = type_};
  }
  hca::SharedReceiveQueueConfig shared_config() {
    hca::SharedReceiveQueueConfig config{.pd = pd_, .attributes = {kRequests, 1, 0}};
    if (is_xrc()) config.domain = domain_, config.cq = cq_;
    return config;
  }

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
    const int more = is_xrc() ? int{IBV_QP_TIMEOUT} : is_reliable() ? reliable_to_rts : 0;
    require(hca_.modify(*qp_, attr, IBV_QP_STATE | IBV_QP_SQ_PSN | more).has_value());
  }

  void post() {
    if (!is_xrc()) bind();
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
      require((hca_.post_send(*qp_, &send, &bad_send) == 0) == !is_xrc());
      ibv_recv_wr receive{i, nullptr, &local, 1};
      ibv_recv_wr* bad_receive = nullptr;
      require((shares_ ? hca_.shared_receives().post(*shared_queue_, &receive, &bad_receive)
                       : hca_.post_receive(*qp_, &receive, &bad_receive)) == 0);
    }
    serve(0xff);
  }

  void receive(ConnectedPacket& packet, ipoib::ConstBytes payload) {
    using ipoib::wire::ConnectedOpcode;
    if (packet.opcode >= ConnectedOpcode::acknowledge ||
        packet.opcode == ConnectedOpcode::read_request) {
      payload = {};
    }
    std::vector<std::uint8_t> bytes(ConnectedPacket::kMaxHeaderSize);
    bytes.resize(packet.emit_headers(payload.size(), bytes));
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    bytes.resize(bytes.size() + packet.bth.pad);
    hca_.receive({bytes});
  }

  /// Some packets of the path MTU, or of half of it, before one with this payload.
  void receive_run(ConnectedPacket& packet, ipoib::ConstBytes payload, std::uint8_t value) {
    const auto mtu = static_cast<std::uint16_t>(value % 8 == 0 ? 128 : 256);
    const auto packets = static_cast<std::uint16_t>(2 + value % 3);
    std::vector<std::uint8_t> bytes(ConnectedPacket::kMaxHeaderSize);
    bytes.resize(packet.emit_headers(mtu, bytes));
    bytes.resize(bytes.size() + std::size_t{mtu} * (packets - 1U), value);
    const auto last = payload.first(std::min<std::size_t>(payload.size(), mtu));
    bytes.insert(bytes.end(), last.begin(), last.end());
    hca_.receive({bytes, false, {mtu, packets}});
  }

  void serve(std::uint8_t how) {
    now_ += std::chrono::microseconds(how) * 100;
    sink_.room = how % 5;
    hca_.connections().expire(now_);
    hca_.connections().resume();
    (void)hca_.connections().serve(now_, sink_);
  }

  void check() {
    std::array<ibv_wc, 4 * kRequests> wc;
    const int count = cq_->poll(wc);
    require(count >= 0);
    completed_ += static_cast<std::size_t>(count);
    require(completed_ <= 2 * kRequests);
    const auto lent = std::span(lent_);
    const auto is_untouched = [](std::span<const std::uint8_t> bytes) {
      return std::ranges::all_of(bytes, [](auto byte) { return byte == kUntouched; });
    };
    require(is_untouched(lent.first(kWindow)) && is_untouched(lent.subspan(2 * kWindow)));
    require(is_untouched(std::span(on_demand_.bytes).last(kBuffer / 2)));
    require(guarded_.front() == kUntouched && guarded_.back() == kUntouched);
    require(local_.front() == kUntouched && local_.back() == kUntouched);
    hca_.clear_events();
  }

  ibv_qp_type type_;
  bool shares_;
  HalfMissing on_demand_;
  hca::Hca hca_{1, 0, HcaPorts(make_port()), &on_demand_};
  hca::ProtectionDomain* pd_ = *hca_.create_protection_domain();
  hca::CompletionQueue* cq_ = *hca_.create_completion_queue(4 * kRequests);
  hca::XrcDomain* domain_ = *hca_.shared_receives().open_domain();
  hca::SharedReceiveQueue* shared_queue_ = *hca_.shared_receives().create(shared_config());
  hca::QueuePair* qp_ = nullptr;
  std::vector<std::uint8_t> guarded_ = std::vector<std::uint8_t>(kBuffer + 2, kUntouched);
  std::vector<std::uint8_t> local_ = std::vector<std::uint8_t>(600 + 2, kUntouched);
  hca::MemoryRegion shared_ =
      *hca_.register_memory(*pd_, guarded_.data() + 1, kBuffer, address(guarded_.data() + 1),
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  hca::MemoryRegion own_ = *hca_.register_memory(
      *pd_, local_.data() + 1, 600, address(local_.data() + 1), IBV_ACCESS_LOCAL_WRITE);
  alignas(8) std::array<std::uint8_t, 4 * kWindow> lent_ = [] {
    std::array<std::uint8_t, 4 * kWindow> bytes;
    bytes.fill(kUntouched);
    return bytes;
  }();
  hca::MemoryRegion region_ =
      *hca_.register_memory(*pd_, lent_.data(), lent_.size(), address(lent_.data()),
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  std::uint32_t window_ = *hca_.memory().add_window(*pd_, IBV_MW_TYPE_2);
  hca::MemoryRegion missing_ = *hca_.register_memory(
      *pd_, on_demand_.bytes.data(), kBuffer, address(on_demand_.bytes.data()),
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
          IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ON_DEMAND);
  Sink sink_;
  ipoib::TimePoint now_{};
  std::size_t completed_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::array<std::pair<ibv_qp_type, bool>, 4> kTargets = {
      {{IBV_QPT_RC, false}, {IBV_QPT_UC, false}, {IBV_QPT_RC, true}, {IBV_QPT_XRC_RECV, true}}};
  for (const auto& [type, shares] : kTargets) {
    Target target(type, shares);
    // An input is a sequence of packets, each after its length.
    ipoib::ByteReader reader({data, size});
    while (reader.left() > 1) {
      const std::size_t length = reader.u8();
      target.feed(reader.take(std::min(length, reader.left())));
    }
  }
  return 0;
}
