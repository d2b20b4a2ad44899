// Segmentation for IBV_WR_TSO: a large IPoIB packet (RFC 4391, 6) with TCP or UDP directly after
// the IP header. The large packet is sent as one, and the receiver segments it when it copies the
// payload, which then passes through its cache anyway.
//
// A large packet:   | LRH to DETH | encapsulation 4 | IPv4 or IPv6 | TCP or UDP | payload |
// Its length fields are not valid, and it has no padding.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "offload/segmenter.hpp"
#include "softib/core/packet_sink.hpp"

namespace softib {

inline constexpr std::uint32_t kMaxTso = 65536;        ///< bytes of payload of a large send
inline constexpr std::uint32_t kMaxTsoHeader = 256;    ///< bytes of its headers
inline constexpr std::uint32_t kMaxTsoSegments = 256;  ///< segments of a large send
/// Maximum size of a large packet, from the LRH.
inline constexpr std::size_t kMaxLargePacketBytes =
    ipoib::wire::UdPacket::kMaxHeaderSize + kMaxTsoHeader + kMaxTso;

/// Plans the segmentation of a message that begins with `front`; nullopt if it cannot be segmented.
[[nodiscard]] std::optional<ipoib::Segmentation> plan_gso(ConstBytes front, std::uint16_t size);

/// Reads a large packet segment by segment, or as a whole. Validates all input.
class LargePacket {
 public:
  /// Requires that `from.gso.size` is not 0. `from.bytes` must outlive this object.
  explicit LargePacket(const ArrivedPacket& from);
  LargePacket(const LargePacket&) = delete;
  LargePacket& operator=(const LargePacket&) = delete;

  /// Whether it has the headers of a datagram; if not, it may be a PacketRun.
  [[nodiscard]] bool is_datagram() const { return headers_.has_value(); }
  /// False if the packet is malformed; then it has no segments.
  explicit operator bool() const { return segmenter_.has_value(); }
  /// Selects the packet as a whole instead of a segment; call it before next(). Returns false if it
  /// is longer than an IP packet may be.
  [[nodiscard]] bool select_whole();

  /// Selects the first or next segment. Returns false if there is none.
  [[nodiscard]] bool next();
  /// Headers of the selected segment, without valid lengths. Its payload is front() and payload().
  /// The whole has the headers of the first segment, and in front() its own lengths, IPv4 checksum
  /// and, as TCP or UDP checksum, the sum of the pseudo-header.
  [[nodiscard]] const ipoib::wire::UdPacket& headers() const { return *headers_; }
  [[nodiscard]] ConstBytes grh() const;
  [[nodiscard]] ConstBytes front() const {
    return ConstBytes(current_->front).first(plan_.payload);
  }
  [[nodiscard]] ConstBytes payload() const { return current_->payload; }

 private:
  struct Segment {
    alignas(64) std::array<std::uint8_t, kMaxTsoHeader> front;
    std::array<std::uint8_t, ipoib::wire::Grh::kSize> grh;
    ConstBytes payload;  ///< empty if there is no such segment
  };
  void build(Segment& segment);
  void emit_grh(std::size_t payload, Segment& segment);

  std::optional<ipoib::wire::UdPacket> headers_;
  std::array<std::uint8_t, kMaxTsoHeader> template_;  ///< copy of front() as received
  ipoib::Segmentation plan_;                          ///< of the message that begins with template_
  bool begun_ = false;
  std::optional<ipoib::offload::Segmenter> segmenter_;
  // Segments are built one ahead: copying a header that was just written would cause a
  // store-forwarding stall.
  std::array<Segment, 2> segments_;
  Segment* current_ = &segments_[0];
  Segment* upcoming_ = &segments_[1];
};

/// Size in bytes of all segments, LRH to padding.
[[nodiscard]] std::size_t segmented_size(const ArrivedPacket& packet);
[[nodiscard]] std::size_t segmented_size(const OutgoingPacket& packet);
/// Calls `visit` with the bytes of each segment; for a malformed packet, with its first bytes.
void for_each_packet(const ArrivedPacket& packet, const std::function<void(ConstBytes)>& visit);
void for_each_packet(const OutgoingPacket& packet, const std::function<void(ConstBytes)>& visit);

}  // namespace softib
