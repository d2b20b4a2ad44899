// Posted work requests as the HCA stores them.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "softib/hca/memory_table.hpp"
#include "softib/hca/work_queue.hpp"

namespace softib::hca {

struct SendRequest {
  std::uint64_t id = 0;
  ibv_wc_opcode opcode{};  ///< of its completion
  ibv_ah_attr to{};
  const ProtectionDomain* to_pd = nullptr;  ///< of the address handle
  Qpn destination;
  QKey qkey;
  std::uint32_t immediate = 0;  ///< host order
  std::uint32_t element_count = 0;
  std::uint32_t length = 0;      ///< bytes of payload, without the headers of a large send
  std::uint16_t tso_header = 0;  ///< bytes of headers of a large send; 0: not a large send
  std::uint16_t tso_size = 0;    ///< bytes of payload per segment
  bool with_immediate = false;
  bool is_inline = false;
  bool signalled = false;
  bool solicited = false;
  bool ip_checksums = false;  ///< the HCA computes them
};

struct ReceiveRequest {
  std::uint64_t id = 0;
  std::uint32_t element_count = 0;
};
using ReceiveQueue = WorkQueue<ReceiveRequest>;
/// Whether a receive takes one datagram, or a large packet as a whole (softibdv.h).
enum class ReceiveKind : std::uint8_t { datagram, large };

}  // namespace softib::hca
