// The Fragment header of IPv6 (RFC 8200, 4.5):
//
//   0             1          2                     4                8
//   | next header | reserved | offset, reserved, M | identification |
//
// Before it, there may be headers for each router on the way; each begins with
//
//   0             1                                2
//   | next header | units of 8 bytes after the first |
#include "wire/fragment.hpp"

#include "wire/transport.hpp"

namespace ipoib::wire {

namespace {

constexpr std::uint8_t kHopByHopHeader = 0;
constexpr std::uint8_t kRoutingHeader = 43;
constexpr std::uint8_t kFragmentHeader = 44;
constexpr std::uint8_t kDestinationHeader = 60;
constexpr std::size_t kExtensionUnit = 8;
constexpr std::uint16_t kOffsetAndMore = 0xfff9;

bool precedes_fragment(std::uint8_t header) {
  return header == kHopByHopHeader || header == kRoutingHeader || header == kDestinationHeader;
}

std::optional<FragmentedDatagram> datagram_of_ipv4(ConstBytes packet) {
  const auto header = Ipv4Header::parse(packet);
  if (!header) return std::nullopt;
  const bool is_fragment =
      (load_be<std::uint16_t>(&packet[ipv4::kFragment]) & ipv4::kIsFragment) != 0;
  if (!is_fragment) return std::nullopt;
  return FragmentedDatagram{header->source, header->destination,
                            load_be<std::uint16_t>(&packet[ipv4::kIdentification]),
                            header->protocol};
}

std::optional<FragmentedDatagram> datagram_of_ipv6(ConstBytes packet) {
  const auto header = Ipv6Header::parse(packet);
  if (!header) return std::nullopt;
  std::uint8_t next = header->next_header;
  ConstBytes rest = packet.subspan(Ipv6Header::kSize);
  while (rest.size() >= kExtensionUnit && precedes_fragment(next)) {
    const std::size_t size = (std::size_t{rest[1]} + 1) * kExtensionUnit;
    if (size > rest.size()) return std::nullopt;
    next = rest[0];
    rest = rest.subspan(size);
  }
  if (next != kFragmentHeader || rest.size() < kExtensionUnit) return std::nullopt;
  const bool is_fragment = (load_be<std::uint16_t>(&rest[2]) & kOffsetAndMore) != 0;
  if (!is_fragment) return std::nullopt;  // RFC 6946: it is whole
  return FragmentedDatagram{header->source, header->destination, load_be<std::uint32_t>(&rest[4])};
}

}  // namespace

std::optional<FragmentedDatagram> datagram_of(ConstBytes packet) {
  return ip_version(packet) == 6 ? datagram_of_ipv6(packet) : datagram_of_ipv4(packet);
}

}  // namespace ipoib::wire
