// A posted work request of a connection.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

#include "softib/hca/limits.hpp"
#include "softib/hca/memory_objects.hpp"
#include "wire/psn.hpp"

namespace softib::hca {

using ipoib::wire::Psn;

/// What the send queue of a connection stores in addition to SendRequest.
struct ConnectedRequest {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  bool fence = false;
  std::uint64_t remote_address = 0;
  std::uint32_t remote_key = 0;
  std::uint32_t shared_queue = 0;                 ///< of the peer, in requests of XRC
  std::uint64_t operand = 0;                      ///< of an atomic operation: to swap in, or to add
  std::uint64_t compare = 0;                      ///< of compare and swap
  std::array<std::uint8_t, kAtomicBytes> word{};  ///< inline data of an atomic write
  std::uint32_t invalidated_key = 0;              ///< of IBV_WR_SEND_WITH_INV and IBV_WR_LOCAL_INV
  WindowBinding binding{};                        ///< of IBV_WR_BIND_MW
  Psn first;                                      ///< set when the request is started
  std::uint32_t packets = 0;                      ///< likewise

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

}  // namespace softib::hca
