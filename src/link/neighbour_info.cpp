#include "link/neighbour_info.hpp"

namespace ipoib::link {

std::string_view name(NeighbourState state) {
  switch (state) {
    case NeighbourState::incomplete:
      return "incomplete";
    case NeighbourState::resolving:
      return "resolving";
    case NeighbourState::reachable:
      return "reachable";
    case NeighbourState::stale:
      return "stale";
    case NeighbourState::delay:
      return "delay";
    case NeighbourState::probing:
      return "probing";
    case NeighbourState::failed:
      return "failed";
    case NeighbourState::permanent:
      return "permanent";
    case NeighbourState::pinned:
      return "pinned";
  }
  return "unknown";
}

std::string_view name(GroupState state) {
  switch (state) {
    case GroupState::absent:
      return "absent";
    case GroupState::joining:
      return "joining";
    case GroupState::full:
      return "full";
    case GroupState::routed:
      return "routed";
    case GroupState::send_only:
      return "send-only";
    case GroupState::missing:
      return "missing";
  }
  return "unknown";
}

std::string_view name(LinkState state) {
  switch (state) {
    case LinkState::port_down:
      return "port_down";
    case LinkState::port_polling:
      return "port_polling";
    case LinkState::port_init:
      return "port_init";
    case LinkState::port_armed:
      return "port_armed";
    case LinkState::no_gid:
      return "no_gid";
    case LinkState::no_subnet_manager:
      return "no_subnet_manager";
    case LinkState::no_pkey:
      return "no_pkey";
    case LinkState::joining:
      return "joining";
    case LinkState::up:
      return "up";
    case LinkState::stopped:
      return "stopped";
  }
  return "unknown";
}

}  // namespace ipoib::link
