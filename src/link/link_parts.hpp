// The parts of a Link, and what they share. Members are in the order of their dependence.
#pragma once

#include "link/announcer.hpp"
#include "link/arp_output.hpp"
#include "link/bring_up.hpp"
#include "link/dhcp_rewriter.hpp"
#include "link/group_table.hpp"
#include "link/host_addresses.hpp"
#include "link/link.hpp"
#include "link/multicast_output.hpp"
#include "link/nd_input.hpp"
#include "link/nd_output.hpp"
#include "link/neighbour_table.hpp"
#include "link/next_hops.hpp"
#include "link/path_table.hpp"
#include "link/send_group_table.hpp"
#include "link/solicitor.hpp"
#include "wire/encapsulation.hpp"

namespace ipoib::link {

/// What the way of a packet depends on, and the neighbour that it leads to.
struct Transmission {
  wire::EtherType type;
  IpAddress hop;
};

/// What a datagram announces itself as, and who sent the IP packet that it is, if it is one.
struct Arrival {
  std::optional<wire::EtherType> type;
  std::optional<IpAddress> source;
};

struct Link::Parts {
  Parts(const Config& settings, const Surroundings& around, Qpn number, std::uint64_t seed);

  // Port, groups, queue pair (link.cpp).
  void take_port();
  void join();
  void go_down(TimePoint now);
  void confirm_registration(std::string_view why);
  void broadcast_joined(TimePoint now);
  void configure_queue_pair();
  void set_mtu(std::uint32_t octets);
  /// Entries for what cannot be a neighbour any more.
  void drop_own_entries();

  // Host to fabric (transmit.cpp).
  // `known`: the neighbour's entry, if that has been looked up.
  void transmit(Frame&& frame, const std::optional<Transmission>& plan, Neighbour* known,
                TimePoint now);
  [[nodiscard]] std::optional<Transmission> plan_for(ConstBytes packet);
  [[nodiscard]] IpAddress next_hop(const IpAddress& source, const IpAddress& destination);
  void transmit_unknown(Frame&& frame, wire::EtherType type, const IpAddress& hop, TimePoint now);
  void transmit_multicast(Frame&& frame, const IpAddress& group, TimePoint now);
  void complete_message(Frame& frame, wire::EtherType type, TimePoint now);
  void complete_discovery(Frame& frame);

  // Fabric to host (receive.cpp).
  void receive(Incoming& datagram, const Arrival& arrival, Neighbour* known, TimePoint now);
  [[nodiscard]] bool is_ours(const Incoming& datagram);
  void receive_ip(Incoming& datagram, const Arrival& arrival, Neighbour* known, TimePoint now);
  [[nodiscard]] bool receive_discovery(Incoming& datagram, TimePoint now);
  void receive_arp(const Incoming& datagram, TimePoint now);
  [[nodiscard]] Neighbour* find_or_create(const IpAddress& address);
  void learn(const NdLesson& lesson, const Incoming& datagram, TimePoint now);
  void learn(Neighbour& sender, const HwAddress& hardware, Evidence evidence,
             const Incoming& datagram, TimePoint now);
  void answer(Neighbour& requester, const wire::Arp& request, TimePoint now);
  void answer_probe(const wire::Arp& request, TimePoint now);
  void note_duplicate(const wire::Arp& message, TimePoint now);
  void check_source(const Neighbour& sender, const Incoming& datagram, TimePoint now);

  const Config config;
  Logger& log;
  Output out;
  RequestIds ids;
  Random random;
  ParkingBudget parking;
  HwAddress own;  ///< QPN of the queue pair, GID of the port
  PortGid port_gid;
  BringUp bring_up;
  std::uint32_t mtu = 0;
  HostAddresses host;
  NextHops next_hops;
  const GroupDependencies membership;
  GroupTable groups;
  SendGroupTable send_groups;
  MulticastOutput multicast;
  PathTable paths;
  ArpOutput arp;
  NdOutput nd;
  Solicitor solicitor;
  NeighbourTable neighbours;
  Announcer announcer;
  DhcpRewriter dhcp;
  /// What the queue pair is configured with; nothing: it is not.
  std::optional<ConfigureQueuePair> configured;
  /// Until when no duplicate address is logged.
  TimePoint quiet_until{};
  /// The sender that was looked at last, and found in order.
  struct {
    IpAddress address;
    Qpn qpn;
    Lid lid;
  } checked;
};

}  // namespace ipoib::link
