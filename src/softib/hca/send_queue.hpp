// A send queue: the posted sends, their scatter elements, and the bytes that were copied when they
// were posted (inline data, or the headers of a large send).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "softib/hca/work_queue.hpp"
#include "softib/hca/work_requests.hpp"

namespace softib::hca {

class SendQueue : public WorkQueue<SendRequest> {
 public:
  /// Each send has room for `max_copied` bytes.
  SendQueue(const ibv_qp_cap& cap, std::uint32_t max_copied)
      : WorkQueue(cap.max_send_wr, cap.max_send_sge),
        stride_(max_copied),
        copied_(ring_size() * stride_) {}

  /// The copied bytes of the send at `position`.
  [[nodiscard]] std::uint8_t* copied(std::uint32_t position) {
    return &copied_[index(position) * stride_];
  }

 private:
  std::size_t stride_;  ///< bytes
  std::vector<std::uint8_t> copied_;
};

}  // namespace softib::hca
