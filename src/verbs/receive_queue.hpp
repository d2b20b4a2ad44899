// Receives that are posted, and the frames to which they receive.
//
// A posted receive is named by its slot. The slots that are not posted are idle: their datagrams
// are looked at, or no frame was free.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "ipoib/frame.hpp"
#include "verbs/registered_memory.hpp"
#include "verbs/ud_values.hpp"

namespace ipoib::verbs {

class ReceiveQueue {
 public:
  /// As ibv_post_recv(3).
  using Post = int (*)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);
  struct Shape {
    std::uint32_t depth = 0;   ///< receives
    std::uint32_t spare = 0;   ///< frames beyond them; 0: there may be none for a while
    std::uint32_t octets = 0;  ///< of each receive
    std::uint64_t mark = 0;    ///< in the id of each, beside its slot
    Post post = nullptr;
  };

  /// Both outlive it; `memory` is that of its pool, too.
  ReceiveQueue(const RegisteredMemory& memory, UdCounters& counters)
      : memory_(memory), counters_(counters) {}
  void make(const Shape& shape);
  /// Its frames, to be registered once it is made.
  [[nodiscard]] FramePool& pool() { return *pool_; }
  [[nodiscard]] std::size_t depth() const { return frames_.size(); }

  /// Posts the idle ones, as chains, once there are `at_least` of them, or 1. False: the queue pair
  /// has refused some.
  [[nodiscard]] bool post(ibv_qp& queue_pair, std::size_t at_least);
  /// The frame of the receive with that id, which is complete: idle now.
  [[nodiscard]] Frame complete(std::uint64_t id);
  /// Gives back all frames: the queue pair is in RESET or gone.
  void take_back();
  /// From now on none is posted.
  void stop();

 private:
  std::size_t fill_chain();
  [[nodiscard]] std::uint32_t slot_of(std::uint64_t id) const {
    return static_cast<std::uint32_t>(id & ~shape_.mark);
  }

  const RegisteredMemory& memory_;
  UdCounters& counters_;
  Shape shape_;
  std::unique_ptr<FramePool> pool_;
  std::vector<Frame> frames_;  ///< by slot
  std::vector<std::uint32_t> idle_;
  std::vector<ibv_recv_wr> work_;  ///< scratch for one chain
  std::vector<ibv_sge> pieces_;
};

}  // namespace ipoib::verbs
