// Fabric to host: drops datagrams that are not for this host, and passes on IP, ARP and Neighbour
// Discovery.
#pragma once

#include <optional>
#include <span>

#include "link/bring_up.hpp"
#include "link/dhcp_rewriter.hpp"
#include "link/group_table.hpp"
#include "link/host_reports.hpp"
#include "link/neighbour_input.hpp"
#include "wire/encapsulation.hpp"

namespace ipoib::link {

class Receiver {
 public:
  /// The parts of the link that the receiver uses; all outlive it.
  struct Dependencies {
    const BringUp& bring_up;
    const HwAddress& own;
    GroupTable& groups;
    NeighbourTable& neighbours;
    NeighbourInput& input;
    DhcpRewriter& dhcp;
    HostReports& reports;
    Output& out;
  };

  explicit Receiver(const Dependencies& deps) : deps_(deps) {}

  /// Takes the datagrams' frames.
  void receive(std::span<Incoming> batch, TimePoint now);

 private:
  struct Plan {
    std::optional<wire::EtherType> type;
    std::optional<IpAddress> source;  ///< of an IP packet
  };

  [[nodiscard]] static const IpAddress* prepare(Frame& frame, Plan& plan);
  void receive_one(Incoming& datagram, const Plan& plan, Neighbour* known, TimePoint now);
  [[nodiscard]] bool is_ours(const Incoming& datagram, TimePoint now);
  void receive_ip(Incoming& datagram, const Plan& plan, Neighbour* known, TimePoint now);

  Dependencies deps_;
  /// The last sender that was checked: a run of its datagrams is checked once.
  struct {
    IpAddress address;
    Qpn qpn;
    Lid lid;
  } checked_{};
};

}  // namespace ipoib::link
