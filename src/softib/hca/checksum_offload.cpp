// Payload:   | encapsulation 4 | IPv4 20 to 60, or IPv6 40 | TCP or UDP |
#include "softib/hca/checksum_offload.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "wire/checksum.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/transport.hpp"

namespace softib::hca {
namespace {

namespace wire = ipoib::wire;
using wire::InternetChecksum;
using Kind = ipoib::Segmentation::Kind;

constexpr std::size_t kIp = wire::kEncapsulationSize;
constexpr std::size_t kMaxIpv4Header = 60;
using Headers = std::array<std::uint8_t, kIp + kMaxIpv4Header + wire::tcp::kMinimumSize>;

std::uint16_t word(ConstBytes bytes, std::size_t at) {
  return ipoib::load_be<std::uint16_t>(&bytes[at]);
}

/// Calls `visit` with each piece's part of [begin, end) of the payload, and the part's offset.
template <class Visit>
void for_each_part(const OutgoingPacket& packet, std::size_t begin, std::size_t end, Visit visit) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < packet.piece_count && at < end; ++i) {
    const auto& piece = packet.pieces[i];
    const auto first = std::max(at, begin);
    const auto last = std::min(at + piece.size(), end);
    if (first < last) visit(piece.subspan(first - at, last - first), first);
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

/// Adds the words of [begin, end) of the payload. The sum of a part that begins at an odd offset is
/// byte-swapped (RFC 1071, 2 (B)).
void add_part(const OutgoingPacket& packet, std::size_t begin, std::size_t end,
              InternetChecksum& to) {
  for_each_part(packet, begin, end, [&](ConstBytes part, std::size_t at) {
    const auto sum = InternetChecksum().add(part).sum();
    const auto swapped = static_cast<std::uint16_t>(sum << 8 | sum >> 8);
    to.add((at - begin) % 2 == 0 ? sum : swapped);
  });
}

/// A TCP or UDP header, and its range in the payload.
struct Transport {
  Kind kind = Kind::none;
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::optional<Transport> transport_of(ConstBytes ip, std::size_t available) {
  const auto upper = wire::upper_layer(ip);
  if (upper.begin == 0) return std::nullopt;
  const auto length = wire::ip_length(ip);
  if (length < upper.begin || length > available) return std::nullopt;
  return Transport{wire::kind_of(upper.protocol), kIp + upper.begin, kIp + length};
}

/// Offset of the checksum in the header; nullopt if it is not TCP or UDP, or truncated.
std::optional<std::size_t> checksum_field(const Transport& transport, ConstBytes headers) {
  const auto length = transport.end - transport.begin;
  if (transport.kind == Kind::tcp && length >= wire::tcp::kMinimumSize) return wire::tcp::kChecksum;
  if (transport.kind != Kind::udp || length < wire::kUdpHeader ||
      word(headers, transport.begin + wire::udp::kLength) != length) {
    return std::nullopt;
  }
  return wire::udp::kChecksum;
}

/// Removes a word from a sum.
void subtract(InternetChecksum& sum, std::uint16_t value) {
  sum.add(static_cast<std::uint16_t>(~value));
}

std::uint16_t transport_checksum(const OutgoingPacket& packet, ConstBytes ip,
                                 const Transport& transport, std::uint16_t field) {
  auto sum = wire::pseudo_header(ip, transport.kind, transport.end - transport.begin);
  add_part(packet, transport.begin, transport.end, sum);
  subtract(sum, field);
  return wire::checksum_as_sent(transport.kind, sum.value());
}

std::uint16_t header_checksum(ConstBytes header) {
  auto sum = InternetChecksum().add(header);
  subtract(sum, word(header, wire::ipv4::kChecksum));
  return sum.value();
}

}  // namespace

void offload_checksums(OutgoingPacket& packet) {
  Headers copy;
  const auto headers = copy_headers(packet, copy);
  const auto ip = wire::ip_of(headers);
  if (ip.empty()) return;
  const auto transport = transport_of(ip, packet.payload_size - kIp);
  if (!transport) return;
  const auto field = checksum_field(*transport, headers);
  if (!field) return;
  if (wire::ip_version(ip) == 4) {
    packet.patches[packet.patch_count++] = {kIp + wire::ipv4::kChecksum,
                                            header_checksum(ip.first(transport->begin - kIp))};
  }
  const auto at = transport->begin + *field;
  packet.patches[packet.patch_count++] = {
      static_cast<std::uint32_t>(at),
      transport_checksum(packet, ip, *transport, word(headers, at))};
  packet.checksums_valid = true;
}

}  // namespace softib::hca
