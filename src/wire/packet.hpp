// Headers of an InfiniBand data packet: LRH (IBA 7.7), GRH (8.3), BTH (9.2), DETH (9.3.3).
//
//   | LRH 8 | GRH 40, if LNH = 3 | BTH 12 | DETH 8 | payload, pad to 4 | ICRC 4 | VCRC 2 |
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "wire/psn.hpp"

namespace ipoib::wire {

inline constexpr std::size_t kIcrcSize = 4;
inline constexpr std::size_t kImmediateSize = 4;

struct Lrh {
  static constexpr std::size_t kSize = 8;
  static constexpr std::size_t kWord = 4;        ///< bytes that its length counts as one
  static constexpr std::uint8_t kLnhLocal = 2;   ///< BTH follows
  static constexpr std::uint8_t kLnhGlobal = 3;  ///< GRH, then BTH
  std::uint8_t virtual_lane = 0;
  ServiceLevel sl;
  std::uint8_t next_header = kLnhLocal;
  Lid dlid;
  std::uint16_t length = 0;  ///< 4-byte words from LRH to the end of the ICRC
  Lid slid;

  [[nodiscard]] static std::optional<Lrh> parse(ConstBytes bytes);
  void emit(MutableBytes to) const;
  friend bool operator==(const Lrh&, const Lrh&) = default;
};

struct Grh {
  static constexpr std::size_t kSize = 40;
  static constexpr std::uint8_t kNextHeaderIba = 0x1b;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
  std::uint16_t payload_length = 0;  ///< bytes from after the GRH to the end of the ICRC
  std::uint8_t next_header = kNextHeaderIba;
  std::uint8_t hop_limit = 0;
  Gid sgid;
  Gid dgid;

  /// Returns nullopt unless there are 40 bytes and the version is 6.
  [[nodiscard]] static std::optional<Grh> parse(ConstBytes bytes);
  void emit(MutableBytes to) const;
  friend bool operator==(const Grh&, const Grh&) = default;
};

struct Bth {
  static constexpr std::size_t kSize = 12;
  static constexpr std::uint8_t kUdSendOnly = 0x64;
  static constexpr std::uint8_t kUdSendOnlyImmediate = 0x65;
  std::uint8_t opcode = kUdSendOnly;
  bool solicited = false;
  std::uint8_t pad = 0;  ///< 0 to 3 bytes of padding after the payload
  PKey pkey;
  bool becn = false;  ///< of RoCE v2: the receiver's packets have met congestion
  Qpn destination;
  bool ack_request = false;
  Psn psn;

  [[nodiscard]] static std::optional<Bth> parse(ConstBytes bytes);
  void emit(MutableBytes to) const;
  friend bool operator==(const Bth&, const Bth&) = default;
};

struct Deth {
  static constexpr std::size_t kSize = 8;
  QKey qkey;
  Qpn source;

  [[nodiscard]] static std::optional<Deth> parse(ConstBytes bytes);
  void emit(MutableBytes to) const;
  friend bool operator==(const Deth&, const Deth&) = default;
};

/// The headers with which packets of all transport services begin, and their payload, without CRCs.
struct DataPacket {
  Lrh lrh;
  std::optional<Grh> grh;
  Bth bth;
  ConstBytes payload;  ///< without padding

  /// The opcode of a packet, or nullopt if it is too short or has other headers before the BTH. It
  /// tells which parser to try.
  [[nodiscard]] static std::optional<std::uint8_t> opcode_of(ConstBytes packet);

 protected:
  /// Reads LRH, GRH and BTH. Returns whether each is valid, and follows from the one before it.
  [[nodiscard]] bool read_route(ByteReader& reader);
  /// Sets the payload to `rest` without padding. Returns whether the lengths are those of `packet`.
  [[nodiscard]] bool read_payload(ConstBytes packet, ConstBytes rest);
  /// Sets all lengths; `extended` is the size of the headers between BTH and payload.
  void set_lengths(std::size_t extended, std::size_t payload_size);
  /// Writes LRH, GRH and BTH, and returns their size.
  std::size_t emit_route(MutableBytes to) const;
};

/// A packet of the unreliable datagram service.
struct UdPacket : DataPacket {
  static constexpr std::size_t kMaxHeaderSize =
      Lrh::kSize + Grh::kSize + Bth::kSize + Deth::kSize + kImmediateSize;
  Deth deth;
  std::optional<std::uint32_t> immediate;

  /// Parses a packet from LRH to the end of the padding. Returns nullopt unless all lengths agree
  /// with its size (LRH.length includes the ICRC), and the opcode is one of the two of UD.
  [[nodiscard]] static std::optional<UdPacket> parse(ConstBytes packet);
  /// Parses without a check of lengths: everything after the headers is payload.
  [[nodiscard]] static std::optional<UdPacket> parse_headers(ConstBytes packet);
  /// Sets the lengths and the pad count for `payload_size` bytes.
  void set_size(std::size_t payload_size);
  /// Calls set_size(), writes the headers to `to` (kMaxHeaderSize), and returns their size.
  std::size_t emit_headers(std::size_t payload_size, MutableBytes to);
};

/// ICRC (IBA 7.8.1) of a packet from LRH to the end of the padding, for little-endian order.
[[nodiscard]] std::uint32_t invariant_crc(ConstBytes packet);
/// VCRC (IBA 7.8.2) of a packet from LRH to the end of the ICRC, for little-endian order.
[[nodiscard]] std::uint16_t variant_crc(ConstBytes packet_with_icrc);

}  // namespace ipoib::wire
