// The two CRCs of a packet (IBA 7.8). Both process the least significant bit of each byte first,
// start with all ones and are complemented, so both are reflected CRCs, sent in little-endian
// order:
//
//   ICRC: the polynomial of Ethernet, 0x04c11db7, over the packet with its variant fields as ones
//   VCRC: polynomial 0x100b, over everything before it
//
// Eight tables process eight bytes per step: table n is the effect of a byte followed by n others.
#include <array>

#include "wire/packet.hpp"

namespace ipoib::wire {

namespace {

template <class Word, Word kReflectedPolynomial>
class ReflectedCrc {
 public:
  void update(ConstBytes bytes) {
    while (bytes.size() >= kSlices) {
      Word next = 0;
      for (std::size_t i = 0; i < kSlices; ++i) {
        const auto carried = i < sizeof(Word) ? low_byte(static_cast<Word>(state_ >> (8 * i))) : 0U;
        next ^= kTables[kSlices - 1 - i][bytes[i] ^ carried];
      }
      state_ = next;
      bytes = bytes.subspan(kSlices);
    }
    for (const std::uint8_t byte : bytes) state_ = step(kTables[0], state_, byte);
  }
  [[nodiscard]] Word value() const { return static_cast<Word>(~state_); }

 private:
  static constexpr std::size_t kSlices = 8;
  using Table = std::array<Word, 256>;
  using Tables = std::array<Table, kSlices>;

  static constexpr std::uint8_t low_byte(Word word) {
    return static_cast<std::uint8_t>(word & 0xff);
  }
  static constexpr Word step(const Table& table, Word state, std::uint8_t byte) {
    return static_cast<Word>(state >> 8 ^ table[low_byte(state) ^ byte]);
  }
  static constexpr Tables make_tables() {
    Tables tables{};
    for (std::size_t i = 0; i < 256; ++i) {
      auto state = static_cast<Word>(i);
      for (int bit = 0; bit < 8; ++bit) {
        const Word polynomial = (state & 1) != 0 ? kReflectedPolynomial : Word{0};
        state = static_cast<Word>(state >> 1 ^ polynomial);
      }
      tables[0][i] = state;
    }
    for (std::size_t slice = 1; slice < kSlices; ++slice) {
      for (std::size_t i = 0; i < 256; ++i) {
        tables[slice][i] = step(tables[0], tables[slice - 1][i], 0);
      }
    }
    return tables;
  }
  static constexpr Tables kTables = make_tables();

  Word state_ = static_cast<Word>(~Word{0});
};

using Icrc = ReflectedCrc<std::uint32_t, 0xedb88320>;
using Vcrc = ReflectedCrc<std::uint16_t, 0xd008>;

/// Sets the variant bits of the headers, which begin with an LRH (IBA 7.8.1).
void mask_variant_fields(MutableBytes headers) {
  const auto set = [&](std::size_t at, std::uint8_t bits) {
    if (at < headers.size()) headers[at] |= bits;
  };
  constexpr std::size_t kBthReserved = 4;  // Resv8a, before the destination QP
  const bool is_global = headers.size() > 1 && (headers[1] & 0x03) == Lrh::kLnhGlobal;
  if (!is_global) {
    set(0, 0xf0);  // virtual lane
    set(Lrh::kSize + kBthReserved, 0xff);
    return;
  }
  // A router replaces the LRH, so all of it is variant.
  for (std::size_t i = 0; i < Lrh::kSize; ++i) set(i, 0xff);
  set(Lrh::kSize, 0x0f);  // traffic class and flow label: all but the version
  for (std::size_t i = 1; i < 4; ++i) set(Lrh::kSize + i, 0xff);
  set(Lrh::kSize + 7, 0xff);  // hop limit
  set(Lrh::kSize + Grh::kSize + kBthReserved, 0xff);
}

}  // namespace

std::uint32_t invariant_crc(ConstBytes packet) {
  std::array<std::uint8_t, Lrh::kSize + Grh::kSize + Bth::kSize> copy;
  const auto headers = MutableBytes(copy).first(std::min(copy.size(), packet.size()));
  std::copy_n(packet.begin(), headers.size(), headers.begin());
  mask_variant_fields(headers);
  Icrc crc;
  crc.update(headers);
  crc.update(packet.subspan(headers.size()));
  return crc.value();
}

std::uint16_t variant_crc(ConstBytes packet_with_icrc) {
  Vcrc crc;
  crc.update(packet_with_icrc);
  return crc.value();
}

}  // namespace ipoib::wire
