// Consecutive packets of one message of a connection, or of one READ response, that are sent as
// one: a run. So most of what a packet costs is paid once for a run, and its payload is copied at
// once.
//
//   A run:   | LRH to the extended headers of a message of these packets | payload |
//
// Its opcode says whether the message begins and ends with it, its PSN is that of the first packet.
// Its length fields are not valid, and it has no padding. All packets but the last have the path
// MTU. The receiver handles a run as one if it comes as expected, else packet by packet.
#pragma once

#include <optional>

#include "softib/core/packet_sink.hpp"
#include "wire/connected_packet.hpp"

namespace softib {

/// Payload of a run. A receiver works on one while the next is written.
inline constexpr std::uint32_t kRunBytes = 1U << 14;

class PacketRun {
 public:
  using ConnectedPacket = ipoib::wire::ConnectedPacket;

  /// Parses a run. Returns nullopt if it is no run, or malformed: `gso` must agree with the
  /// payload.
  [[nodiscard]] static std::optional<PacketRun> parse(ConstBytes bytes, GsoInfo gso);
  [[nodiscard]] const ConnectedPacket& whole() const { return whole_; }
  /// Bytes of payload of all packets but the last.
  [[nodiscard]] std::uint32_t mtu() const { return mtu_; }
  /// The packet with this index; its lengths are not valid.
  [[nodiscard]] ConnectedPacket packet(std::uint32_t index) const;
  /// The headers of the packet with this index of a run; its lengths are not valid.
  [[nodiscard]] static ConnectedPacket headers_of_part(const ConnectedPacket& whole,
                                                       std::uint32_t packets, std::uint32_t index);
  /// Bytes of all packets, LRH to padding.
  [[nodiscard]] std::size_t segmented_size() const {
    return segmented_size(whole_, whole_.payload.size(), mtu_);
  }
  /// The same size for a run, or a packet, that is to be sent: its headers, and the size of its
  /// payload.
  [[nodiscard]] static std::size_t segmented_size(const ConnectedPacket& headers,
                                                  std::size_t payload, std::uint32_t mtu);

 private:
  PacketRun(const ConnectedPacket& whole, std::uint32_t mtu) : whole_(whole), mtu_(mtu) {}

  ConnectedPacket whole_;
  std::uint32_t mtu_;
};

}  // namespace softib
