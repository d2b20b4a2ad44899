// The posted receives, and the frames that they receive into.
//
// A posted receive is identified by its slot. A slot that is not posted is idle: its datagram is
// still being processed, or no frame was free.
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
  /// ibv_post_recv(3), or a function like it.
  using Post = int (*)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);
  struct Config {
    std::uint32_t depth = 0;     ///< number of receives
    std::uint32_t spare = 0;     ///< additional frames; with 0 it is normal that none is free
    std::uint32_t size = 0;      ///< bytes of each receive
    std::uint64_t id_flags = 0;  ///< in the work request id of each, in addition to its slot
    Post post = nullptr;
  };

  /// Both arguments outlive this object. The pool's memory is registered in `memory`.
  ReceiveQueue(const RegisteredMemory& memory, UdCounters& counters)
      : memory_(memory), counters_(counters) {}
  void create(const Config& config);
  /// The pool of its frames, to be registered after create().
  [[nodiscard]] FramePool& pool() { return *pool_; }
  [[nodiscard]] std::size_t depth() const { return frames_.size(); }

  /// Posts the idle slots, as chains, if there are at least `at_least` (> 0). Returns false if the
  /// queue pair refused some.
  [[nodiscard]] bool post(ibv_qp& queue_pair, std::size_t at_least);
  /// Returns the frame of the completed receive with that id, whose slot becomes idle.
  [[nodiscard]] Frame complete(std::uint64_t id);
  /// Releases all frames: the queue pair is in RESET or destroyed.
  void release_all();
  /// Posts nothing from now on.
  void stop();

 private:
  std::size_t fill_chain();
  [[nodiscard]] std::uint32_t slot_of(std::uint64_t id) const {
    return static_cast<std::uint32_t>(id & ~config_.id_flags);
  }

  const RegisteredMemory& memory_;
  UdCounters& counters_;
  Config config_;
  std::unique_ptr<FramePool> pool_;
  std::vector<Frame> frames_;  ///< by slot
  std::vector<std::uint32_t> idle_;
  std::vector<ibv_recv_wr> work_;  ///< scratch for one chain
  std::vector<ibv_sge> elements_;
};

}  // namespace ipoib::verbs
