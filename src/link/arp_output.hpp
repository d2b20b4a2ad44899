// ARP messages on their way out, and the limit on those that everybody hears.
#pragma once

#include "ipoib/frame.hpp"
#include "link/config.hpp"
#include "link/output.hpp"
#include "link/path.hpp"
#include "link/token_bucket.hpp"
#include "wire/arp.hpp"

namespace ipoib::link {

class HostAddresses;
class Group;

class ArpOutput {
 public:
  struct Environment {
    const Config& config;
    const HostAddresses& host;
    const Group& broadcast;
    FramePool& frames;
    Output& out;
  };

  explicit ArpOutput(const Environment& env);

  /// Our own address, which goes into everything that is sent from now on.
  void set_hardware(const HwAddress& own) { own_ = own; }
  [[nodiscard]] const HwAddress& hardware() const { return own_; }

  // --- The rate limit --------------------------------------------------------------------------
  /// Whether a first request for a new neighbour may go soon: within the interval of repetitions.
  [[nodiscard]] bool may_ask_first(TimePoint now) const;
  /// The moment at which that is; it is the caller's. Only if may_ask_first().
  [[nodiscard]] TimePoint reserve_first(TimePoint now);
  /// Whether another one may go now.
  [[nodiscard]] bool admit_repetition(TimePoint now);
  /// Whether one for a neighbour that has answered before may go now.
  [[nodiscard]] bool admit_revalidation(TimePoint now);

  // --- Messages --------------------------------------------------------------------------------
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
  HwAddress own_;
  TokenBucket first_;
  TokenBucket repetitions_;
  TokenBucket revalidations_;
};

}  // namespace ipoib::link
