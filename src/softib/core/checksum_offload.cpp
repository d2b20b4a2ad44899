// Of the payload:   | encapsulation 4 | IPv4 20 to 60, or IPv6 40 | TCP or UDP |
#include "softib/core/checksum_offload.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "wire/checksum.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/transport.hpp"

namespace softib {
namespace {

namespace wire = ipoib::wire;
using wire::EtherType;
using wire::InternetChecksum;

constexpr std::size_t kIp = wire::kEncapsulationSize;
constexpr std::size_t kMaxIpv4Header = 60;
using Headers = std::array<std::uint8_t, kIp + kMaxIpv4Header + wire::tcp::kMinimumSize>;

std::uint16_t word(ConstBytes bytes, std::size_t at) {
  return ipoib::load_be<std::uint16_t>(&bytes[at]);
}

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
  if (ip.size() < wire::Ipv4Header::kMinimumSize || ip[0] >> 4 != 4) return std::nullopt;
  const std::size_t header = std::size_t{ip[0]} % 16 * 4;
  const std::size_t total = word(ip, wire::ipv4::kTotalLength);
  const bool fits =
      header >= wire::Ipv4Header::kMinimumSize && header <= total && total <= available;
  if (!fits || (word(ip, wire::ipv4::kFragment) & wire::ipv4::kIsFragment) != 0)
    return std::nullopt;
  return Transport{ip[wire::ipv4::kProtocol], kIp + header, kIp + total,
                   InternetChecksum().add(ip.subspan(wire::ipv4::kAddresses, 8))};
}

std::optional<Transport> of_ipv6(ConstBytes ip, std::size_t available) {
  constexpr std::size_t kHeader = wire::Ipv6Header::kSize;
  if (ip.size() < kHeader || ip[0] >> 4 != 6) return std::nullopt;
  const std::size_t length = word(ip, wire::ipv6::kPayloadLength);
  if (kHeader + length > available) return std::nullopt;
  return Transport{ip[wire::ipv6::kNextHeader], kIp + kHeader, kIp + kHeader + length,
                   InternetChecksum().add(ip.subspan(wire::ipv6::kAddresses, 32))};
}

/// Where in its header the checksum is; nothing when that is neither, or not whole.
std::optional<std::size_t> checksum_place(const Transport& transport, ConstBytes headers) {
  const auto length = transport.end - transport.begin;
  if (transport.protocol == wire::kTcp && length >= wire::tcp::kMinimumSize)
    return wire::tcp::kChecksum;
  if (transport.protocol != wire::kUdp || length < wire::kUdpHeader ||
      word(headers, transport.begin + wire::udp::kLength) != length) {
    return std::nullopt;
  }
  return wire::udp::kChecksum;
}

std::uint16_t transport_checksum(const OutgoingPacket& packet, const Transport& transport,
                                 std::size_t place) {
  auto sum = transport.pseudo_header;
  sum.add(std::uint16_t{transport.protocol})
      .add(static_cast<std::uint16_t>(transport.end - transport.begin));
  add_part(packet, transport.begin, transport.begin + place, sum);
  add_part(packet, transport.begin + place + 2, transport.end, sum);
  return wire::transport_checksum(sum.value());
}

std::uint16_t header_checksum(ConstBytes header) {
  return InternetChecksum()
      .add(header.first(wire::ipv4::kChecksum))
      .add(header.subspan(wire::ipv4::kChecksum + 2))
      .value();
}

}  // namespace

void offload_checksums(OutgoingPacket& packet) {
  Headers copy;
  const auto headers = copy_headers(packet, copy);
  const auto type = wire::parse_encapsulation(headers);
  if (type != EtherType::ipv4 && type != EtherType::ipv6) return;
  const auto available = size_of(packet) - packet.header_size - kIp;
  const auto ip = headers.subspan(kIp);
  const auto transport = type == EtherType::ipv4 ? of_ipv4(ip, available) : of_ipv6(ip, available);
  if (!transport) return;
  const auto place = checksum_place(*transport, headers);
  if (!place) return;
  if (type == EtherType::ipv4) {
    packet.patches[packet.patch_count++] = {kIp + wire::ipv4::kChecksum,
                                            header_checksum(ip.first(transport->begin - kIp))};
  }
  packet.patches[packet.patch_count++] = {static_cast<std::uint32_t>(transport->begin + *place),
                                          transport_checksum(packet, *transport, *place)};
  packet.checksums_right = true;
}

}  // namespace softib
