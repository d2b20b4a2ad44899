#include "wire/host_groups.hpp"

#include <cstdint>

#include "wire/transport.hpp"

namespace ipoib::wire {
namespace {

constexpr std::uint8_t kIgmp = 2;
constexpr std::uint8_t kHopByHop = 0;     ///< RFC 8200, 4.3
constexpr std::size_t kHopByHopSize = 8;  ///< with the router alert alone

bool is_mld(std::uint8_t icmpv6_type) {
  constexpr std::uint8_t kReport = 131;
  constexpr std::uint8_t kDone = 132;
  constexpr std::uint8_t kReportV2 = 143;
  return icmpv6_type == kReport || icmpv6_type == kDone || icmpv6_type == kReportV2;
}

}  // namespace

bool changes_host_groups(ConstBytes packet) {
  if (ip_version(packet) == 4) {
    return packet.size() > ipv4::kProtocol && packet[ipv4::kProtocol] == kIgmp;
  }
  constexpr std::size_t kMessage = Ipv6Header::kSize + kHopByHopSize;
  return packet.size() > kMessage && packet[ipv6::kNextHeader] == kHopByHop &&
         packet[Ipv6Header::kSize] == kIcmpv6 && is_mld(packet[kMessage]);
}

}  // namespace ipoib::wire
