// Sends the daemon's Neighbour Discovery messages, which resolve next hops and announce addresses,
// and adds link-layer options to those of the host's kernel.
#pragma once

#include "ipoib/frame.hpp"
#include "ipoib/ip.hpp"
#include "link/output.hpp"
#include "link/path.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::link {

class HostAddresses;
class MulticastOutput;
struct Config;

class NdOutput {
 public:
  struct Dependencies {
    const Config& config;
    const HostAddresses& host;
    const HwAddress& own;  ///< sender address of all messages
    MulticastOutput& groups;
    FramePool& frames;
    Output& out;
  };

  explicit NdOutput(const Dependencies& deps) : deps_(deps) {}

  // Without an IPv6 address of the host, a solicitation would look like duplicate address detection
  // (RFC 4862, 5.4.2). So none is sent; for stations it comes from the link-local address of the
  // port (RFC 4391, 8).
  /// Sends to the target's solicited-node group (RFC 4861, 7.2.2). The source is that of the
  /// datagram that caused it, `prompt`, if it is an address of the host.
  void multicast_solicitation(const Ipv6Address& target, ConstBytes prompt, TimePoint now);
  /// Sends a solicitation to all nodes.
  void search(const Ipv6Address& target, TimePoint now);
  void unicast_solicitation(const Ipv6Address& target, const HwAddress& hardware,
                            const PathData& path);
  /// Sends an unsolicited advertisement (RFC 4861, 7.2.6).
  void announce(const Ipv6Address& address, TimePoint now);

 private:
  [[nodiscard]] Ipv6Address source_for(const Ipv6Address& target, ConstBytes prompt) const;
  [[nodiscard]] Ipv6Address source_for(const Ipv6Address& target) const;
  void multicast(const wire::NdMessage& solicitation, TimePoint now);
  [[nodiscard]] wire::NdMessage solicitation_for(const Ipv6Address& target,
                                                 const Ipv6Address& source) const;
  [[nodiscard]] Frame make(const wire::NdMessage& message);

  Dependencies deps_;
};

/// Puts the link-layer option of RFC 4391, 9.3 into a valid message of the host; replaces any that
/// it has. A message that would become larger than `mtu` is left without. `packet` has at least
/// `kHeadroom` bytes of headroom.
void put_link_layer_option(Frame& packet, wire::LinkLayerOption option, const HwAddress& address,
                           std::size_t mtu);

}  // namespace ipoib::link
