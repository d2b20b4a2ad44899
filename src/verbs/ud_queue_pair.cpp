// The hot half of UdQueuePair: posting and polling. Nothing here allocates, blocks or logs.
#include "verbs/ud_queue_pair.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "verbs/receive_layout.hpp"
#include "verbs/verbs_address_handle.hpp"
#include "wire/packet.hpp"

namespace ipoib::verbs {

namespace {

// Completions fetched by one call; a multiple of this costs more calls, no more memory.
constexpr std::size_t kPollBatch = 32;

/// Written in its place: a copy of what has just been written by parts waits for the parts.
bool read_completion(const ibv_wc& completion, Frame&& frame, bool has_lids, bool reports_sums,
                     Incoming& incoming) {
  incoming.frame = std::move(frame);
  if (completion.byte_len < wire::kGrhSize + wire::kEncapsulationSize ||
      completion.byte_len > incoming.frame.size()) {
    return false;
  }
  // Without LIDs there may be anything in that field.
  if (has_lids) incoming.source_lid = Lid(completion.slid);
  incoming.source_qpn = Qpn(completion.src_qp);
  incoming.has_grh = (completion.wc_flags & IBV_WC_GRH) != 0;
  if (incoming.has_grh) {
    const auto grh = wire::Grh::parse(incoming.frame.bytes().first(wire::kGrhSize));
    if (!grh) return false;
    incoming.source_gid = grh->sgid;
    incoming.destination_gid = grh->dgid;
  }
  incoming.frame.window(wire::kGrhSize, completion.byte_len - wire::kGrhSize);
  incoming.frame.set_checksums_right(reports_sums &&
                                     (completion.wc_flags & IBV_WC_IP_CSUM_OK) != 0);
  return true;
}

}  // namespace

std::size_t UdQueuePair::send(std::span<Outgoing> batch) {
  if (!up_) return 0;
  bool accepted = true;
  const auto posted = sends_.send(
      batch, {*qp_, attributes_.qkey, depths_.inline_octets, depths_.large_octets, sums_up()},
      accepted);
  broken_ = broken_ || !accepted;
  return posted;
}

std::size_t UdQueuePair::receive(std::vector<Incoming>& out, std::size_t limit) {
  std::array<ibv_wc, kPollBatch> completions;
  std::size_t count = take_early(out, limit);
  while (count < limit) {
    const auto wanted = std::min(limit - count, kPollBatch);
    const int found = ibv_poll_cq(cq_.get(), static_cast<int>(wanted), completions.data());
    if (found < 0) broken_ = true;
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
  if (up_) post_receives(std::min(kReceiveChain, receives_.size() / 2));
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

/// One completion covers all sends up to its own: a send queue completes in order (IBA 10.8.3.1).
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
  const auto slot = static_cast<std::uint32_t>(completion.wr_id & ~kReceiveId);
  idle_receives_.push_back(slot);
  if (completion.status != IBV_WC_SUCCESS) {
    if (completion.status != IBV_WC_WR_FLUSH_ERR) ++counters_.receive_errors;
    broken_ = true;
    receives_[slot].release();
    return false;
  }
  const bool has_lids = device_.link_layer() == LinkLayer::infiniband;
  if (!read_completion(completion, std::move(receives_[slot]), has_lids, reports_sums_,
                       out.emplace_back())) {
    ++counters_.malformed;
    out.pop_back();
    return false;
  }
  return true;
}

/// Posts all idle receives, as chains, once there are `at_least` of them.
void UdQueuePair::post_receives(std::size_t at_least) {
  while (!idle_receives_.empty() && idle_receives_.size() >= at_least && !broken_) {
    const auto filled = fill_receives();
    if (filled == 0) {
      ++counters_.receive_starved;
      return;
    }
    ibv_recv_wr* refused = nullptr;
    std::size_t posted = filled;
    if (ibv_post_recv(qp_.get(), receive_work_.data(), &refused) != 0) {
      ++counters_.post_refused;
      broken_ = true;
      posted = static_cast<std::size_t>(refused - receive_work_.data());
    }
    for (std::size_t i = posted; i < filled; ++i) {
      const auto slot = static_cast<std::uint32_t>(receive_work_[i].wr_id & ~kReceiveId);
      receives_[slot].release();
      idle_receives_.push_back(slot);
    }
  }
}

/// Builds one chain in `receive_work_`; returns its length, 0 when no frame is free.
std::size_t UdQueuePair::fill_receives() {
  std::size_t filled = 0;
  while (filled < kReceiveChain && !idle_receives_.empty()) {
    const auto slot = idle_receives_.back();
    Frame& frame = receives_[slot] = receive_pool_->take();
    if (!frame) break;
    idle_receives_.pop_back();
    frame.window(0, receive_size(max_mtu_));
    auto& piece = receive_pieces_[filled];
    piece.addr = reinterpret_cast<std::uintptr_t>(frame.bytes().data());
    piece.length = receive_size(max_mtu_);
    piece.lkey = memory_.local_key(frame.bytes().data());  // at once: it is the first region
    auto& work = receive_work_[filled];
    work.wr_id = kReceiveId | slot;
    work.next = &work + 1;
    work.sg_list = &piece;
    work.num_sge = 1;
    ++filled;
  }
  if (filled > 0) receive_work_[filled - 1].next = nullptr;
  return filled;
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
