#include "softib/core/bit_errors.hpp"

#include "softib/core/link_faults.hpp"
#include "wire/packet.hpp"

namespace softib {

using ipoib::wire::kIcrcSize;

namespace {

/// A byte of the ICRC in the order of the wire: little-endian.
std::uint8_t icrc_byte(std::uint32_t icrc, std::size_t index) {
  return static_cast<std::uint8_t>(icrc >> (8 * index));
}

}  // namespace

bool FaultRandom::happens(std::uint16_t share) {
  return share != 0 && next() % LinkFaults::kAlways < share;
}

std::vector<std::uint8_t> with_icrc(ConstBytes packet) {
  std::vector<std::uint8_t> bytes(packet.begin(), packet.end());
  const auto icrc = ipoib::wire::invariant_crc(packet);
  for (std::size_t i = 0; i < kIcrcSize; ++i) bytes.push_back(icrc_byte(icrc, i));
  return bytes;
}

bool has_valid_icrc(ConstBytes packet_with_icrc) {
  if (packet_with_icrc.size() < kIcrcSize) return false;
  const auto icrc = ipoib::wire::invariant_crc(without_icrc(packet_with_icrc));
  const auto carried = packet_with_icrc.last(kIcrcSize);
  for (std::size_t i = 0; i < kIcrcSize; ++i) {
    if (carried[i] != icrc_byte(icrc, i)) return false;
  }
  return true;
}

ConstBytes without_icrc(ConstBytes packet_with_icrc) {
  return packet_with_icrc.first(packet_with_icrc.size() - kIcrcSize);
}

/// Flips bits until the ICRC is wrong: one bit suffices, unless it is in a field that the ICRC does
/// not cover.
void add_bit_errors(std::vector<std::uint8_t>& packet_with_icrc, FaultRandom& random) {
  do {
    const auto bit = random.next() % (packet_with_icrc.size() * 8);
    packet_with_icrc[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
  } while (has_valid_icrc(packet_with_icrc));
}

}  // namespace softib
