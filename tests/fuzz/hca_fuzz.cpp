// Arbitrary packets to an HCA with several queue pairs, of which two share their receives, and one
// receives into on-demand memory of which a part is missing: it writes only to posted memory, and
// each posted receive completes at most once.
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "cost.hpp"
#include "offload/segmenter.hpp"
#include "softib/core/large_packet.hpp"
#include "softib/hca/hca.hpp"
#include "wire/transport.hpp"

namespace {

using namespace softib;
using ipoib::require;

constexpr std::uint64_t kMaxCost = 5'000'000;
constexpr std::size_t kBuffer = 256;
constexpr std::size_t kReceives = 4;
constexpr std::uint8_t kUntouched = 0x5a;

/// Made once, since an input changes only what it posts.
std::vector<std::uint8_t>& large_buffer() {
  static std::vector<std::uint8_t> bytes(hca::kLargeReceive + 2, kUntouched);
  return bytes;
}

PortAttributes make_port() {
  PortAttributes port;
  port.port_guid = Guid(0x0002c90000000005);
  port.lid = Lid(5);
  port.state = PortState::active;
  port.pkeys[0] = ipoib::kDefaultPKey;
  port.pkeys[1] = PKey(0x0012);
  return port;
}

/// Takes no more than half of the buffer at once.
struct PartlyMissing final : hca::OnDemandMemory {
  bool read(std::span<std::uint8_t> to, const std::uint8_t* from) override {
    std::copy_n(from, to.size(), to.begin());
    return true;
  }
  bool write(std::uint8_t* to, ipoib::ConstBytes from) override {
    if (from.size() > kBuffer / 2) return false;
    std::ranges::copy(from, to);
    return true;
  }
  bool populate(std::uint8_t*, std::size_t) override { return true; }
};

class Target {
 public:
  Target() {
    for (std::uint16_t i = 0; i < 2; ++i) add_queue_pair(i, nullptr);
    for (std::uint16_t i = 0; i < 2; ++i) add_queue_pair(i, shared_);
    post_to([&](ibv_recv_wr* wr, ibv_recv_wr** bad) {
      return hca_.shared_receives().post(*shared_, wr, bad);
    });
    const auto group = *Gid::parse("ff12:401b:ffff::ffff:ffff");
    require(hca_.attach(*qps_[0], group, Lid(0xc000)).has_value());
    require(hca_.attach(*qps_[1], group, Lid(0xc000)).has_value());
  }

  /// Receives a packet as it is, or with corrected fields, so that it passes the first checks.
  void feed(std::span<const std::uint8_t> data) {
    if (data.empty()) return;
    const ipoib::CostLimit limit(kMaxCost);
    std::vector<std::uint8_t> packet(data.begin() + 1, data.end());
    if ((data[0] & 1) != 0) fix_headers(packet, data[0]);
    if ((data[0] & 8) != 0 && packet.size() > kHeaders) {
      if (packet.back() % 2 != 0) post_large(*qps_[data[0] / 64 % qps_.size()]);
      feed_large(packet, data[0]);
    } else {
      hca_.receive({packet});
    }
    std::array<ibv_wc, 16> wc;
    const int count = cq_->poll(wc);
    require(count >= 0 && completed_ + static_cast<std::size_t>(count) <= posted_);
    completed_ += static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      if (wc[i].vendor_err != 0) expect_packet(wc[i]);
    }
    require(guard_.front() == kUntouched && guard_.back() == kUntouched);
    require(large_guard_.front() == kUntouched && large_guard_.back() == kUntouched);
    hca_.clear_events();
  }

 private:
  static constexpr std::size_t kHeaders = 28 + 4 + 20 + 20;  // without a GRH

