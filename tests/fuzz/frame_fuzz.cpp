// Frames of a link: encapsulation with ARP, IPv4, IPv6 or Neighbour Discovery.
#include <algorithm>
#include <vector>

#include "require.hpp"
#include "wire/arp.hpp"
#include "wire/checksum.hpp"
#include "wire/encapsulation.hpp"
#include "wire/icmp_error.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour_discovery.hpp"

using namespace ipoib;

namespace {

constexpr HwAddress kHardware{};

/// Removes the link-layer options from a message, and adds them.
void rewrite(ConstBytes packet) {
  std::vector<std::uint8_t> copy(packet.begin(), packet.end());
  copy.resize(wire::strip_link_layer_options(copy));
  const auto stripped = wire::NdMessage::parse(copy);
  require(stripped && !stripped->source_link_layer && !stripped->target_link_layer);
  const std::size_t size = copy.size();
  copy.resize(size + wire::kLinkLayerOptionSize);
  (void)wire::append_link_layer_option(copy, size, wire::LinkLayerOption::target, kHardware);
  const auto appended = wire::NdMessage::parse(copy);
  require(appended && appended->target_link_layer == kHardware);
}

void look_at_ipv6(ConstBytes packet) {
  const auto header = wire::Ipv6Header::parse(packet);
  if (!header) return;
  require(wire::ip_version(packet) == 6);
  require(wire::Ipv6Header::kSize + header->payload_length <= packet.size());
  if (wire::NdMessage::parse(packet)) rewrite(packet);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes frame(data, size);
  const auto type = wire::parse_encapsulation(frame);
  if (!type) return 0;
  std::array<std::uint8_t, wire::kEncapsulationSize> header;
  wire::emit_encapsulation(*type, header.data());
  require(wire::parse_encapsulation(header) == type);

  const ConstBytes packet = frame.subspan(wire::kEncapsulationSize);
  require_stable<wire::Arp>(packet);
  if (const auto ip = wire::Ipv4Header::parse(packet)) {
    require(wire::ip_version(packet) == 4);
    require(ip->header_size >= wire::Ipv4Header::kMinimumSize);
    require(ip->header_size <= ip->total_length && ip->total_length <= packet.size());
  }
  look_at_ipv6(packet);
  std::array<std::uint8_t, wire::kMaxIcmpError> error;
  const std::size_t error_size = wire::emit_too_big(packet, wire::kMaxIcmpError, error);
  require(error_size <= error.size());
  return 0;
}
