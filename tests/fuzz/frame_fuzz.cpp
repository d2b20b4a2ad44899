// Frames of a link: encapsulation with ARP, IPv4, IPv6 or Neighbour Discovery.
#include <algorithm>
#include <optional>

#include "cost.hpp"
#include "discovery.hpp"
#include "require.hpp"
#include "wire/arp.hpp"
#include "wire/checksum.hpp"
#include "wire/dhcp.hpp"
#include "wire/encapsulation.hpp"
#include "wire/group_membership.hpp"
#include "wire/icmp_error.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv4_fragments.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour_discovery.hpp"
#include "wire/transport.hpp"

using namespace ipoib;

namespace {

constexpr HwAddress kHardware{};
constexpr std::uint64_t kMaxCost = 20'000;
constexpr std::size_t kMaxSize = 1024;

MutableBytes copy_of(ConstBytes packet, std::size_t more) {
  const MutableBytes room = scratch(packet.size() + more);
  std::ranges::copy(packet, room.begin());
  return room;
}

/// Removes the link-layer options from a message, and adds them.
void rewrite(ConstBytes packet) {
  const MutableBytes room = copy_of(packet, wire::kLinkLayerOptionSize);
  const std::size_t size = wire::strip_link_layer_options(room.first(packet.size()));
  require(size <= packet.size());
  const auto stripped = wire::NdMessage::parse(room.first(size));
  require(stripped && !stripped->source_link_layer && !stripped->target_link_layer);
  const std::size_t larger =
      wire::append_link_layer_option(room, size, wire::LinkLayerOption::target, kHardware);
  const auto appended = wire::NdMessage::parse(room.first(larger));
  require(appended && appended->target_link_layer == kHardware);
}

void look_at_ipv6(ConstBytes packet) {
  const auto header = wire::Ipv6Header::parse(packet);
  if (!header) return;
  require(wire::ip_version(packet) == 6);
  require(wire::Ipv6Header::kSize + header->payload_length <= packet.size());
  if (wire::NdMessage::parse(packet)) rewrite(packet);
}

void look_at_discovery(ConstBytes packet) {
  static std::array<std::uint8_t, kMaxSize> room;
  const MutableBytes made = MutableBytes(room).last(packet.size());
  std::ranges::copy(packet, made.begin());
  if (fit_discovery(made) && wire::NdMessage::parse(made)) rewrite(made);
}

/// All fragments together have the payload, in order and each byte once; none exceeds the MTU, and
/// each is a packet.
void fragment(ConstBytes packet, const wire::Ipv4Header& header, std::size_t mtu) {
  const ConstBytes payload = packet.first(header.total_length).subspan(header.header_size);
  const std::size_t offset_before =
      load_be<std::uint16_t>(&packet[wire::ipv4::kFragment]) & 0x1fffU;
  std::size_t at = 0;
  for (wire::Ipv4Fragmenter fragmenter(packet, mtu); !fragmenter.done();) {
    const MutableBytes room = scratch(mtu);
    const ConstBytes made = room.first(fragmenter.next(room));
    const auto own = wire::Ipv4Header::parse(made);
    require(own && own->total_length == made.size());
    const ConstBytes part = made.subspan(own->header_size);
    require(!part.empty() && at % 8 == 0 && part.size() <= payload.size() - at);
    require(std::ranges::equal(part, payload.subspan(at, part.size())));
    const std::size_t offset = load_be<std::uint16_t>(&made[wire::ipv4::kFragment]) & 0x1fffU;
    require(offset == ((offset_before + at / 8) & 0x1fffU));
    at += part.size();
  }
  require(at == payload.size());
}

void look_at_ipv4(ConstBytes packet, std::uint8_t pick) {
  const auto header = wire::Ipv4Header::parse(packet);
  if (!header) return;
  require(wire::ip_version(packet) == 4);
  require(header->header_size >= wire::Ipv4Header::kMinimumSize);
  require(header->header_size <= header->total_length && header->total_length <= packet.size());
  if (wire::may_fragment(packet)) fragment(packet, *header, wire::kMinIpv4Mtu + pick);
}

void look_at_upper_layer(ConstBytes packet) {
  const UpperLayer upper = wire::upper_layer(packet);
  require(upper.begin <= packet.size());
  (void)wire::changes_host_groups(packet);
  (void)wire::is_icmp_redirect(packet, upper);
  (void)wire::dhcp_kind(packet, upper);
  if (wire::ip_version(packet) == 6 && wire::is_neighbour_discovery(packet, upper)) {
    require(upper.begin == wire::Ipv6Header::kSize);
  }
}

/// A message is a report or a query, not both.
void look_at_group_membership(ConstBytes packet) {
  const auto memberships = wire::group_memberships(packet);
  require(memberships.size() <= packet.size() / wire::kMinGroupRecord);
  require(memberships.empty() || !wire::is_group_query(packet));
  for (const auto& one : memberships) {
    require(std::visit([](const auto& group) { return group.is_multicast(); }, one.group));
  }
}

void look_at_errors(ConstBytes packet) {
  for (const int kind : {0, 1, 2}) {
    const MutableBytes error = scratch(wire::kMaxIcmpError);
    const std::size_t size = kind == 0   ? wire::emit_too_big(packet, wire::kMaxIcmpError, error)
                             : kind == 1 ? wire::emit_unreachable(packet, error)
                                         : wire::emit_no_route(packet, error);
    require(size <= error.size());
    if (size == 0) continue;
    const auto ipv4 = wire::Ipv4Header::parse(error.first(size));
    const auto ipv6 = wire::Ipv6Header::parse(error.first(size));
    require((ipv4 && ipv4->total_length == size) ||
            (ipv6 && wire::Ipv6Header::kSize + ipv6->payload_length == size));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes frame(data, std::min(size, kMaxSize));
  const CostLimit limit(kMaxCost);
  const auto type = wire::parse_encapsulation(frame);
  if (!type) return 0;
  std::array<std::uint8_t, wire::kEncapsulationSize> header;
  wire::emit_encapsulation(*type, header.data());
  require(wire::parse_encapsulation(header) == type);

  const ConstBytes packet = frame.subspan(wire::kEncapsulationSize);
  require_stable<wire::Arp>(packet);
  look_at_ipv4(packet, frame[2]);
  look_at_ipv6(packet);
  look_at_discovery(packet);
  look_at_upper_layer(packet);
  look_at_group_membership(packet);
  look_at_errors(packet);
  return 0;
}
