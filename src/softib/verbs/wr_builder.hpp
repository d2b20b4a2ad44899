// Builds work requests call by call: ibv_wr_start() ... ibv_wr_complete() (ibv_wr_post(3)).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "ipoib/bytes.hpp"

namespace softib::verbs {

/// The requests built since start(), to be posted together or not at all. Remembers the first
/// error, such as a setter without a request, or too much inline data.
class WrBuilder {
 public:
  void start();
  void begin(ibv_wr_opcode opcode, std::uint64_t id, unsigned flags, __be32 immediate = 0);
  /// Sets the headers of IBV_WR_TSO, which are copied, and the segment size in bytes of payload.
  void set_segments(ipoib::ConstBytes headers, std::uint16_t size);
  void fail(int error);

  /// Sets the memory of an RDMA operation.
  void set_remote(std::uint32_t key, std::uint64_t address);
  void set_atomic(std::uint32_t key, std::uint64_t address, std::uint64_t compare_add,
                  std::uint64_t swap);
  void set_invalidated(std::uint32_t key);
  void set_binding(ibv_mw* window, std::uint32_t key, const ibv_mw_bind_info& info);
  /// Sets the peer's shared receive queue, of XRC.
  void set_shared_queue(std::uint32_t number);
  void set_destination(ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey);
  void set_elements(std::size_t count, const ibv_sge* elements);
  /// Copies the data. `limit` is the queue pair's max_inline_data.
  void set_inline(std::size_t count, const ibv_data_buf* buffers, std::size_t limit);

  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] std::size_t size() const { return built_.size(); }
  /// The chain of requests, valid until the next start(); null if there are none.
  [[nodiscard]] ibv_send_wr* chain();

 private:
  struct Built {
    ibv_send_wr request{};
    std::vector<ibv_sge> elements;
    std::vector<std::uint8_t> headers;
    std::vector<std::uint8_t> data;
  };
  std::deque<Built> built_;
  int error_ = 0;
};

}  // namespace softib::verbs
