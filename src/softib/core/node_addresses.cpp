#include "softib/core/node_addresses.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace softib {

using ipoib::Error;
using ipoib::Ipv4Address;
using ipoib::Ipv6Address;
using ipoib::Result;

namespace {

constexpr std::uint32_t kNodesV4 = 0x7f4d'0000;  ///< 127.77.0.0/16
constexpr std::uint8_t kNodesV6 = 0xfd;          ///< fd77::/112
constexpr std::uint8_t kNodesV6Next = 0x77;
constexpr std::uint32_t kNodeBits = 0xffff;

/// The low 16 bits of an address.
std::uint32_t node_bits(const IpAddress& address) {
  const auto* const v6 = std::get_if<Ipv6Address>(&address);
  return v6 != nullptr ? std::uint32_t{v6->bytes()[14]} << 8 | v6->bytes()[15]
                       : std::get<Ipv4Address>(address).number() & kNodeBits;
}

/// Whether the address is in the range of the default addresses, of which nodes use the first ones.
bool is_in_default_range(const IpAddress& address) {
  return address_of(static_cast<NodeIndex>(node_bits(address)), family(address)) == address;
}

/// Whether the address is in ::ffff:0:0/96.
bool is_mapped_v4(const Ipv6Address& address) {
  const auto& bytes = address.bytes();
  return std::all_of(bytes.begin(), bytes.begin() + 10, [](auto byte) { return byte == 0; }) &&
         bytes[10] == 0xff && bytes[11] == 0xff;
}

bool is_usable(const Ipv4Address& address) {
  constexpr std::uint8_t kReserved = 240;  // RFC 1112, 4: class E, with the limited broadcast
  return address.bytes()[0] != 0 && !address.is_multicast() && address.bytes()[0] < kReserved;
}

bool is_usable(const Ipv6Address& address) {
  return !address.is_unspecified() && !address.is_multicast() && !address.is_link_local() &&
         !is_mapped_v4(address);
}

/// The length of the common prefix of two addresses of one family, in bits.
int common_prefix(const IpAddress& one, const IpAddress& other) {
  return std::visit(
      [&](const auto& first) {
        const auto& a = first.bytes();
        const auto& b = std::get<std::decay_t<decltype(first)>>(other).bytes();
        const auto [at, in_b] = std::mismatch(a.begin(), a.end(), b.begin());
        const auto bits = static_cast<int>(at - a.begin()) * 8;
        return at == a.end() ? bits
                             : bits + std::countl_zero(static_cast<std::uint8_t>(*at ^ *in_b));
      },
      one);
}

}  // namespace

IpAddress address_of(NodeIndex node, IpFamily family) {
  if (family == IpFamily::v4) return Ipv4Address(kNodesV4 | node);
  Ipv6Address::Bytes bytes{kNodesV6, kNodesV6Next};
  bytes[14] = static_cast<std::uint8_t>(node >> 8);
  bytes[15] = static_cast<std::uint8_t>(node);
  return Ipv6Address(bytes);
}

std::optional<NodeIndex> node_of(const IpAddress& address) {
  const std::uint32_t node = node_bits(address);
  if (node >= kMaxNodes || !is_in_default_range(address)) return std::nullopt;
  return static_cast<NodeIndex>(node);
}

bool is_loopback(const IpAddress& address) {
  if (const auto* const v6 = std::get_if<Ipv6Address>(&address)) return v6->is_loopback();
  constexpr std::uint32_t kLoopback = 0x7f00'0000;
  return (std::get<Ipv4Address>(address).number() & 0xffff'ff00) == kLoopback;
}

Result<void> check_address(const IpAddress& address) {
  const auto refuse = [&](const char* why) {
    return Error{EINVAL, ipoib::to_string(address) + " cannot be an address of a node: " + why};
  };
  if (!std::visit([](const auto& one) { return is_usable(one); }, address)) {
    return refuse("it is not a global unicast address");
  }
  if (is_loopback(address)) return refuse("it is that of each HCA itself");
  if (is_in_default_range(address)) return refuse("it is in the range of the default addresses");
  return {};
}

IpAddress source_address(NodeIndex node, const std::vector<IpAddress>& others,
                         const IpAddress& destination) {
  IpAddress best = address_of(node, family(destination));
  for (const auto& other : others) {
    if (family(other) != family(destination)) continue;
    if (common_prefix(other, destination) > common_prefix(best, destination)) best = other;
  }
  return best;
}

}  // namespace softib
