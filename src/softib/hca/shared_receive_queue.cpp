#include "softib/hca/shared_receive_queue.hpp"

#include <cassert>
#include <cerrno>

#include "softib/hca/limits.hpp"

namespace softib::hca {

namespace {

/// Moves the oldest receive of a queue to one with at least as many elements.
void move_oldest(ReceiveQueue& from, ReceiveQueue& to) {
  const auto source = from.processed();
  const auto& request = from.at(source);
  to.post(request, from.elements(source).first(request.element_count));
  from.advance(1);
  from.retire(source);
}

}  // namespace

SharedReceiveQueue::SharedReceiveQueue(const SharedReceiveQueueConfig& config)
    : config_(config), receives_(config.attributes.max_wr, config.attributes.max_sge) {}

int SharedReceiveQueue::enqueue(const ibv_recv_wr& wr) {
  const auto count = static_cast<std::uint32_t>(wr.num_sge);
  if (wr.num_sge < 0 || count > attributes().max_sge) return EINVAL;
  if (receives_.full()) return ENOMEM;
  receives_.post({wr.wr_id, count}, {wr.sg_list, count});
  return 0;
}

bool SharedReceiveQueue::move_oldest_to(ReceiveQueue& queue) {
  assert(waiting() != 0);
  move_oldest(receives_, queue);
  if (waiting() >= attributes().srq_limit) return false;
  config_.attributes.srq_limit = 0;
  return true;
}

bool SharedReceiveQueue::modify(const ibv_srq_attr& attr, int mask) {
  constexpr int kKnown = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
  const auto max = (mask & IBV_SRQ_MAX_WR) != 0 ? attr.max_wr : attributes().max_wr;
  const auto limit = (mask & IBV_SRQ_LIMIT) != 0 ? attr.srq_limit : attributes().srq_limit;
  if ((mask & ~kKnown) != 0 || max == 0 || max > kMaxQueueWr || max < waiting() || limit > max) {
    return false;
  }
  if (max != attributes().max_wr) resize(max);
  config_.attributes.srq_limit = limit;
  return true;
}

void SharedReceiveQueue::resize(std::uint32_t limit) {
  ReceiveQueue larger(limit, attributes().max_sge);
  while (waiting() != 0) move_oldest(receives_, larger);
  receives_ = std::move(larger);
  config_.attributes.max_wr = limit;
}

}  // namespace softib::hca
