// What a Link consists of: its three owners, and the way of a packet. Members are in the order of
// their dependencies.
#pragma once

#include "link/link.hpp"
#include "link/link_setup.hpp"
#include "link/memberships.hpp"
#include "link/neighbour_resolution.hpp"
#include "link/receiver.hpp"
#include "link/transmitter.hpp"
#include "link/unrouted_packets.hpp"

namespace ipoib::link {

struct Link::Impl {
  Impl(const Config& settings, const Dependencies& deps, Qpn qpn, std::uint64_t seed);

  void take_port();
  void join_later(std::string_view why, TimePoint now);
  void go_down(TimePoint now);
  void confirm_registration(std::string_view why);
  void broadcast_joined(TimePoint now);
  /// Raises the carrier once the all-nodes groups have been joined or refused.
  void complete_bring_up(TimePoint now);
  [[nodiscard]] bool is_on_link(const IpAddress& address);

  const Config config;
  Logger& log;
  Output out;
  RequestIds ids;
  Random random;
  ParkingBudget parking;
  HostAddresses host;

  LinkSetup setup;
  Memberships memberships;
  NeighbourResolution neighbours;

  NextHops next_hops;
  DhcpRewriter dhcp;
  UnroutedPackets unrouted;
  Transmitter transmitter;
  Receiver receiver;
};

}  // namespace ipoib::link
