#include "wire/host_groups.hpp"

#include <cstdint>

#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/transport.hpp"

namespace ipoib::wire {
namespace {

// Of IPv4 (RFC 791, 3.1).
constexpr std::size_t kProtocolOffset = 9;
constexpr std::uint8_t kIgmp = 2;
// Of IPv6 (RFC 8200, 4.3).
constexpr std::uint8_t kHopByHop = 0;
/// The header with the router alert alone.
constexpr std::size_t kHopByHopSize = 8;

bool is_mld(std::uint8_t icmpv6_type) {
  constexpr std::uint8_t kReport = 131;
  constexpr std::uint8_t kDone = 132;
  constexpr std::uint8_t kReportV2 = 143;
  return icmpv6_type == kReport || icmpv6_type == kDone || icmpv6_type == kReportV2;
}

}  // namespace

bool changes_host_groups(ConstBytes packet) {
  if (ip_version(packet) == 4) {
    return packet.size() > kProtocolOffset && packet[kProtocolOffset] == kIgmp;
  }
  constexpr std::size_t kMessage = Ipv6Header::kSize + kHopByHopSize;
  return packet.size() > kMessage && packet[ipv6::kNextHeader] == kHopByHop &&
         packet[Ipv6Header::kSize] == kIcmpv6 && is_mld(packet[kMessage]);
}

}  // namespace ipoib::wire
