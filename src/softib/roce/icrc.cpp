#include "softib/roce/icrc.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

#include "ipoib/bytes.hpp"
#include "softib/core/packet_sink.hpp"
#include "softib/roce/crc32.hpp"
#include "wire/packet.hpp"

namespace softib::roce {
namespace {

constexpr std::size_t kUdpHeader = 8;
constexpr std::size_t kIpv4Header = 20;
constexpr std::size_t kIpv6Header = 40;
constexpr std::size_t kMaskedLrh = 8;
constexpr std::uint8_t kUdp = 17;

}  // namespace

Icrc::Icrc(const Flow& flow, std::size_t udp_payload, std::uint16_t identification,
           ConstBytes front) {
  using ipoib::wire::Bth;
  constexpr std::size_t kReserved = 4;  // FECN, BECN and reserved bits of the BTH
  assert(front.size() >= Bth::kSize);
  std::array<std::uint8_t, kMaskedLrh + kIpv6Header + kUdpHeader + Bth::kSize> headers;
  headers.fill(0xff);
  const auto udp_length = static_cast<std::uint16_t>(kUdpHeader + udp_payload);
  std::uint8_t* const ip = headers.data() + kMaskedLrh;
  std::size_t size = 0;
  if (flow.is_ipv4()) {
    size = kIpv4Header;
    ip[0] = 0x45;
    // TOS, TTL and checksum are ones.
    ipoib::store_be(ip + 2, static_cast<std::uint16_t>(kIpv4Header + udp_length));
    ipoib::store_be(ip + 4, identification);
    ipoib::store_be(ip + 6, std::uint16_t{0x4000});
    ip[9] = kUdp;
    ipoib::store_be(ip + 12, ipv4_of(flow.source));
    ipoib::store_be(ip + 16, ipv4_of(flow.destination));
  } else {
    size = kIpv6Header;
    ip[0] = 0x6f;  // traffic class, flow label and hop limit are ones
    ipoib::store_be(ip + 4, udp_length);
    ip[6] = kUdp;
    std::ranges::copy(flow.source.bytes(), ip + 8);
    std::ranges::copy(flow.destination.bytes(), ip + 24);
  }
  std::uint8_t* const udp = ip + size;
  ipoib::store_be(udp, flow.source_port);
  ipoib::store_be(udp + 2, kUdpPort);
  ipoib::store_be(udp + 4, udp_length);
  std::uint8_t* const bth = udp + kUdpHeader;
  std::ranges::copy(front.first<Bth::kSize>(), bth);
  bth[kReserved] = 0xff;
  crc_ = crc32(0, ConstBytes(headers).first(kMaskedLrh + size + kUdpHeader + Bth::kSize));
  add(front.subspan<Bth::kSize>());
}

void Icrc::add(ConstBytes bytes) { crc_ = crc32(crc_, bytes); }

IdentificationCheck::Basis IdentificationCheck::basis_of(std::size_t udp_payload) {
  constexpr std::size_t kAfterIdentification = kIpv4Header - 6 + kUdpHeader;
  const auto bytes = kAfterIdentification + udp_payload - ipoib::wire::kIcrcSize;
  const auto shift = power_of_x(8 * bytes);
  Basis basis{};
  std::size_t count = 0;
  for (unsigned bit = 0; bit < 16; ++bit) {
    // A byte enters the low bits of the register, which then moves on by 8.
    const std::size_t moves = bit < 8 ? 1 : 2;
    auto vector = multiply(multiply(1U << bit % 8, power_of_x(8 * moves)), shift);
    for (std::size_t i = 0; i < count; ++i) {
      if ((vector & std::bit_floor(basis[i])) != 0) vector ^= basis[i];
    }
    basis[count++] = vector;  // not 0: the 65,536 differences are different
  }
  return basis;
}

bool IdentificationCheck::explains(std::uint32_t difference, std::size_t udp_payload) {
  if (udp_payload % 4 != 0 || udp_payload > kMaxPacketBytes) return false;
  const auto index = udp_payload / 4;
  if (by_length_.size() <= index) by_length_.resize(index + 1);
  auto& basis = by_length_[index];
  if (basis.back() == 0) basis = basis_of(udp_payload);
  for (const auto vector : basis) {
    if ((difference & std::bit_floor(vector)) != 0) difference ^= vector;
  }
  return difference == 0;
}

}  // namespace softib::roce
