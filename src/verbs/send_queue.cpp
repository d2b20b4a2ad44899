// Hot path: nothing here allocates, blocks or logs.
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
static_assert(SendQueue::kMaxTsoHeaders ==
              wire::kEncapsulationSize + wire::Ipv6Header::kSize + wire::tcp::kMaximumSize);

namespace {

/// Whether the device segments the packet (TSO).
bool uses_tso(const Frame& frame, const SendQueue::Target& to) {
  return to.checksum_offload && frame.is_large() &&
         frame.size() - frame.segmentation().payload <= to.max_tso &&
         offload::has_plain_headers(frame, wire::kEncapsulationSize);
}

}  // namespace

void SendQueue::create(std::uint32_t depth, Frame&& headers) {
  sends_.resize(depth);
  work_.resize(depth);
  elements_.resize(std::size_t{2} * depth);
  headers_ = std::move(headers);
  headers_.window(0, headers_.capacity());
}

SendQueue::Sent SendQueue::send(std::span<Outgoing> batch, const Target& to) {
  const auto chain = fill_chain(batch, to);
  if (chain.length == 0) return {};
  auto& last = work_[chain.length - 1];
  last.next = nullptr;
  const bool is_signalled = to.always_signal || unsignalled_ + chain.datagrams >= kSignalPeriod;
  if (is_signalled) last.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  if (ibv_post_send(&to.queue_pair, work_.data(), &refused) == 0) {
    unsignalled_ = is_signalled ? 0 : unsignalled_ + chain.datagrams;
    return {hold_posted(batch, chain.length)};
  }
  ++counters_.post_refused;
  return {hold_posted(batch, static_cast<std::size_t>(refused - work_.data())), true};
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

/// Builds work requests for as many packets from the front of `batch` as there is room for.
SendQueue::Chain SendQueue::fill_chain(std::span<const Outgoing> batch, const Target& to) {
  const auto room = sends_.size() - in_flight();
  Chain chain;
  for (const auto& datagram : batch) {
    const bool is_tso = uses_tso(datagram.frame, to);
    const auto wanted = is_tso ? 1 : datagram.frame.datagrams();
    assert(wanted <= sends_.size() && "the send queue can never hold this packet");
    if (chain.length + wanted > room) {
      ++counters_.send_queue_full;
      break;
    }
    if (is_tso) {
      fill_tso(datagram, to, chain.length);
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

ibv_send_wr& SendQueue::begin_work(const Outgoing& datagram, const Target& to, std::size_t index) {
  auto& work = work_[index];
  work = {};
  work.wr_id = head_ + index;
  work.next = &work + 1;
  work.sg_list = &elements_[2 * index];
  work.opcode = IBV_WR_SEND;
  work.wr.ud.ah = static_cast<const VerbsAddressHandle&>(*datagram.to).get();
  work.wr.ud.remote_qpn = datagram.qpn.value();
  // With the top bit set, the queue pair's own Q_Key is used, which is the link's (IBA 10.2.5).
  work.wr.ud.remote_qkey = to.qkey.value();
  return work;
}

ibv_sge SendQueue::element(ConstBytes bytes) const {
  return {reinterpret_cast<std::uintptr_t>(bytes.data()), static_cast<std::uint32_t>(bytes.size()),
          memory_.local_key(bytes.data())};
}

void SendQueue::fill_send(const Outgoing& datagram, const Target& to, std::size_t index) {
  auto& work = begin_work(datagram, to, index);
  work.sg_list[0] = element(datagram.frame.bytes());
  work.num_sge = 1;
  if (datagram.frame.size() <= to.max_inline) work.send_flags = IBV_SEND_INLINE;
}

void SendQueue::fill_tso(const Outgoing& datagram, const Target& to, std::size_t index) {
  const auto bytes = datagram.frame.bytes();
  const auto& how = datagram.frame.segmentation();
  auto& work = begin_work(datagram, to, index);
  work.opcode = IBV_WR_TSO;
  work.send_flags = IBV_SEND_IP_CSUM;
  work.tso.hdr = const_cast<std::uint8_t*>(bytes.data());  // verbs only read it
  work.tso.hdr_sz = how.payload;
  work.tso.mss = how.size;
  work.sg_list[0] = element(bytes.subspan(how.payload));
  work.num_sge = 1;
}

void SendQueue::fill_segments(const Outgoing& datagram, const Target& to, std::size_t index) {
  // A device with TSO was probed with TSO alone, so its checksums are trusted only there.
  const bool checksum_offload = to.checksum_offload && to.max_tso == 0;
  auto segmenter =
      offload::make_segmenter(datagram.frame, wire::kEncapsulationSize, checksum_offload);
  for (; !segmenter.done(); ++index) {
    const auto slot = slot_of(head_ + index);
    const auto header = headers_.bytes().subspan(slot * kHeaderSlot, segmenter.header_size());
    const auto payload = segmenter.next(header.data());
    auto& work = begin_work(datagram, to, index);
    work.sg_list[0] = element(header);
    work.sg_list[1] = element(payload);
    work.num_sge = 2;
    if (!segmenter.computes_checksums()) work.send_flags |= IBV_SEND_IP_CSUM;
  }
}

/// Takes the packets of the first `posted` work requests from the front of `batch`, and returns
/// their number. A packet that was posted in part is taken, too: its queue pair is broken.
std::size_t SendQueue::hold_posted(std::span<Outgoing> batch, std::size_t posted) {
  std::size_t packets = 0;
  for (std::size_t done = 0; done < posted; ++packets) {
    auto& datagram = batch[packets];
    const bool is_tso = work_[done].opcode == IBV_WR_TSO;
    done = std::min(done + (is_tso ? 1 : datagram.frame.datagrams()), posted);
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
