// Sends ARP messages.
#pragma once

#include <optional>

#include "ipoib/frame.hpp"
#include "link/host_reports.hpp"
#include "link/output.hpp"
#include "link/path.hpp"
#include "wire/arp.hpp"

namespace ipoib::link {

class HostAddresses;
class Group;

class ArpOutput {
 public:
  struct Dependencies {
    const HostAddresses& host;
    const HwAddress& own;  ///< sender address of all messages
    const Group& broadcast;
    FramePool& frames;
    HostReports& reports;
    Output& out;
  };

  explicit ArpOutput(const Dependencies& deps) : deps_(deps) {}

  /// `prompt` is the waiting datagram, which begins with the encapsulation header, or empty. The
  /// source address of the datagram becomes the sender address, if it is one of the host and
  /// arp_announce permits it.
  void broadcast_request(Ipv4Address target, ConstBytes prompt, TimePoint now);
  void unicast_request(Ipv4Address target, const HwAddress& hardware, const PathData& path);
  /// Broadcasts an announcement (RFC 5227, 2.3).
  void announce(Ipv4Address address);
  /// Returns the encapsulated reply to a request; a null frame if none is free.
  [[nodiscard]] Frame make_reply(const wire::Arp& request);
  /// Broadcasts the reply to a probe, which has no sender address (RFC 5227, 2.1.1).
  void broadcast_reply(const wire::Arp& request);

 private:
  [[nodiscard]] Frame make(const wire::Arp& message);
  [[nodiscard]] wire::Arp request_for(Ipv4Address target) const;
  [[nodiscard]] std::optional<Ipv4Address> source_of(ConstBytes prompt, Ipv4Address target,
                                                     TimePoint now) const;
  void broadcast(Frame&& frame);

  Dependencies deps_;
};

}  // namespace ipoib::link
