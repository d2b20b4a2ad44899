// The objects that a Link consists of. Members are in the order of their dependencies.
#pragma once

#include "link/announcer.hpp"
#include "link/host_reports.hpp"
#include "link/icmp_errors.hpp"
#include "link/link.hpp"
#include "link/nd_output.hpp"
#include "link/pins.hpp"
#include "link/receiver.hpp"
#include "link/routed_groups.hpp"
#include "link/send_group_table.hpp"
#include "link/transmitter.hpp"
#include "link/unrouted_packets.hpp"

namespace ipoib::link {

struct Link::Impl {
  Impl(const Config& settings, const Dependencies& deps, Qpn qpn, std::uint64_t seed);

  void take_port();
  void join();
  void join_later(std::string_view why, TimePoint now);
  void go_down(TimePoint now);
  void confirm_registration(std::string_view why);
  void broadcast_joined(TimePoint now);
  /// Raises the carrier once the all-nodes groups have been joined or refused.
  void complete_bring_up(TimePoint now);
  void set_carrier(bool on);
  void update_routed_groups(TimePoint now) { groups.set_routed_groups(routed.groups(), now); }
  void configure_queue_pair();
  void set_mtu(std::uint32_t bytes);
  /// Removes the entries of addresses that are now the host's own or broadcast addresses.
  void remove_own_entries();
  void remove_entry_of_this_host(const IpAddress& address);
  void update_host_groups(TimePoint now);
  [[nodiscard]] bool is_on_link(const IpAddress& address);
  void report_pin(NeighbourChange::Kind kind, const NeighbourInfo& neighbour);

  const Config config;
  Logger& log;
  Output out;
  RequestIds ids;
  Random random;
  ParkingBudget parking;
  NeighbourStatistics neighbour_statistics;
  HwAddress own;  ///< QPN of the queue pair, GID of the port
  PortGid port_gid;
  BringUp bring_up;
  HostAddresses host;
  std::optional<wire::McMemberRecord> parameters;  ///< of the broadcast group while it is joined
  const GroupDependencies membership;
  std::vector<IpAddress> host_groups;
  std::vector<IpAddress> station_groups;
  GroupTable groups;
  RoutedGroups routed;
  SendGroupTable send_groups;
  MulticastOutput multicast;
  PathTable paths;
  HostReports reports;
  ArpOutput arp;
  NdOutput nd;
  Solicitor solicitor;
  IcmpErrors icmp;
  NeighbourTable neighbours;
  NextHops next_hops;
  Announcer announcer;
  DhcpRewriter dhcp;
  Pins pins;
  NeighbourInput neighbour_input;
  UnroutedPackets unrouted;
  Transmitter transmitter;
  Receiver receiver;
  /// Current configuration of the queue pair; nullopt if it is not configured.
  std::optional<ConfigureQueuePair> configured;
  bool carrier = false;
};

}  // namespace ipoib::link
