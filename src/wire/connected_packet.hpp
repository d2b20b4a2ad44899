// Packets of the connection services: BTH, then the extended headers that the opcode names (IBA 9.2
// to 9.4, annex A14).
//
//   | LRH 8 | GRH 40, if LNH = 3 | BTH 12 | RETH 16 or AtomicETH 28 | ImmDt 4 | payload, pad to 4 |
//                                         | IETH 4, of SEND with invalidate |  payload, pad to 4 |
//                                         | AETH 4 | AtomicAckETH 8 |           payload, pad to 4 |
//
// The last line shows responses, which the unreliable service does not have. Requests of the
// extended service have an XRCETH of 4 bytes after the BTH.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "ipoib/time.hpp"
#include "wire/connected_opcode.hpp"
#include "wire/packet.hpp"

namespace ipoib::wire {

/// RDMA extended transport header (IBA 9.3.3):  | address 64 | R_Key 32 | DMA length 32 |
struct Reth {
  static constexpr std::size_t kSize = 16;
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t length = 0;  ///< bytes
  friend bool operator==(const Reth&, const Reth&) = default;
};

/// Atomic extended transport header (IBA 9.3.5):
///   | address 64 | R_Key 32 | swap or add data 64 | compare data 64 |
struct AtomicEth {
  static constexpr std::size_t kSize = 28;
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint64_t operand = 0;  ///< to swap in, or to add
  std::uint64_t compare = 0;
  friend bool operator==(const AtomicEth&, const AtomicEth&) = default;
};

/// ACK extended transport header (IBA 9.7.5.2):  | 0 1, kind 2, value 5 | MSN 24 |
struct Aeth {
  static constexpr std::size_t kSize = 4;
  enum class Kind : std::uint8_t { ack = 0, rnr_nak = 1, reserved = 2, nak = 3 };
  /// Values of a NAK (IBA table 45).
  static constexpr std::uint8_t kSequenceError = 0;
  static constexpr std::uint8_t kInvalidRequest = 1;
  static constexpr std::uint8_t kRemoteAccessError = 2;
  static constexpr std::uint8_t kRemoteOperationError = 3;
  /// Value of an ACK without end-to-end credits (IBA 9.7.7.2).
  static constexpr std::uint8_t kNoCredits = 0x1f;

  Kind kind = Kind::ack;
  std::uint8_t value = kNoCredits;  ///< credits, timer code, or NAK code; 5 bits
  std::uint32_t msn = 0;            ///< 24 bits: messages completed by the responder
  friend bool operator==(const Aeth&, const Aeth&) = default;
};

/// How long a requester waits after an RNR NAK with this timer code, of 5 bits (IBA table 46).
[[nodiscard]] Duration rnr_delay(std::uint8_t code);

/// A packet of one of these services. The opcode of its BTH is set by emit_headers().
struct ConnectedPacket : DataPacket {
  /// XRC extended transport header: | 0 8 | number of the shared receive queue 24 |
  static constexpr std::size_t kXrcEthSize = 4;
  static constexpr std::size_t kMaxHeaderSize =
      Lrh::kSize + Grh::kSize + Bth::kSize + kXrcEthSize + AtomicEth::kSize;
  ConnectedService service = ConnectedService::reliable;
  ConnectedOpcode opcode = ConnectedOpcode::acknowledge;
  std::uint32_t packets = 1;          ///< number that it stands for; not on the wire
  std::uint32_t shared_queue = 0;     ///< of requests of the extended service
  Reth reth;                          ///< of the opcodes that have one
  Aeth aeth;                          ///< of the opcodes that have one
  AtomicEth atomic;                   ///< of the opcodes that have one
  std::uint64_t original = 0;         ///< what an atomic operation has found
  std::uint32_t immediate = 0;        ///< of the opcodes that have one
  std::uint32_t invalidated_key = 0;  ///< of the IETH: an R_Key (IBA 9.3.7)

  /// Parses a packet from LRH to the end of the padding. Returns nullopt unless all lengths agree
  /// with its size (LRH.length includes the ICRC), and its service has the opcode.
  [[nodiscard]] static std::optional<ConnectedPacket> parse(ConstBytes packet);
  /// Parses without a check of lengths: everything after the headers is payload.
  [[nodiscard]] static std::optional<ConnectedPacket> parse_headers(ConstBytes packet);
  /// The number of bytes that emit_headers() writes.
  [[nodiscard]] std::size_t header_size() const;
  /// Sets the lengths and the pad count for `payload_size` bytes, writes the headers, and returns
  /// their size. `to` has room for kMaxHeaderSize.
  std::size_t emit_headers(std::size_t payload_size, MutableBytes to);
};

}  // namespace ipoib::wire
