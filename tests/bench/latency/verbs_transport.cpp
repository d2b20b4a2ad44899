// Messages as UD datagrams on any RDMA device. Sends and receives have separate completion queues;
// only that of the receives raises events. One of `signal_every` sends, the length of the send
// queue, has a completion, which is waited for before the next one.
#include <infiniband/verbs.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "transport.hpp"
#include "verbs/device.hpp"

namespace ipoib::bench {

namespace {

constexpr std::uint32_t kQKey = 0x1e0b1b;
constexpr std::size_t kGrh = 40;  // before each message received (IBA 11.4.1.2)
constexpr int kReceives = 2 * kMaxBurst;
constexpr int kAtOnce = 16;
constexpr std::uint8_t kHopLimit = 64;

/// The address that a server prints: LID/QPN/GID.
struct ServerAddress {
  unsigned lid = 0;
  unsigned qpn = 0;
  Gid gid;

  [[nodiscard]] std::string text() const {
    return std::to_string(lid) + "/" + std::to_string(qpn) + "/" + gid.to_string();
  }
  static ServerAddress parse(const std::string& text) {
    ServerAddress out;
    const char* const end = text.data() + text.size();
    const auto lid = std::from_chars(text.data(), end, out.lid);
    const auto qpn = lid.ptr == end ? lid : std::from_chars(lid.ptr + 1, end, out.qpn);
    const auto gid = Gid::parse(qpn.ptr == end ? "" : std::string_view(qpn.ptr + 1, end));
    if (!gid) throw std::runtime_error("a peer is LID/QPN/GID, as the server prints it");
    out.gid = *gid;
    return out;
  }
};

class VerbsTransport final : public Transport {
 public:
  explicit VerbsTransport(const Options& options)
      : options_(options),
        device_(
            verbs::Device::open(options.device, static_cast<std::uint8_t>(options.port)).value()),
        port_(device_.query().value()) {
    make_queues();
    make_memory();
    connect();
    for (std::uint64_t slot = 0; slot < kReceives; ++slot) post_receive(slot);
    if (options.is_server) {
      std::printf("%s\n",
                  ServerAddress{port_.lid.value(), pair_->qp_num, port_.gid}.text().c_str());
      std::fflush(stdout);
    } else {
      set_peer(ServerAddress::parse(options.peer));
    }
  }

  void send(std::uint64_t number) override {
    const auto slot = sent_ % options_.signal_every;
    if (slot == 0 && sent_ != 0) await_send();
    auto* const message = send_slot(slot);
    std::memcpy(message, &number, sizeof number);
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(message), size(), memory_->lkey};
    ibv_send_wr work{};
    work.sg_list = &piece;
    work.num_sge = 1;
    work.opcode = IBV_WR_SEND;
    work.send_flags = (slot + 1 == options_.signal_every ? IBV_SEND_SIGNALED : 0) |
                      (options_.is_inline ? IBV_SEND_INLINE : 0);
    work.wr.ud = {to_.get(), to_qpn_, kQKey};
    ibv_send_wr* refused = nullptr;
    const int error = ibv_post_send(pair_.get(), &work, &refused);
    check(error == 0, "ibv_post_send", error);
    ++sent_;
  }

  void receive(std::vector<std::uint64_t>& out, std::chrono::milliseconds timeout) override {
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (!poll_receives(out) && std::chrono::steady_clock::now() < end) {
      if (options_.poll == Poll::busy) continue;
      if (!armed_) {  // and poll once more
        const int error = ibv_req_notify_cq(received_.get(), 0);
        check(error == 0, "ibv_req_notify_cq", error);
        armed_ = true;
      } else {
        sleep(timeout);
      }
    }
  }

 private:
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(options_.size); }
  [[nodiscard]] std::uint8_t* send_slot(std::size_t slot) {
    return bytes_.data() + slot * options_.size;
  }
  [[nodiscard]] std::uint8_t* receive_slot(std::size_t slot) {
    return send_slot(options_.signal_every) + slot * (kGrh + options_.size);
  }

  void make_queues() {
    domain_.reset(ibv_alloc_pd(device_.context()));
    check(bool(domain_), "ibv_alloc_pd");
    channel_.reset(ibv_create_comp_channel(device_.context()));
    check(bool(channel_), "ibv_create_comp_channel");
    received_.reset(ibv_create_cq(device_.context(), kReceives, nullptr, channel_.get(), 0));
    completed_.reset(ibv_create_cq(device_.context(), 1, nullptr, nullptr, 0));
    check(received_ && completed_, "ibv_create_cq");
    ibv_qp_init_attr wanted{};
    wanted.send_cq = completed_.get();
    wanted.recv_cq = received_.get();
    wanted.qp_type = IBV_QPT_UD;
    wanted.cap.max_send_wr = options_.signal_every;
    wanted.cap.max_recv_wr = kReceives;
    wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
    wanted.cap.max_inline_data = options_.is_inline ? size() : 0;
    pair_.reset(ibv_create_qp(domain_.get(), &wanted));
    check(bool(pair_),
          options_.is_inline ? "ibv_create_qp, with messages inline" : "ibv_create_qp");
  }

