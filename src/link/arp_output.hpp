// ARP messages on their way out.
#pragma once

#include "ipoib/frame.hpp"
#include "link/output.hpp"
#include "link/path.hpp"
#include "wire/arp.hpp"

namespace ipoib::link {

class HostAddresses;
class Group;

class ArpOutput {
 public:
  struct Environment {
    const HostAddresses& host;
    const HwAddress& own;  ///< goes into everything that is sent
    const Group& broadcast;
    FramePool& frames;
    Output& out;
  };

  explicit ArpOutput(const Environment& env) : env_(env) {}

  void broadcast_request(Ipv4Address target);
  void unicast_request(Ipv4Address target, const HwAddress& hardware, const PathData& path);
  /// Tells everybody that `address` is here (RFC 5227, 2.3).
  void announce(Ipv4Address address);
  /// The answer to a request, ready to be sent to who asked; a false frame when none is free.
  [[nodiscard]] Frame make_reply(const wire::Arp& request);
  /// The answer to somebody who has no address yet (RFC 5227, 2.1.1), for everybody.
  void broadcast_reply(const wire::Arp& request);

 private:
  [[nodiscard]] Frame make(const wire::Arp& message);
  [[nodiscard]] wire::Arp request_for(Ipv4Address target) const;
  void broadcast(Frame&& frame);

  Environment env_;
};

}  // namespace ipoib::link
