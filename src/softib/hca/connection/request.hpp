// A posted work request of a connection.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "softib/hca/connection/attributes.hpp"
#include "softib/hca/memory_objects.hpp"
#include "wire/psn.hpp"

namespace softib::hca {

using ipoib::wire::Psn;

/// The part of a request that the send queue of a connection stores in addition to SendRequest.
struct ConnectedRequest {
  ibv_wr_opcode opcode{};
  bool fence = false;
  std::uint64_t remote_address = 0;
  std::uint32_t remote_key = 0;
  std::uint32_t shared_queue = 0;     ///< of the peer, in requests of XRC
  std::uint64_t operand = 0;          ///< of an atomic operation: to swap in, or to add
  std::uint64_t compare = 0;          ///< of compare and swap
  std::uint32_t invalidated_key = 0;  ///< of IBV_WR_SEND_WITH_INV and IBV_WR_LOCAL_INV
  WindowBinding binding{};            ///< of IBV_WR_BIND_MW
  Psn first;                          ///< set when the request is started, unless it is local
  std::uint32_t packets = 0;          ///< set when the request is started, unless it is local

  /// Takes over a work request. Requires is_valid_request().
  void set(const ibv_send_wr& wr, bool is_extended);

  [[nodiscard]] bool is_read() const { return opcode == IBV_WR_RDMA_READ; }
  [[nodiscard]] bool is_atomic() const {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  [[nodiscard]] bool is_atomic_write() const { return opcode == IBV_WR_ATOMIC_WRITE; }
  /// Whether it has a response instead of an acknowledgement.
  [[nodiscard]] bool has_response() const { return is_read() || is_atomic() || is_atomic_write(); }
  /// Whether it is executed by the HCA alone, and sends nothing.
  [[nodiscard]] bool is_local() const {
    return opcode == IBV_WR_BIND_MW || opcode == IBV_WR_LOCAL_INV;
  }
};

/// Whether a connection of this type may send the work request, which has `length` bytes.
[[nodiscard]] bool is_valid_request(const ibv_send_wr& wr, std::uint64_t length, ibv_qp_type type,
                                    const ConnectionAttributes& attributes);
/// The opcode of its completion.
[[nodiscard]] ibv_wc_opcode completion_opcode(ibv_wr_opcode opcode);

}  // namespace softib::hca
