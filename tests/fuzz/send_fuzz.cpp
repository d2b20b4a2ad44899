// Arbitrary sends from an HCA, including large ones (IBV_WR_TSO) and those with checksum offload:
// the packets have exactly the payload, fit the port's MTU, and each send completes once.
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "require.hpp"
#include "softib/core/large_packet.hpp"
#include "softib/hca/hca.hpp"

namespace {

using namespace softib;
using ipoib::require;
using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kMost = 65536 + 1;  // bytes of payload, one too many
constexpr std::uint32_t kElements = 4;

PortAttributes make_port() {
  PortAttributes port;
  port.port_guid = ipoib::Guid(0x0002c90000000005);
  port.lid = Lid(5);
  port.state = PortState::active;
  port.pkeys[0] = ipoib::kDefaultPKey;
  return port;
}

/// The first bytes of an input; the rest are headers.
struct Send {
  static constexpr std::size_t kSize = 8;
  explicit Send(ipoib::ByteReader& from)
      : flags(from.u8()), share(from.u8()), segment(from.u16()), payload(from.u32()) {}
  [[nodiscard]] bool is_large() const { return (flags & 1) != 0; }
  [[nodiscard]] bool is_fixed() const { return (flags & 2) != 0; }
  [[nodiscard]] bool is_ipv6() const { return (flags & 4) != 0; }
  [[nodiscard]] bool is_tcp() const { return (flags & 8) != 0; }
  [[nodiscard]] bool has_checksum_offload() const { return (flags & 16) != 0; }

  std::uint8_t flags;
  std::uint8_t share;     ///< size of each piece, in 256ths of the rest
  std::uint16_t segment;  ///< bytes of payload
  std::uint32_t payload;  ///< bytes
};

/// Random headers can rarely be segmented.
void fix_headers(const Send& send, Bytes& header) {
  const std::size_t ip = send.is_ipv6() ? 40 : 20;
  header.resize(4 + ip + (send.is_tcp() ? 20 : 8));
  ipoib::store_be<std::uint16_t>(header.data(), send.is_ipv6() ? 0x86dd : 0x0800);
  header[4] = send.is_ipv6() ? 0x60 : 0x45;
  header[4 + (send.is_ipv6() ? 6U : 9U)] = send.is_tcp() ? 6 : 17;
  if (!send.is_ipv6()) header[10] = header[11] = 0;
  if (send.is_tcp()) header[4 + ip + 12] = 0x50;
}

class Sender : public PacketSink {
 public:
  Sender() {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qkey = 0x0b1b;
    for (const auto& [state, mask] : {std::pair{IBV_QPS_INIT, kToInit},
                                      {IBV_QPS_RTR, kToRtr},
                                      {IBV_QPS_RTS, kToRtr | IBV_QP_SQ_PSN}}) {
      attr.qp_state = state;
      require(hca_.modify(qp_, attr, mask).has_value());
    }
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<std::uint8_t>(i / 3);
  }

  /// Headers and `size` bytes of payload, in up to kElements pieces. Returns false if the queue
  /// pair cannot send any more.
  bool run(const Send& how, Bytes& headers, std::size_t size) {
    if (how.is_fixed()) fix_headers(how, headers);
    std::array<ibv_sge, kElements> elements{};
    std::size_t at = 0;
    for (auto& element : elements) {
      const auto piece = &element == &elements.back() ? size - at : (size - at) * how.share / 256;
      element = {address(at), static_cast<std::uint32_t>(piece), region_.key};
      at += piece;
    }
    ibv_send_wr wr{};
    wr.sg_list = elements.data();
    wr.num_sge = kElements;
    wr.opcode = how.is_large() ? IBV_WR_TSO : IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED | (how.has_checksum_offload() ? IBV_SEND_IP_CSUM : 0U);
    wr.wr.ud.ah = &handle_;
    wr.wr.ud.remote_qpn = 9;
    wr.wr.ud.remote_qkey = 0x0b1b;
    wr.tso = {headers.data(), static_cast<std::uint16_t>(headers.size()), how.segment};
    ibv_send_wr* refused = nullptr;
    header_size_ = how.is_large() ? headers.size() : 0;
    sent_ = 0;
    const bool is_posted = hca_.post_send(qp_, &wr, &refused) == 0;
    for (auto batch = hca_.next_packets(qp_); !batch.empty(); batch = hca_.next_packets(qp_)) {
      send(batch);
    }
    std::array<ibv_wc, 4> wc;
    require(cq_->poll(wc) == (is_posted ? 1 : 0));
    const bool went = is_posted && wc[0].status == IBV_WC_SUCCESS;
    require(!went || (sent_ == size && wc[0].byte_len == size));
    return went;
  }

  void send(std::span<const OutgoingPacket> batch) override {
    for (const auto& packet : batch) {
      std::size_t packets = 0;
      std::size_t all = 0;
      for_each_packet(packet, [&](ConstBytes bytes) {
        check(bytes);
        ++packets;
        all += bytes.size();
      });
      require(packets == packet.gso.packets && all == segmented_size(packet));
    }
  }

 private:
  void check(ConstBytes bytes) {
    const auto parsed = ipoib::wire::UdPacket::parse(bytes);
    require(parsed && parsed->payload.size() <= 2048 && parsed->payload.size() >= header_size_);
    const auto payload = parsed->payload.subspan(header_size_);
    // Except checksums, which a send that is not large has in its payload.
    const auto* const from = memory_.data() + sent_;
    require(header_size_ == 0 || std::equal(payload.begin(), payload.end(), from));
    sent_ += payload.size();
  }

  static constexpr int kToInit = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY;
  static constexpr int kToRtr = IBV_QP_STATE;
  [[nodiscard]] hca::QueuePairConfig config() const {
    return {.pd = pd_,
            .send_cq = cq_,
            .receive_cq = cq_,
            .cap = {2, 1, kElements, 1, 0},
            .max_tso_header = kMaxTsoHeader};
  }
  [[nodiscard]] hca::AddressHandle& make_handle() {
    ibv_ah_attr attr{};
    attr.dlid = 6;
    attr.port_num = 1;
    return **hca_.create_address_handle(*pd_, attr);
  }
  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return std::bit_cast<std::uint64_t>(memory_.data() + offset);
  }

  hca::Hca hca_{1, 0, HcaPorts(make_port())};
  hca::ProtectionDomain* pd_ = *hca_.create_protection_domain();
  hca::CompletionQueue* cq_ = *hca_.create_completion_queue(8);
  hca::QueuePair& qp_ = **hca_.create_queue_pair(config());
  hca::AddressHandle& handle_ = make_handle();
  Bytes memory_ = Bytes(kMost);
  hca::MemoryRegion region_ =
      *hca_.register_memory(*pd_, memory_.data(), memory_.size(), address(0), 0);
  std::size_t header_size_ = 0;
  std::size_t sent_ = 0;  ///< bytes of payload
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ipoib::ByteReader reader({data, size});
  if (size < Send::kSize) return 0;
  const Send how(reader);
  const auto rest = reader.take(std::min<std::size_t>(reader.left(), kMaxTsoHeader + 8));
  Bytes headers(rest.begin(), rest.end());
  static auto sender = std::make_unique<Sender>();
  if (!sender->run(how, headers, how.payload % (kMost + 1))) sender = std::make_unique<Sender>();
  return 0;
}
