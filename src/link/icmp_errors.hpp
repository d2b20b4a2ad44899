// ICMP errors to the host about its packets, which the link cannot deliver.
//
// RFC 1812, 4.3.2.8 and RFC 4443, 2.4 (f) require a rate limit. Packets of the host itself have a
// limit of their own, which strangers, whose packets the host forwards, cannot use up.
#pragma once

#include <cstdint>
#include <span>

#include "ipoib/frame.hpp"
#include "ipoib/token_bucket.hpp"
#include "link/config.hpp"
#include "link/output.hpp"

namespace ipoib::link {

class HostAddresses;

class IcmpErrors {
 public:
  /// The arguments outlive this object.
  IcmpErrors(const Config& config, const HostAddresses& host, Output& out);

  // The methods below drop a packet, count it as `why`, and report it to the host, if the rate
  // limit admits that. The message reuses the packet's frame.

  /// For an IP packet that is longer than `mtu` bytes and cannot be fragmented.
  void too_big(Frame&& packet, std::uint32_t mtu, Counter why, TimePoint now);
  /// For a packet whose next hop cannot be reached (RFC 4861, 7.2.2). The frame begins with the
  /// encapsulation header; nothing is reported about ARP.
  void unreachable(Frame&& frame, Counter why, TimePoint now);
  /// For an IP packet that no route covers.
  void no_route(Frame&& packet, TimePoint now);

 private:
  void send(Frame&& frame, ConstBytes message, Counter kind, TimePoint now);
  [[nodiscard]] bool admits(ConstBytes message, TimePoint now);

  const HostAddresses& host_;
  Output& out_;
  TokenBucket own_;
  TokenBucket forwarded_;
};

}  // namespace ipoib::link
