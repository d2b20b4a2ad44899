// What an HCA keeps of the work requests that are posted to it.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "softib/core/packet_sink.hpp"
#include "softib/hca/hca_memory.hpp"
#include "softib/hca/work_queue.hpp"

namespace softib::hca {

/// What a send keeps of its work request.
struct SendRequest {
  std::uint64_t id = 0;
  ibv_ah_attr to{};
  const ProtectionDomain* to_domain = nullptr;
  Qpn destination;
  QKey qkey;
  std::uint32_t immediate = 0;  ///< host order
  std::uint32_t element_count = 0;
  std::uint32_t inline_size = 0;
  std::uint32_t length = 0;      ///< octets of payload
  std::uint16_t tso_header = 0;  ///< octets of the headers of a large send; 0: it is none
  std::uint16_t tso_size = 0;    ///< octets of payload of each segment
  bool with_immediate = false;
  bool is_inline = false;
  bool signalled = false;
  bool solicited = false;
  bool ip_checksums = false;  ///< are computed by the HCA
};

struct ReceiveRequest {
  std::uint64_t id = 0;
  std::uint32_t element_count = 0;
};
using ReceiveQueue = WorkQueue<ReceiveRequest>;
/// What a receive is for: one datagram, or all those that a large packet stands for (softibdv.h).
enum class ReceiveKind : std::uint8_t { datagram, large };

/// Adds the octets that `elements` name to a packet. IBV_WC_LOC_PROT_ERR: they are not in memory of
/// `pd`.
[[nodiscard]] ibv_wc_status gather_elements(std::span<const ibv_sge> elements,
                                            const MemoryTable& memory, const ProtectionDomain* pd,
                                            OutgoingPacket& out);

}  // namespace softib::hca
