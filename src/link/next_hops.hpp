// Which neighbour a packet of the host is handed to. A TUN does not say: the kernel has chosen a
// route, and shows the packet alone. So its choice is made again, from a mirror of its tables.
//
// Only routes through the interface are in the mirror, since the kernel's choice was one of them.
// Rules are gone through in their order (see ip-rule(8)); one whose conditions a packet does not
// show is tried when no other leads anywhere. No route at all: the sender has bound itself to the
// interface, for which the kernel takes any destination to be on the link; and so do we.
// A table that no rule leads to comes last: an interface in a VRF has one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ipoib/host_view.hpp"

namespace ipoib::link {

class NextHops {
 public:
  /// Takes over the routes that the host has now.
  void update(const HostView& view);

  /// Not so: each destination is its own next hop.
  [[nodiscard]] bool has_gateways() const { return has_gateways_; }
  /// The neighbour for a packet: a gateway, or the destination itself. Packets of one source to one
  /// destination go the same way where a route has several.
  [[nodiscard]] IpAddress find(const IpAddress& source, const IpAddress& destination);

 private:
  /// The routes of one table and family with prefixes of one length.
  struct Length {
    std::uint8_t bits = 0;
    std::unordered_map<IpAddress, HostRoute> routes;
  };
  /// Longest first.
  using Lengths = std::vector<Length>;
  struct Table {
    std::array<Lengths, 2> by_family;
  };
  /// The last answers, so that a flow costs one comparison. Power of two.
  static constexpr std::size_t kCached = 1024;
  struct Answer {
    IpAddress source;
    IpAddress destination;
    IpAddress hop;
    bool is_set = false;
  };

  void add(Table& table, const HostRoute& route);
  /// The longest match of more than `ignored_bits` bits.
  [[nodiscard]] static const HostRoute* look_up(const Table& table, const IpAddress& destination,
                                                std::optional<std::uint8_t> ignored_bits);
  [[nodiscard]] const HostRoute* choose(const IpAddress& source,
                                        const IpAddress& destination) const;

  std::map<std::uint32_t, Table> tables_;
  std::vector<RoutingRule> rules_;
  bool has_gateways_ = false;
  std::vector<Answer> cache_;
};

}  // namespace ipoib::link
