// Checksum offload for IBV_SEND_IP_CSUM (IBV_DEVICE_UD_IP_CSUM).
#pragma once

#include "softib/core/packet_sink.hpp"

namespace softib::hca {

/// Computes the checksums of an IPoIB datagram (RFC 4391, 6) in the pieces: of the IPv4 header, and
/// of TCP or UDP directly after the IP header. Their previous values are ignored. Other packets,
/// including fragments, stay unchanged.
void offload_checksums(OutgoingPacket& packet);

}  // namespace softib::hca
