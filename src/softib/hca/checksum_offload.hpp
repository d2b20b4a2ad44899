// What an HCA does for IBV_SEND_IP_CSUM (IBV_DEVICE_UD_IP_CSUM).
#pragma once

#include "softib/core/packet_sink.hpp"

namespace softib::hca {

/// Computes the checksums of an IPoIB datagram (RFC 4391, 6) whose payload is in the pieces: those
/// of IPv4 and of the TCP or UDP in it, or of the TCP or UDP right behind an IPv6 header. What is
/// in their places counts for nothing. Anything else, fragments too, is left as it is.
void offload_checksums(OutgoingPacket& packet);

}  // namespace softib::hca
