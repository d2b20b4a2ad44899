// The headers of the packets of a connection.
#pragma once

#include "softib/core/packet_sink.hpp"
#include "softib/hca/connection/attributes.hpp"
#include "wire/connected_packet.hpp"

namespace softib::hca {

/// Completes the headers of a packet or a run, the payload of which is in `out`, and writes them
/// there. The caller has set service, opcode, PSN, number of packets, and the fields of the opcode.
void write_headers(ipoib::wire::ConnectedPacket& packet, const ConnectionAttributes& attributes,
                   const PortAttributes& port, std::uint16_t pkey_index, OutgoingPacket& out);

}  // namespace softib::hca
