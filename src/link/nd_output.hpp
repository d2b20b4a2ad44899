// Messages of Neighbour Discovery on their way out: the daemon's own, which resolve next hops and
// announce addresses, and the link-layer options of those that the host's kernel sends.
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
  struct Environment {
    const Config& config;
    const HostAddresses& host;
    const HwAddress& own;  ///< goes into everything that is sent
    MulticastOutput& groups;
    FramePool& frames;
    Output& out;
  };

  explicit NdOutput(const Environment& env) : env_(env) {}

  // A host that has no IPv6 address to ask from does not ask: it would look as if it wanted the
  // target for itself (RFC 4862, 5.4.2).
  /// To the target's solicited-node group (RFC 4861, 7.2.2), from the address that the datagram
  /// which prompts it has, if that is the host's own.
  void multicast_solicitation(const Ipv6Address& target, ConstBytes prompt, TimePoint now);
  void unicast_solicitation(const Ipv6Address& target, const HwAddress& hardware,
                            const PathData& path);
  /// Tells everybody that `address` is here (RFC 4861, 7.2.6).
  void announce(const Ipv6Address& address, TimePoint now);

 private:
  [[nodiscard]] Ipv6Address source_for(const Ipv6Address& target, ConstBytes prompt) const;
  [[nodiscard]] wire::NdMessage solicitation_for(const Ipv6Address& target,
                                                 const Ipv6Address& source) const;
  [[nodiscard]] Frame make(const wire::NdMessage& message);

  Environment env_;
};

/// Puts the link-layer option of RFC 4391, 9.3 into a valid message of the host, in the place of
/// any that it has. `octets`, the size of the packet before it, may grow to `mtu`: a message that
/// leaves no room goes without. `packet` lies `kHeadroom` octets or more into its slot.
void put_link_layer_option(Frame& packet, wire::LinkLayerOption option, const HwAddress& address,
                           std::size_t mtu);

}  // namespace ipoib::link
