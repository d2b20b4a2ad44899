// Hot: nothing here allocates, blocks or logs.
#include "verbs/send_queue.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "offload/segmenter.hpp"
#include "verbs/verbs_address_handle.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv6.hpp"
#include "wire/transport.hpp"

namespace ipoib::verbs {

static_assert(SendQueue::kHeaderSlot >= wire::kEncapsulationSize + offload::kMaxHeaders);
static_assert(SendQueue::kMaxLargeHeaders ==
              wire::kEncapsulationSize + wire::Ipv6Header::kSize + wire::tcp::kMaximumSize);

namespace {

bool is_cut_by_device(const Frame& frame, const SendQueue::Target& to) {
  return to.sums_up && frame.is_large() &&
         frame.size() - frame.segmentation().payload <= to.large_octets &&
         offload::is_plain(frame, wire::kEncapsulationSize);
}

/// Work requests.
std::size_t sends_for(const Frame& frame, const SendQueue::Target& to) {
  return is_cut_by_device(frame, to) ? 1 : frame.datagrams();
}

}  // namespace

void SendQueue::make(std::uint32_t depth, Frame&& headers) {
  sends_.resize(depth);
  work_.resize(depth);
  elements_.resize(std::size_t{2} * depth);
  headers_ = std::move(headers);
  headers_.window(0, headers_.capacity());
}

std::size_t SendQueue::send(std::span<Outgoing> batch, const Target& to, bool& accepted) {
  const auto chain = fill_chain(batch, to);
  if (chain.length == 0) return 0;
  auto& last = work_[chain.length - 1];
  last.next = nullptr;
  const bool is_signalled = to.reports || uncovered_ + chain.datagrams >= kSignalPeriod;
  if (is_signalled) last.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  accepted = ibv_post_send(&to.queue_pair, work_.data(), &refused) == 0;
  if (accepted) {
    uncovered_ = is_signalled ? 0 : uncovered_ + chain.datagrams;
    return hold_posted(batch, to, chain.length);
  }
  ++counters_.post_refused;
  return hold_posted(batch, to, static_cast<std::size_t>(refused - work_.data()));
}

std::size_t SendQueue::complete(std::uint64_t number) {
  const auto before = tail_;
  for (; tail_ <= number && tail_ < head_; ++tail_) {
    auto& slot = sends_[slot_of(tail_)];
    slot.to.reset();
    slot.frame.release();
  }
  return tail_ - before;
}

/// As many from the front of `batch` as there is room for.
SendQueue::Chain SendQueue::fill_chain(std::span<const Outgoing> batch, const Target& to) {
  const auto room = sends_.size() - in_flight();
  Chain chain;
  for (const auto& datagram : batch) {
    const auto wanted = sends_for(datagram.frame, to);
    assert(wanted <= sends_.size() && "it would wait for ever");
    if (chain.length + wanted > room) {
      ++counters_.send_queue_full;
      break;
    }
    if (is_cut_by_device(datagram.frame, to)) {
      fill_large(datagram, to, chain.length);
    } else if (datagram.frame.is_large()) {
      fill_segments(datagram, to, chain.length);
    } else {
      fill_send(datagram, to, chain.length);
    }
    if (datagram.frame.is_large()) {
      ++counters_.large_packets;
      counters_.segments += datagram.frame.datagrams();
    }
    chain.length += wanted;
    chain.datagrams += datagram.frame.datagrams();
  }
  return chain;
}

ibv_send_wr& SendQueue::begin_work(const Outgoing& datagram, const Target& to, std::size_t place) {
  auto& work = work_[place];
  work = {};
  work.wr_id = head_ + place;
  work.next = &work + 1;
  work.sg_list = &elements_[2 * place];
  work.opcode = IBV_WR_SEND;
  work.wr.ud.ah = static_cast<const VerbsAddressHandle&>(*datagram.to).get();
  work.wr.ud.remote_qpn = datagram.qpn.value();
  // The link's Q_Key is that of the queue pair: the top bit set means "use it" (IBA 10.2.5).
  work.wr.ud.remote_qkey = to.qkey.value();
  return work;
}

ibv_sge SendQueue::element(ConstBytes bytes) const {
  return {reinterpret_cast<std::uintptr_t>(bytes.data()), static_cast<std::uint32_t>(bytes.size()),
          memory_.local_key(bytes.data())};
}

void SendQueue::fill_send(const Outgoing& datagram, const Target& to, std::size_t place) {
  auto& work = begin_work(datagram, to, place);
  work.sg_list[0] = element(datagram.frame.bytes());
  work.num_sge = 1;
  if (datagram.frame.size() <= to.inline_octets) work.send_flags = IBV_SEND_INLINE;
}

void SendQueue::fill_large(const Outgoing& datagram, const Target& to, std::size_t place) {
  const auto bytes = datagram.frame.bytes();
  const auto& how = datagram.frame.segmentation();
  auto& work = begin_work(datagram, to, place);
  work.opcode = IBV_WR_TSO;
  work.send_flags = IBV_SEND_IP_CSUM;
  work.tso.hdr = const_cast<std::uint8_t*>(bytes.data());  // which verbs only read
  work.tso.hdr_sz = how.payload;
  work.tso.mss = how.size;
  work.sg_list[0] = element(bytes.subspan(how.payload));
  work.num_sge = 1;
}

void SendQueue::fill_segments(const Outgoing& datagram, const Target& to, std::size_t place) {
  // Who cuts has shown that it sums up what it cuts, and nothing of other sends.
  const bool device_sums = to.sums_up && to.large_octets == 0;
  auto segmenter = offload::segmenter_of(datagram.frame, wire::kEncapsulationSize, device_sums);
  for (; !segmenter.done(); ++place) {
    const auto slot = slot_of(head_ + place);
    const auto header = headers_.bytes().subspan(slot * kHeaderSlot, segmenter.header_size());
    const auto payload = segmenter.next(header.data());
    auto& work = begin_work(datagram, to, place);
    work.sg_list[0] = element(header);
    work.sg_list[1] = element(payload);
    work.num_sge = 2;
    if (!segmenter.sums_up()) work.send_flags |= IBV_SEND_IP_CSUM;
  }
}

/// Takes what belongs to the first `posted` sends from the front of `batch`; returns how many
/// packets these are. One of which only a part was posted goes with its queue pair, which is
/// broken.
std::size_t SendQueue::hold_posted(std::span<Outgoing> batch, const Target& to,
                                   std::size_t posted) {
  std::size_t packets = 0;
  for (std::size_t done = 0; done < posted; ++packets) {
    auto& datagram = batch[packets];
    done = std::min(done + sends_for(datagram.frame, to), posted);
    auto& slot = sends_[slot_of(head_ + done - 1)];
    slot.to = std::move(datagram.to);
    if ((work_[done - 1].send_flags & IBV_SEND_INLINE) != 0) {
      datagram.frame.release();
    } else {
      slot.frame = std::move(datagram.frame);
    }
  }
  head_ += posted;
  return packets;
}

}  // namespace ipoib::verbs
