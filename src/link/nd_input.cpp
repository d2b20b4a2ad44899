#include "link/nd_input.hpp"

#include "link/arp_input.hpp"

namespace ipoib::link {
namespace {

using wire::NdMessage;
using wire::NdType;

NeighbourUpdate advertised(const NdMessage& message) {
  return {.neighbour = message.target,
          .hardware = message.target_link_layer,
          .evidence = message.is_solicited ? Evidence::confirmed : Evidence::unconfirmed,
          .creates_entry = false,
          .overrides = message.overrides};
}

NeighbourUpdate read(const NdMessage& message, const HostAddresses& host) {
  switch (message.type) {
    case NdType::neighbour_advertisement:
      return advertised(message);
    case NdType::redirect:
      return {.neighbour = message.target, .hardware = message.target_link_layer};
    case NdType::neighbour_solicitation:
      // Whoever solicits this host, or a station behind it, gets a reply; other solicitations
      // create no entry.
      return {.neighbour = message.source,
              .hardware = message.source_link_layer,
              .creates_entry = host.speaks_for(message.target)};
    case NdType::router_solicitation:
      // A router solicitation is for routers only (RFC 4861, 6.2.6 and 4.1).
      return {.neighbour = message.source,
              .hardware = message.source_link_layer,
              .creates_entry = host.is_ipv6_router()};
    case NdType::router_advertisement:
      break;
  }
  return {.neighbour = message.source, .hardware = message.source_link_layer};
}

}  // namespace

std::optional<NeighbourClaim> claim_in(const NdMessage& message) {
  const bool is_advertisement = message.type == NdType::neighbour_advertisement;
  const auto& hardware = is_advertisement ? message.target_link_layer : message.source_link_layer;
  if (!hardware || message.type == NdType::redirect) return std::nullopt;
  return NeighbourClaim{is_advertisement ? message.target : message.source, *hardware};
}

std::optional<NeighbourUpdate> neighbour_update(const NdMessage& message, const HostAddresses& host,
                                                const HwAddress& own) {
  const NeighbourUpdate update = read(message, host);
  if (!host.can_be_neighbour(update.neighbour)) return std::nullopt;
  const auto& hardware = update.hardware;
  if (hardware && (!is_endpoint(*hardware) || hardware->same_endpoint(own))) return std::nullopt;
  // Without an address only a solicited advertisement says anything.
  if (!hardware && update.evidence != Evidence::confirmed) return std::nullopt;
  return update;
}

}  // namespace ipoib::link