  void make_memory() {
    bytes_.resize(options_.signal_every * options_.size + kReceives * (kGrh + options_.size));
    memory_.reset(ibv_reg_mr(domain_.get(), bytes_.data(), bytes_.size(), IBV_ACCESS_LOCAL_WRITE));
    check(bool(memory_), "ibv_reg_mr");
  }

  void modify(ibv_qp_attr attributes, int mask) {
    mask |= IBV_QP_STATE;
    const int error = ibv_modify_qp(pair_.get(), &attributes, mask);
    check(error == 0, "ibv_modify_qp", error);
  }

  void connect() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = device_.port();
    attributes.qkey = kQKey;
    modify(attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    attributes.qp_state = IBV_QPS_RTR;
    modify(attributes, 0);
    attributes.qp_state = IBV_QPS_RTS;
    modify(attributes, IBV_QP_SQ_PSN);
  }

  void set_peer(const ServerAddress& peer) {
    ibv_ah_attr attributes{};
    attributes.dlid = static_cast<std::uint16_t>(peer.lid);
    attributes.port_num = device_.port();
    if (port_.link_layer == verbs::LinkLayer::roce) {
      attributes.is_global = 1;
      attributes.grh.sgid_index = port_.gid_index;
      attributes.grh.hop_limit = kHopLimit;
      std::copy(peer.gid.bytes().begin(), peer.gid.bytes().end(), attributes.grh.dgid.raw);
    }
    to_.reset(ibv_create_ah(domain_.get(), &attributes));
    check(bool(to_), "ibv_create_ah");
    to_qpn_ = peer.qpn;
  }

  void post_receive(std::uint64_t slot) {
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(receive_slot(slot)),
                  static_cast<std::uint32_t>(kGrh) + size(), memory_->lkey};
    ibv_recv_wr work{};
    work.wr_id = slot;
    work.sg_list = &piece;
    work.num_sge = 1;
    ibv_recv_wr* refused = nullptr;
    const int error = ibv_post_recv(pair_.get(), &work, &refused);
    check(error == 0, "ibv_post_recv", error);
  }

  void await_send() {
    ibv_wc completion{};
    int got = 0;
    while ((got = ibv_poll_cq(completed_.get(), 1, &completion)) == 0) {
    }
    check(got == 1 && completion.status == IBV_WC_SUCCESS, "a send failed", EIO);
  }

  bool poll_receives(std::vector<std::uint64_t>& out) {
    std::array<ibv_wc, kAtOnce> completions{};
    const int got = ibv_poll_cq(received_.get(), kAtOnce, completions.data());
    check(got >= 0, "ibv_poll_cq", EIO);
    for (int i = 0; i < got; ++i) take(completions[static_cast<std::size_t>(i)], out);
    return got > 0;
  }

  void take(ibv_wc& completion, std::vector<std::uint64_t>& out) {
    check(completion.status == IBV_WC_SUCCESS, "a receive failed", EIO);
    auto* const message = receive_slot(completion.wr_id);
    if (options_.is_server && completion.src_qp != to_qpn_) {
      to_.reset(ibv_create_ah_from_wc(domain_.get(), &completion,
                                      reinterpret_cast<ibv_grh*>(message), device_.port()));
      check(bool(to_), "ibv_create_ah_from_wc");
      to_qpn_ = completion.src_qp;
    }
    if (completion.byte_len >= kGrh + sizeof(std::uint64_t)) {
      std::memcpy(&out.emplace_back(), message + kGrh, sizeof(std::uint64_t));
    }
    post_receive(completion.wr_id);
  }

  void sleep(std::chrono::milliseconds timeout) {
    pollfd waiting{channel_->fd, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(timeout.count())) != 1) return;
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    check(ibv_get_cq_event(channel_.get(), &queue, &context) == 0, "ibv_get_cq_event");
    ibv_ack_cq_events(queue, 1);
    armed_ = false;
  }

  Options options_;
  verbs::Device device_;
  verbs::PortSnapshot port_;
  std::vector<std::uint8_t> bytes_;  // slots of sends, then those of receives
  verbs::ProtectionDomain domain_;
  verbs::MemoryRegion memory_;
  verbs::CompletionChannel channel_;
  verbs::CompletionQueue received_;
  verbs::CompletionQueue completed_;
  verbs::QueuePair pair_;
  verbs::RawAddressHandle to_;
  std::uint32_t to_qpn_ = 0;
  std::uint64_t sent_ = 0;
  bool armed_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_verbs_transport(const Options& options) {
  return std::make_unique<VerbsTransport>(options);
}

}  // namespace ipoib::bench
