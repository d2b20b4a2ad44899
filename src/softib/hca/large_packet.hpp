// What an HCA does for IBV_WR_TSO: it sends a large packet of IPoIB (RFC 4391, 6), with TCP or UDP
// right behind a header of IP, as many. Here they travel as one, and are cut where they arrive,
// while their octets are on their way through that processor's cache anyway.
//
// In a large packet:   | LRH to DETH | encapsulation 4 | IPv4 or IPv6 | TCP or UDP | payload |
// None of its lengths says anything, and it has no padding.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "offload/segmenter.hpp"
#include "softib/core/packet_sink.hpp"
#include "softib/hca/limits.hpp"

namespace softib::hca {

/// LRH to the end.
inline constexpr std::size_t kMaxLargeOctets =
    ipoib::wire::UdPacket::kMaxHeaderSize + kMaxTsoHeader + kMaxTso;

/// How a message that begins with `front` is cut; nothing: it is not one that can be.
[[nodiscard]] std::optional<ipoib::Segmentation> plan_gso(ConstBytes front, std::uint16_t size);

/// A large packet as a whole, or its packets, one after the other. It believes nothing that is
/// written in it.
class LargePacket {
 public:
  /// The octets of `from`, of which `gso.size` is not 0, outlive it.
  explicit LargePacket(const ArrivedPacket& from);
  LargePacket(const LargePacket&) = delete;
  LargePacket& operator=(const LargePacket&) = delete;

  /// False: it is malformed, and there are no packets.
  explicit operator bool() const { return segmenter_.has_value(); }
  /// Makes it the whole, before next(). False: that is longer than an IP packet can say that it is.
  [[nodiscard]] bool make_whole();

  /// Goes on to the first, or the next one; false: there is none.
  [[nodiscard]] bool next();
  /// The headers of this one, but for lengths; its payload is front() and payload(). The whole has
  /// those of the first; its front says what belongs to all: lengths, the checksum of IPv4, and in
  /// the place of that of TCP or UDP the sum of the pseudo-header.
  [[nodiscard]] const ipoib::wire::UdPacket& headers() const { return *headers_; }
  [[nodiscard]] ConstBytes grh() const;
  [[nodiscard]] ConstBytes front() const { return ConstBytes(here_->front).first(plan_.payload); }
  [[nodiscard]] ConstBytes payload() const { return here_->payload; }

 private:
  struct Segment {
    alignas(64) std::array<std::uint8_t, kMaxTsoHeader> front;
    std::array<std::uint8_t, ipoib::wire::Grh::kSize> grh;
    ConstBytes payload;  ///< empty: there is none
  };
  void make(Segment& segment);
  void emit_grh(std::size_t payload, Segment& segment);

  std::optional<ipoib::wire::UdPacket> headers_;
  std::array<std::uint8_t, kMaxTsoHeader> template_;  ///< of front(), as it was sent
  ipoib::Segmentation plan_;                          ///< of front() and what follows it
  bool begun_ = false;
  std::optional<ipoib::offload::Segmenter> segmenter_;
  // Made one ahead: what has just been written cannot be copied at once.
  std::array<Segment, 2> segments_;
  Segment* here_ = &segments_[0];
  Segment* ahead_ = &segments_[1];
};

/// Octets of all packets that it stands for, LRH to padding.
[[nodiscard]] std::size_t octets_of(const ArrivedPacket& packet);
[[nodiscard]] std::size_t octets_of(const OutgoingPacket& packet);
/// Calls `see` with the octets of each of them; of one that is malformed, with its first octets.
void for_each_packet(const ArrivedPacket& packet, const std::function<void(ConstBytes)>& see);
void for_each_packet(const OutgoingPacket& packet, const std::function<void(ConstBytes)>& see);

}  // namespace softib::hca
