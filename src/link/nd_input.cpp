#include "link/nd_input.hpp"

#include "link/arp_input.hpp"

namespace ipoib::link {
namespace {

using wire::NdMessage;
using wire::NdType;

NdLesson advertised(const NdMessage& message) {
  return {.neighbour = message.target,
          .hardware = message.target_link_layer,
          .evidence = message.is_solicited ? Evidence::confirmed : Evidence::unconfirmed,
          .makes_entry = false,
          .overrides = message.overrides};
}

NdLesson read(const NdMessage& message, const HostAddresses& host) {
  switch (message.type) {
    case NdType::neighbour_advertisement:
      return advertised(message);
    case NdType::redirect:
      return {.neighbour = message.target, .hardware = message.target_link_layer};
    case NdType::neighbour_solicitation:
      // Whoever asks for us will be answered; what others ask of others makes no entries.
      return {.neighbour = message.source,
              .hardware = message.source_link_layer,
              .makes_entry = host.is_own(message.target)};
    case NdType::router_solicitation:
    case NdType::router_advertisement:
      break;
  }
  return {.neighbour = message.source, .hardware = message.source_link_layer};
}

}  // namespace

std::optional<NdLesson> lesson_of(const NdMessage& message, const HostAddresses& host,
                                  const HwAddress& own) {
  const NdLesson lesson = read(message, host);
  if (!host.can_be_neighbour(lesson.neighbour)) return std::nullopt;
  const auto& hardware = lesson.hardware;
  if (hardware && (!is_endpoint(*hardware) || hardware->same_endpoint(own))) return std::nullopt;
  // Without an address, only the answer to a question says anything.
  if (!hardware && lesson.evidence != Evidence::confirmed) return std::nullopt;
  return lesson;
}

}  // namespace ipoib::link
