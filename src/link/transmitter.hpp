// Host to fabric: finds the next hop and the neighbour of each packet of the host, or its group.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "link/bring_up.hpp"
#include "link/dhcp_rewriter.hpp"
#include "link/group_table.hpp"
#include "link/icmp_errors.hpp"
#include "link/multicast_output.hpp"
#include "link/neighbour_table.hpp"
#include "link/next_hops.hpp"
#include "link/solicitor.hpp"
#include "link/unrouted_packets.hpp"
#include "wire/encapsulation.hpp"

namespace ipoib::link {

class Transmitter {
 public:
  /// The parts of the link that the transmitter uses; all outlive it.
  struct Dependencies {
    const Config& config;
    const BringUp& bring_up;
    const HwAddress& own;
    const HostAddresses& host;
    NextHops& next_hops;
    GroupTable& groups;
    MulticastOutput& multicast;
    Solicitor& solicitor;
    IcmpErrors& icmp;
    FramePool& packets;  ///< for fragments
    NeighbourTable& neighbours;
    DhcpRewriter& dhcp;
    UnroutedPackets& unrouted;
    Output& out;
  };

  explicit Transmitter(const Dependencies& deps) : deps_(deps) {}
  /// Of the link, in bytes; 0 before it has come up for the first time. Returns whether it changes.
  bool set_mtu(std::uint32_t bytes) { return std::exchange(mtu_, bytes) != bytes; }
  [[nodiscard]] std::uint32_t mtu() const { return mtu_; }

  /// Hops that the sender of a packet has chosen; nullopt where the routes decide.
  using Hops = std::span<const std::optional<IpAddress>>;

  /// Takes IP packets of the host, each with kHeadroom bytes before it. `hops` is empty, or has one
  /// for each packet.
  void transmit(std::span<Frame> batch, Hops hops, TimePoint now);
  /// Sends packets that have waited for a route, if there is one, or refuses them at their
  /// deadline.
  void retry(TimePoint now);
  /// See Link::solicit().
  void solicit(const IpAddress& address, TimePoint now);

 private:
  struct Plan {
    wire::EtherType type;
    IpAddress hop;
    bool is_resolved = false;  ///< the host has found a next hop and its MAC, as on a TAP
  };

  [[nodiscard]] std::optional<Plan> plan_for(ConstBytes packet);
  [[nodiscard]] static std::optional<Plan> plan_for(ConstBytes packet, const IpAddress& hop);
  [[nodiscard]] IpAddress next_hop(ConstBytes packet, const IpAddress& source,
                                   const IpAddress& destination);
  [[nodiscard]] bool is_covered(ConstBytes packet, const IpAddress& hop) const;
  void transmit_one(Frame&& frame, const std::optional<Plan>& plan, Neighbour* known,
                    TimePoint now);
  void transmit_too_big(Frame&& frame, const Plan& plan, TimePoint now);
  /// Creates an entry. Returns null, and counts why, if a limit forbids it.
  [[nodiscard]] Neighbour* create_neighbour(const IpAddress& address, TimePoint now);
  /// Sends a packet, which has waited for a route since `waits_since`; nullopt for a new packet.
  void send(Frame&& frame, const Plan& plan, Purpose purpose, Neighbour* known,
            std::optional<TimePoint> waits_since, TimePoint now);
  void transmit_unknown(Frame&& frame, const Plan& plan, std::optional<TimePoint> waits_since,
                        TimePoint now);
  void wait_for_route(Frame&& frame, std::optional<TimePoint> waits_since, TimePoint now);
  /// Returns the purpose that the message is sent for.
  [[nodiscard]] Purpose complete_message(Frame& frame, wire::EtherType type, TimePoint now);
  [[nodiscard]] Purpose complete_discovery(Frame& frame);

  Dependencies deps_;
  std::uint32_t mtu_ = 0;
};

}  // namespace ipoib::link
