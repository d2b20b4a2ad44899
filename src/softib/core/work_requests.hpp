// What an HCA keeps of the work requests that are posted to it.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "softib/core/hca_memory.hpp"
#include "softib/core/packet_sink.hpp"
#include "wire/segment_headers.hpp"

namespace softib {

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
  std::uint32_t length = 0;       ///< octets of payload that have been made into packets
  std::uint16_t tso_header = 0;   ///< octets of the headers of a large send; 0: it is none
  std::uint16_t tso_size = 0;     ///< octets of payload of each segment
  std::uint32_t tso_payload = 0;  ///< octets of payload in all
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

/// How far the octets that scatter elements name have been taken.
struct ElementPlace {
  std::uint32_t element = 0;
  std::uint32_t offset = 0;  ///< in it
};

/// A large send of which some segments are made, and some are not.
struct LargeSend {
  ipoib::wire::SegmentHeaders headers;
  ElementPlace next;
};

/// Adds the octets that `elements` name from `from` on to a packet, `octets` of them or all.
/// IBV_WC_LOC_PROT_ERR: they are not in memory of `pd`.
[[nodiscard]] ibv_wc_status gather_elements(std::span<const ibv_sge> elements, ElementPlace& from,
                                            std::size_t octets, const MemoryTable& memory,
                                            const ProtectionDomain* pd, OutgoingPacket& out);

}  // namespace softib