  void post_large(hca::QueuePair& qp) {
    const std::uint64_t at = std::bit_cast<std::uint64_t>(large_guard_.data() + 1);
    ibv_sge sge{at, hca::kLargeReceive, large_region_.key};
    ibv_recv_wr wr{kReceives, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    if (hca_.post_receive(qp, &wr, &bad, hca::ReceiveKind::large) == 0) ++posted_;
  }
  /// Checks a large receive, which a host would trust.
  void expect_packet(const ibv_wc& wc) const {
    const auto message = std::span(large_guard_).subspan(1 + 40, wc.byte_len - 40);
    const auto plan =
        ipoib::offload::plan_headers(message, 4, static_cast<std::uint16_t>(wc.vendor_err));
    require(wc.wr_id == kReceives && plan && plan->payload < message.size());
    require(ipoib::wire::ip_length(message.subspan(4)) == message.size() - 4);
  }
  /// Receives a large packet, with corrected fields, so that it can be segmented.
  void feed_large(std::vector<std::uint8_t>& packet, std::uint8_t how) {
    GsoInfo gso{static_cast<std::uint16_t>(1 + packet.back()), 1};
    if ((how & 16) != 0) {
      const bool global = (packet[1] & 3) == ipoib::wire::Lrh::kLnhGlobal;
      const std::size_t front = (global ? 68 : 28) + ((how & 4) != 0 ? 0U : 4U);
      packet.resize(std::max(packet.size(), front + 60));
      ipoib::store_be<std::uint16_t>(&packet[front], 0x0800);
      packet[front + 4] = 0x45;
      ipoib::store_be<std::uint16_t>(&packet[front + 10], 0);
      packet[front + 13] = 6;
      packet[front + 36] = 0x50;
      const auto payload = packet.size() - front - 44;
      gso.packets = static_cast<std::uint16_t>((payload + gso.size - 1) / gso.size);
    }
    hca_.receive({packet, (how & 32) != 0, gso});
  }
  /// Posts kReceives; the second element of each is in on-demand memory, or not.
  template <class Post>
  void post_to(Post post) {
    for (std::size_t i = 0; i < kReceives; ++i) {
      const auto& region = i % 2 == 0 ? region_ : on_demand_region_;
      std::array<ibv_sge, 2> sges{ibv_sge{address(1), 41, region_.key},
                                  ibv_sge{address(64), kBuffer - 64, region.key}};
      ibv_recv_wr wr{i, nullptr, sges.data(), 2};
      ibv_recv_wr* bad = nullptr;
      require(post(&wr, &bad) == 0);
      ++posted_;
    }
  }
  void add_queue_pair(std::uint16_t pkey_index, hca::SharedReceiveQueue* shared) {
    auto& qp = **hca_.create_queue_pair({.pd = pd_,
                                         .send_cq = cq_,
                                         .receive_cq = cq_,
                                         .shared = shared,
                                         .cap = {1, kReceives, 1, 2, 0}});
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.pkey_index = pkey_index;
    attr.qkey = 0x0b1b;
    attr.qp_state = IBV_QPS_INIT;
    require(hca_.modify(qp, attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY)
                .has_value());
    attr.qp_state = IBV_QPS_RTR;
    require(hca_.modify(qp, attr, IBV_QP_STATE).has_value());
    if (shared == nullptr) {
      post_to([&](ibv_recv_wr* wr, ibv_recv_wr** bad) { return hca_.post_receive(qp, wr, bad); });
    }
    qps_.push_back(&qp);
  }
  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return std::bit_cast<std::uint64_t>(guard_.data() + offset);
  }
  void fix_headers(std::vector<std::uint8_t>& packet, std::uint8_t how) const {
    if (packet.size() < 28) return;
    packet.resize(packet.size() / 4 * 4);
    ipoib::store_be(&packet[4], static_cast<std::uint16_t>((packet.size() + 4) / 4));
    ipoib::store_be<std::uint16_t>(&packet[2], (how & 2) != 0 ? 0xc000 : 5);
    const bool global = (packet[1] & 3) == ipoib::wire::Lrh::kLnhGlobal;
    const std::size_t bth = global ? 48 : 8;
    if (packet.size() < bth + 20) return;
    if (global) {
      packet[8] = 0x60;
      packet[14] = ipoib::wire::Grh::kNextHeaderIba;
      ipoib::store_be(&packet[12], static_cast<std::uint16_t>(packet.size() - 48 + 4));
    }
    packet[bth] = (how & 4) != 0 ? 0x64 : 0x65;
    ipoib::store_be<std::uint16_t>(&packet[bth + 2], 0xffff);
    const auto qpn = (how & 2) != 0 ? ipoib::kMulticastQpn : qps_[how / 64 % qps_.size()]->number();
    ipoib::store_be<std::uint32_t, 3>(&packet[bth + 5], qpn.value());
    ipoib::store_be<std::uint32_t>(&packet[bth + 12], 0x0b1b);
  }

  PartlyMissing memory_;
  hca::Hca hca_{1, 0, HcaPorts(make_port()), &memory_};
  hca::ProtectionDomain* pd_ = *hca_.create_protection_domain();
  hca::CompletionQueue* cq_ = *hca_.create_completion_queue(64);
  std::vector<std::uint8_t> guard_ = std::vector<std::uint8_t>(kBuffer + 1, kUntouched);
  hca::MemoryRegion region_ = *hca_.register_memory(*pd_, guard_.data() + 1, kBuffer - 1,
                                                    address(1), IBV_ACCESS_LOCAL_WRITE);
  std::vector<std::uint8_t>& large_guard_ = large_buffer();
  hca::MemoryRegion large_region_ = *hca_.register_memory(
      *pd_, large_guard_.data() + 1, hca::kLargeReceive,
      std::bit_cast<std::uint64_t>(large_guard_.data() + 1), IBV_ACCESS_LOCAL_WRITE);
  hca::MemoryRegion on_demand_region_ =
      *hca_.register_memory(*pd_, guard_.data() + 1, kBuffer - 1, address(1),
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
  hca::SharedReceiveQueue* shared_ =
      *hca_.shared_receives().create({.pd = pd_, .attributes = {kReceives, 2, 1}});
  std::vector<hca::QueuePair*> qps_;
  std::size_t posted_ = 0;
  std::size_t completed_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Target target;
  // An input is a sequence of packets, each after its length.
  ipoib::ByteReader reader({data, size});
  while (reader.left() > 1) {
    const std::size_t length = reader.u16();
    target.feed(reader.take(std::min(length, reader.left())));
  }
  return 0;
}
