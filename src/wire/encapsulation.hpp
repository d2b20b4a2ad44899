// The encapsulation header before each frame (RFC 4391, 6).
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |         Type (16 bits)        |       Reserved (16 bits)      |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/bytes.hpp"

namespace ipoib::wire {

/// The types that RFC 4391 allows.
enum class EtherType : std::uint16_t { ipv4 = 0x0800, arp = 0x0806, rarp = 0x8035, ipv6 = 0x86dd };

inline constexpr std::size_t kEncapsulationSize = 4;
inline constexpr std::size_t kGrhSize = 40;

/// Returns the type of a frame; nullopt if it is too short or of another type.
/// "The Reserved field MUST be set to zero on send and ignored on receive."
[[nodiscard]] inline std::optional<EtherType> parse_encapsulation(ConstBytes frame) {
  if (frame.size() < kEncapsulationSize) return std::nullopt;
  const auto type = static_cast<EtherType>(load_be<std::uint16_t>(frame.data()));
  switch (type) {
    case EtherType::ipv4:
    case EtherType::arp:
    case EtherType::rarp:
    case EtherType::ipv6:
      return type;
  }
  return std::nullopt;
}
/// Writes the header to the four bytes at `to`.
inline void emit_encapsulation(EtherType type, std::uint8_t* to) {
  store_be(to, static_cast<std::uint16_t>(type));
  store_be(to + 2, std::uint16_t{0});
}

}  // namespace ipoib::wire
