// The attributes of a connection, which ibv_modify_qp() sets (IBA 11.2.5.2).
#pragma once

#include <infiniband/verbs.h>

#include "ipoib/time.hpp"
#include "softib/core/packet_sink.hpp"
#include "wire/connected_packet.hpp"

namespace softib::hca {

class QueuePair;

struct ConnectionAttributes {
  ibv_ah_attr path{};
  ibv_mtu path_mtu = IBV_MTU_256;
  std::uint8_t packet_mtu = IBV_MTU_256;  ///< IBA code: not more than that of the link
  Qpn peer;
  int access = 0;                       ///< IBV_ACCESS_REMOTE_*: what the peer may do
  std::uint32_t receive_psn = 0;        ///< the first PSN of the peer's requests
  std::uint32_t send_psn = 0;           ///< the first PSN of our requests
  std::uint8_t max_sent_reads = 0;      ///< max_rd_atomic
  std::uint8_t max_received_reads = 0;  ///< max_dest_rd_atomic
  std::uint8_t min_rnr_timer = 0;       ///< code of wire::rnr_delay()
  std::uint8_t timeout = 0;             ///< code: 4.096 us * 2^timeout; 0: none
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;

  /// Takes over the attributes of `mask`. As other adapters do, it accepts a path MTU beyond that
  /// of the link, since programs pass the largest one; packets are as small as the link needs.
  void apply(const ibv_qp_attr& attr, int mask, std::uint8_t link_mtu);
  /// Fills in what ibv_query_qp() reports.
  void report(ibv_qp_attr& attr) const;
  /// Bytes of payload of a packet that is not the last of its message.
  [[nodiscard]] std::uint32_t mtu() const;
  /// How long to wait for an acknowledgement; zero for ever.
  [[nodiscard]] ipoib::Duration ack_timeout() const;
};

/// The number of packets of a message of `length` bytes, with `mtu` bytes in each but the last.
[[nodiscard]] constexpr std::uint32_t packet_count(std::uint32_t length, std::uint32_t mtu) {
  return length == 0 ? 1 : (length - 1) / mtu + 1;
}

/// Completes the headers of a packet or a run of `from`, the payload of which is in `out`, and
/// writes them there. The caller has set service, opcode, PSN, number of packets, and the fields of
/// the opcode.
void write_headers(ipoib::wire::ConnectedPacket& packet, const ConnectionAttributes& attributes,
                   const QueuePair& from, const PortAttributes& port, OutgoingPacket& out);

/// Writes the packet that tells the peer of `from` of congestion.
void write_notification(const ConnectionAttributes& attributes, const QueuePair& from,
                        const PortAttributes& port, OutgoingPacket& out);

/// Whether a port can carry a connection with the attributes of `mask`: their ranges, the path and
/// its MTU.
[[nodiscard]] bool are_valid_connection_attributes(const ibv_qp_attr& attr, int mask,
                                                   const PortAttributes& port);

}  // namespace softib::hca
