// Of the payload:   | encapsulation 4 | IPv4 20 to 60, or IPv6 40 | TCP or UDP |
#include "softib/core/checksum_offload.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "wire/checksum.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"

namespace softib {
namespace {

using ipoib::load_be;
using ipoib::wire::EtherType;
using ipoib::wire::InternetChecksum;

constexpr std::size_t kIp = ipoib::wire::kEncapsulationSize;
constexpr std::uint8_t kTcp = 6;
constexpr std::size_t kTcpHeader = 20;
constexpr std::size_t kTcpChecksum = 16;
constexpr std::size_t kUdpLength = 4;
constexpr std::size_t kUdpChecksum = 6;
constexpr std::size_t kMaxIpv4Header = 60;
constexpr std::size_t kIpv4Checksum = 10;
using Headers = std::array<std::uint8_t, kIp + kMaxIpv4Header + kTcpHeader>;

std::uint16_t word(ConstBytes bytes, std::size_t at) { return load_be<std::uint16_t>(&bytes[at]); }

/// Calls `see` with what of each piece is in [begin, end) of the payload, and where in the payload
/// that begins.
template <class See>
void for_each_part(const OutgoingPacket& packet, std::size_t begin, std::size_t end, See see) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < packet.piece_count && at < end; ++i) {
    const auto& piece = packet.pieces[i];
    const auto first = std::max(at, begin);
    const auto last = std::min(at + piece.size(), end);
    if (first < last) see(piece.subspan(first - at, last - first), first);
    at += piece.size();
  }
}

ConstBytes copy_headers(const OutgoingPacket& packet, Headers& to) {
  std::size_t size = 0;
  for_each_part(packet, 0, to.size(), [&](ConstBytes part, std::size_t at) {
    std::memcpy(&to[at], part.data(), part.size());
    size = at + part.size();
  });
  return ConstBytes(to).first(size);
}

/// Adds [begin, end) of the payload as words from `begin` on. A part that begins within a word has
/// its octets the other way round in all words, and so in their sum (RFC 1071, 2 (B)).
void add_part(const OutgoingPacket& packet, std::size_t begin, std::size_t end,
              InternetChecksum& to) {
  for_each_part(packet, begin, end, [&](ConstBytes part, std::size_t at) {
    const auto sum = InternetChecksum().add(part).sum();
    const auto swapped = static_cast<std::uint16_t>(sum << 8 | sum >> 8);
    to.add((at - begin) % 2 == 0 ? sum : swapped);
  });
}

/// TCP or UDP: where it is in the payload, and the sum of its pseudo-header.
struct Transport {
  std::uint8_t protocol = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  InternetChecksum pseudo_header;
};

std::optional<Transport> of_ipv4(ConstBytes ip, std::size_t available) {
  constexpr std::size_t kFragment = 6;
  constexpr std::size_t kProtocol = 9;
  constexpr std::size_t kAddresses = 12;
  constexpr std::uint16_t kIsFragment = 0x3fff;  // more fragments, or an offset
  if (ip.size() < ipoib::wire::Ipv4Header::kMinimumSize || ip[0] >> 4 != 4) return std::nullopt;
  const std::size_t header = std::size_t{ip[0]} % 16 * 4;
  const std::size_t total = word(ip, 2);
  const bool fits =
      header >= ipoib::wire::Ipv4Header::kMinimumSize && header <= total && total <= available;
  if (!fits || (word(ip, kFragment) & kIsFragment) != 0) return std::nullopt;
  return Transport{ip[kProtocol], kIp + header, kIp + total,
                   InternetChecksum().add(ip.subspan(kAddresses, 8))};
}

std::optional<Transport> of_ipv6(ConstBytes ip, std::size_t available) {
  constexpr std::size_t kHeader = ipoib::wire::Ipv6Header::kSize;
  constexpr std::size_t kAddresses = 8;
  if (ip.size() < kHeader || ip[0] >> 4 != 6) return std::nullopt;
  const std::size_t length = word(ip, ipoib::wire::Ipv6Header::kPayloadLengthOffset);
  if (kHeader + length > available) return std::nullopt;
  return Transport{ip[ipoib::wire::Ipv6Header::kNextHeaderOffset], kIp + kHeader,
                   kIp + kHeader + length, InternetChecksum().add(ip.subspan(kAddresses, 32))};
}

/// Where in its header the checksum is; nothing when that is neither, or not whole.
std::optional<std::size_t> checksum_place(const Transport& transport, ConstBytes headers) {
  const auto length = transport.end - transport.begin;
  if (transport.protocol == kTcp && length >= kTcpHeader) return kTcpChecksum;
  if (transport.protocol != ipoib::wire::kUdp || length < ipoib::wire::kUdpHeader ||
      word(headers, transport.begin + kUdpLength) != length) {
    return std::nullopt;
  }
  return kUdpChecksum;
}

std::uint16_t transport_checksum(const OutgoingPacket& packet, const Transport& transport,
                                 std::size_t place) {
  auto sum = transport.pseudo_header;
  sum.add(std::uint16_t{transport.protocol})
      .add(static_cast<std::uint16_t>(transport.end - transport.begin));
  add_part(packet, transport.begin, transport.begin + place, sum);
  add_part(packet, transport.begin + place + 2, transport.end, sum);
  // A UDP that computes none sends zero (RFC 768); to TCP either form of zero is the same.
  const auto value = sum.value();
  return value == 0 ? std::uint16_t{0xffff} : value;
}

std::uint16_t header_checksum(ConstBytes header) {
  return InternetChecksum()
      .add(header.first(kIpv4Checksum))
      .add(header.subspan(kIpv4Checksum + 2))
      .value();
}

}  // namespace

void offload_checksums(OutgoingPacket& packet) {
  Headers copy;
  const auto headers = copy_headers(packet, copy);
  const auto type = ipoib::wire::parse_encapsulation(headers);
  if (type != EtherType::ipv4 && type != EtherType::ipv6) return;
  const auto available = size_of(packet) - packet.header_size - kIp;
  const auto ip = headers.subspan(kIp);
  const auto transport = type == EtherType::ipv4 ? of_ipv4(ip, available) : of_ipv6(ip, available);
  if (!transport) return;
  const auto place = checksum_place(*transport, headers);
  if (!place) return;
  if (type == EtherType::ipv4) {
    packet.patches[packet.patch_count++] = {kIp + kIpv4Checksum,
                                            header_checksum(ip.first(transport->begin - kIp))};
  }
  packet.patches[packet.patch_count++] = {static_cast<std::uint32_t>(transport->begin + *place),
                                          transport_checksum(packet, *transport, *place)};
  packet.checksums_right = true;
}

}  // namespace softib
