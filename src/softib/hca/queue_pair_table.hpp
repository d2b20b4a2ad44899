// The queue pairs of an HCA, by number.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <memory>

#include "softib/core/fabric_types.hpp"
#include "softib/hca/limits.hpp"
#include "softib/hca/queue_pair.hpp"

namespace softib::hca {

class QueuePairTable {
 public:
  /// `epoch` and `slot` are part of the numbers (QpnLayout).
  QueuePairTable(std::uint32_t epoch, std::uint32_t slot) : epoch_(epoch), slot_(slot) {}

  [[nodiscard]] bool is_full() const { return size_ == kMaxQueuePairs; }
  /// Adds a queue pair. Requires that the table is not full.
  QueuePair& add(const QueuePairConfig& config, const Dependencies& hca) {
    assert(!is_full());
    // Indices are allocated round-robin, so that a number is not reused soon.
    while (qps_[next_] != nullptr) next_ = (next_ + 1) % kMaxQueuePairs;
    auto& qp = qps_[next_];
    qp = std::make_unique<QueuePair>(QpnLayout::make(epoch_, slot_, next_), config, hca);
    next_ = (next_ + 1) % kMaxQueuePairs;
    ++size_;
    return *qp;
  }
  /// Destroys a queue pair of the table.
  void remove(QueuePair& qp) {
    assert(find(qp.number()) == &qp);
    qps_[QpnLayout::index(qp.number())].reset();
    --size_;
  }
  /// The queue pair with this number, or null.
  [[nodiscard]] QueuePair* find(Qpn number) const {
    const auto& qp = qps_[QpnLayout::index(number)];
    return qp != nullptr && qp->number() == number ? qp.get() : nullptr;
  }
  /// The queue pair whose number has this index, or null.
  [[nodiscard]] const QueuePair* at(std::size_t index) const { return qps_.at(index).get(); }
  template <class Call>
  void for_each(Call call) const {
    for (const auto& qp : qps_) {
      if (qp != nullptr) call(*qp);
    }
  }

 private:
  std::uint32_t epoch_;
  std::uint32_t slot_;
  std::array<std::unique_ptr<QueuePair>, kMaxQueuePairs> qps_;  ///< by QpnLayout::index
  std::uint32_t next_ = 0;
  std::size_t size_ = 0;
};

}  // namespace softib::hca
