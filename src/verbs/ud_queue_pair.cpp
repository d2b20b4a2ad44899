// The hot path of UdQueuePair: posting and polling. Nothing here allocates, blocks or logs.
#include "verbs/ud_queue_pair.hpp"

#include <infiniband/softibdv.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "offload/segmenter.hpp"
#include "verbs/receive_layout.hpp"
#include "verbs/verbs_address_handle.hpp"
#include "wire/packet.hpp"

namespace ipoib::verbs {

namespace {

// The number of completions per ibv_poll_cq() call.
constexpr std::size_t kPollBatch = 32;

/// Reads a completion. Writes to `incoming` in place, which avoids a store-forwarding stall.
bool read_completion(const ibv_wc& completion, Frame&& frame, bool has_lids,
                     bool verifies_checksums, Incoming& incoming) {
  incoming.frame = std::move(frame);
  if (completion.byte_len < wire::kGrhSize + wire::kEncapsulationSize ||
      completion.byte_len > incoming.frame.size()) {
    return false;
  }
  // On RoCE the field is undefined.
  if (has_lids) incoming.source_lid = Lid(completion.slid);
  incoming.source_qpn = Qpn(completion.src_qp);
  incoming.sl = ServiceLevel(completion.sl);
  incoming.has_grh = (completion.wc_flags & IBV_WC_GRH) != 0;
  if (incoming.has_grh) {
    const auto grh = wire::Grh::parse(incoming.frame.bytes());
    if (!grh) return false;
    incoming.source_gid = grh->sgid;
    incoming.destination_gid = grh->dgid;
  }
  incoming.frame.window(wire::kGrhSize, completion.byte_len - wire::kGrhSize);
  incoming.frame.set_checksums_valid(verifies_checksums &&
                                     (completion.wc_flags & IBV_WC_IP_CSUM_OK) != 0);
  return true;
}

/// Plans the segmentation of a packet from a large receive. Returns false if it is not a large
/// packet.
bool read_segmentation(const ibv_wc& completion, Frame& frame) {
  const auto size = static_cast<std::uint16_t>(softibdv_segment_size(&completion));
  const auto plan =
      offload::plan_headers(std::as_const(frame).bytes(), wire::kEncapsulationSize, size);
  if (size == 0 || !plan) return false;
  frame.set_segmentation(*plan);
  return true;
}

}  // namespace

std::size_t UdQueuePair::send(std::span<Outgoing> batch) {
  if (!up_) return 0;
  const auto sent = sends_.send(
      batch, {*qp_, attributes_.qkey, depths_.max_inline, depths_.max_tso, checksum_offload()});
  broken_ = broken_ || sent.is_refused;
  return sent.packets;
}

std::size_t UdQueuePair::receive(std::vector<Incoming>& out, std::size_t limit) {
  // By now all large receives that are not posted are free, unless the caller still holds some.
  const bool may_post = up_ && !broken_;
  if (may_post && !large_receives_.post(*qp_, 1)) stop_large_receives("the device refuses them");
  return poll(out, limit);
}

std::size_t UdQueuePair::poll(std::vector<Incoming>& out, std::size_t limit) {
  std::array<ibv_wc, kPollBatch> completions;
  std::size_t count = take_early(out, limit);
  while (count < limit) {
    const auto wanted = std::min(limit - count, kPollBatch);
    const int found = ibv_poll_cq(cq_.get(), static_cast<int>(wanted), completions.data());
    if (found < 0) completions_failed_ = broken_ = true;
    for (int i = 0; i < found; ++i) {
      const auto& completion = completions[static_cast<std::size_t>(i)];
      if ((completion.wr_id & kReceiveId) == 0) {
        complete_send(completion);
      } else if (complete_receive(completion, out)) {
        ++count;
      }
    }
    if (found < static_cast<int>(wanted)) break;
  }
  if (up_) post_receives(std::min(kReceiveChain, receives_.depth() / 2));
  return count;
}

std::size_t UdQueuePair::take_early(std::vector<Incoming>& out, std::size_t limit) {
  if (early_.empty()) return 0;
  const auto count = std::min(early_.size(), limit);
  const auto end = early_.begin() + static_cast<std::ptrdiff_t>(count);
  out.insert(out.end(), std::move_iterator(early_.begin()), std::move_iterator(end));
  early_.erase(early_.begin(), end);
  return count;
}

/// Completes a send and all earlier ones: a send queue completes in order (IBA 10.8.3.1).
void UdQueuePair::complete_send(const ibv_wc& completion) {
  const bool flushed = completion.status == IBV_WC_WR_FLUSH_ERR;
  if (completion.status != IBV_WC_SUCCESS) {
    if (!flushed) ++counters_.send_errors;
    broken_ = true;
  }
  const auto done = sends_.complete(completion.wr_id);
  if (flushed) counters_.sends_flushed += done;
}

bool UdQueuePair::complete_receive(const ibv_wc& completion, std::vector<Incoming>& out) {
  const bool is_large = (completion.wr_id & kLargeReceiveId) == kLargeReceiveId;
  auto frame = (is_large ? large_receives_ : receives_).complete(completion.wr_id);
  if (completion.status != IBV_WC_SUCCESS) {
    if (completion.status != IBV_WC_WR_FLUSH_ERR) ++counters_.receive_errors;
    broken_ = true;
    return false;
  }
  const bool has_lids = device_.link_layer() == LinkLayer::infiniband;
  auto& incoming = out.emplace_back();
  if (!read_completion(completion, std::move(frame), has_lids, advertises_checksum_offload_,
                       incoming) ||
      (is_large && !read_segmentation(completion, incoming.frame))) {
    ++counters_.malformed;
    out.pop_back();
    return false;
  }
  return true;
}

void UdQueuePair::post_receives(std::size_t at_least) {
  if (!broken_) broken_ = !receives_.post(*qp_, at_least);
}

void UdQueuePair::arm() { broken_ = ibv_req_notify_cq(cq_.get(), 0) != 0 || broken_; }

void UdQueuePair::acknowledge_events() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  unsigned count = 0;
  while (ibv_get_cq_event(channel_.get(), &cq, &context) == 0) ++count;
  if (count > 0) ibv_ack_cq_events(cq_.get(), count);
}

}  // namespace ipoib::verbs
