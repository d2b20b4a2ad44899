#include "tests/sim/hca_port.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "wire/encapsulation.hpp"
#include "wire/packet.hpp"

namespace ipoib::sim {
namespace {

constexpr std::size_t kSlot = wire::kGrhSize + 4096;
constexpr std::uint64_t kReceiveId = 1;

class SimAddressHandle : public AddressHandle {
 public:
  SimAddressHandle(const AddressVector& vector, softib::hca::Hca& hca,
                   softib::hca::AddressHandle& handle)
      : ipoib::AddressHandle(vector), hca_(hca), handle_(handle) {}
  ~SimAddressHandle() override { (void)hca_.destroy(handle_); }
  [[nodiscard]] ibv_ah* get() const { return &handle_; }

 private:
  softib::hca::Hca& hca_;
  softib::hca::AddressHandle& handle_;
};

}  // namespace

HcaPort::HcaPort(softib::hca::Hca& hca, softib::PacketSink& fabric,
                 const std::vector<FramePool*>& pools, std::uint32_t depth)
    : hca_(hca),
      fabric_(fabric),
      depth_(depth),
      receive_frames_(depth + std::max(depth / 4, 8U), kSlot),
      pd_(hca.create_protection_domain().value()),
      cq_(hca.create_completion_queue(2 * depth).value()) {
  std::vector<FramePool*> all = pools;
  all.push_back(&receive_frames_);
  for (FramePool* const pool : all) {
    const auto arena = pool->arena();
    const softib::hca::MemoryRegion region =
        hca_.register_memory(*pd_, arena.data(), arena.size(),
                             reinterpret_cast<std::uintptr_t>(arena.data()), IBV_ACCESS_LOCAL_WRITE)
            .value();
    regions_.push_back({arena.data(), arena.data() + arena.size(), region.key});
  }
  softib::hca::QueuePairConfig config;
  config.pd = pd_;
  config.send_cq = config.receive_cq = cq_;
  config.cap.max_send_wr = depth;
  config.cap.max_recv_wr = depth;
  config.cap.max_send_sge = config.cap.max_recv_sge = 1;
  qp_ = hca_.create_queue_pair(config).value();
}

HcaPort::~HcaPort() { (void)hca_.destroy(*qp_); }

void HcaPort::to_state(ibv_qp_state state, ibv_qp_attr attributes, int mask) {
  attributes.qp_state = state;
  hca_.modify(*qp_, attributes, mask | IBV_QP_STATE).value();
}

Result<void> HcaPort::configure(const UdAttributes& wanted) {
  to_state(IBV_QPS_RESET, {}, 0);
  sending_.clear();
  posted_.clear();
  ibv_qp_attr attributes{};
  attributes.pkey_index = wanted.pkey_index;
  attributes.port_num = 1;
  attributes.qkey = wanted.qkey.value();
  to_state(IBV_QPS_INIT, attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  post_receives();
  to_state(IBV_QPS_RTR, {}, 0);
  to_state(IBV_QPS_RTS, {}, IBV_QP_SQ_PSN);
  return {};
}

Qpn HcaPort::qpn() const { return qp_->number(); }

Result<AddressHandlePtr> HcaPort::create_address_handle(const AddressVector& to) {
  ibv_ah_attr attributes{};
  attributes.dlid = to.dlid.value();
  attributes.sl = to.sl.value();
  attributes.static_rate = to.rate;
  attributes.src_path_bits = to.source_path_bits;
  attributes.port_num = 1;
  if (to.global) {
    attributes.is_global = 1;
    std::ranges::copy(to.global->dgid.bytes(), attributes.grh.dgid.raw);
    attributes.grh.sgid_index = to.global->sgid_index;
    attributes.grh.flow_label = to.global->flow_label;
    attributes.grh.hop_limit = to.global->hop_limit;
    attributes.grh.traffic_class = to.global->traffic_class;
  }
  auto made = hca_.create_address_handle(*pd_, attributes);
  if (!made) return made.error();
  return AddressHandlePtr(new SimAddressHandle(to, hca_, **made));
}

std::uint32_t HcaPort::key_of(const std::uint8_t* address) const {
  const auto region = std::ranges::find_if(
      regions_, [address](const Region& r) { return address >= r.begin && address < r.end; });
  return region->key;
}

std::size_t HcaPort::send(std::span<Outgoing> batch) {
  std::size_t posted = 0;
  for (Outgoing& datagram : batch) {
    if (sending_.size() == depth_) break;
    const MutableBytes bytes = datagram.frame.bytes();
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(bytes.data()),
                  static_cast<std::uint32_t>(bytes.size()), key_of(bytes.data())};
    ibv_send_wr work{};
    work.sg_list = &piece;
    work.num_sge = 1;
    work.opcode = IBV_WR_SEND;
    work.send_flags = IBV_SEND_SIGNALED;
    work.wr.ud.ah = static_cast<const SimAddressHandle&>(*datagram.to).get();
    work.wr.ud.remote_qpn = datagram.qpn.value();
    work.wr.ud.remote_qkey = qp_->datagram().qkey.value();
    ibv_send_wr* refused = nullptr;
    if (hca_.post_send(*qp_, &work, &refused) != 0) break;
    sending_.push_back(std::move(datagram));
    ++posted;
  }
  for (auto packets = hca_.next_packets(*qp_); !packets.empty();
       packets = hca_.next_packets(*qp_)) {
    fabric_.send(packets);
  }
  return posted;
}

std::size_t HcaPort::receive(std::vector<Incoming>& out, std::size_t limit) {
  std::array<ibv_wc, 32> completions;
  const std::size_t before = out.size();
  while (out.size() - before < limit) {
    const int found = cq_->poll(completions);
    if (found <= 0) break;
    for (int i = 0; i < found; ++i) {
      const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
      if (completion.wr_id == kReceiveId) {
        complete_receive(completion, out);
      } else if (!sending_.empty()) {
        sending_.pop_front();
      }
    }
  }
  if (qp_->can_receive()) post_receives();
  return out.size() - before;
}

void HcaPort::complete_receive(const ibv_wc& completion, std::vector<Incoming>& out) {
  if (posted_.empty()) return;
  Frame frame = std::move(posted_.front());
  posted_.pop_front();
  if (completion.status != IBV_WC_SUCCESS || completion.byte_len < wire::kGrhSize) return;
  Incoming datagram;
  datagram.source_lid = Lid(completion.slid);
  datagram.source_qpn = Qpn(completion.src_qp);
  if ((completion.wc_flags & IBV_WC_GRH) != 0) {
    const auto grh = wire::Grh::parse(frame.bytes().first(wire::kGrhSize));
    if (!grh) return;
    datagram.has_grh = true;
    datagram.source_gid = grh->sgid;
    datagram.destination_gid = grh->dgid;
  }
  frame.window(wire::kGrhSize, completion.byte_len - wire::kGrhSize);
  datagram.frame = std::move(frame);
  out.push_back(std::move(datagram));
}

void HcaPort::post_receives() {
  while (posted_.size() < depth_) {
    Frame frame = receive_frames_.take();
    if (!frame) return;
    frame.window(0, kSlot);
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(frame.bytes().data()), kSlot,
                  key_of(frame.bytes().data())};
    ibv_recv_wr work{};
    work.wr_id = kReceiveId;
    work.sg_list = &piece;
    work.num_sge = 1;
    ibv_recv_wr* refused = nullptr;
    if (hca_.post_receive(*qp_, &work, &refused) != 0) return;
    posted_.push_back(std::move(frame));
  }
}

Result<void> HcaPort::attach(const Gid& mgid, Lid mlid) { return hca_.attach(*qp_, mgid, mlid); }

Result<void> HcaPort::detach(const Gid& mgid, Lid mlid) { return hca_.detach(*qp_, mgid, mlid); }

}  // namespace ipoib::sim
