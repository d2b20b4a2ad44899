// Announces the addresses of the host, and of stations behind it, a few times: gratuitous ARP (RFC
// 5227, 2.3) and unsolicited neighbour advertisements (RFC 4861, 7.2.6). Each start of the daemon
// gives them a new QPN (RFC 4391, 9.4).
#pragma once

#include <vector>

#include "ipoib/ip.hpp"
#include "ipoib/time.hpp"
#include "link/config.hpp"
#include "link/output.hpp"

namespace ipoib::link {

class ArpOutput;
class HostAddresses;
class NdOutput;

class Announcer {
 public:
  Announcer(const Config& config, const HostAddresses& host, ArpOutput& arp, NdOutput& nd,
            Output& out)
      : config_(config), host_(host), arp_(arp), nd_(nd), out_(out) {}

  /// Starts the announcements of an address, or starts them over. Those of several addresses are
  /// spaced.
  void start(const IpAddress& address, TimePoint now);
  void start_all(TimePoint now);
  void stop() { pending_.clear(); }
  /// Starts the announcements of an address that is announced already, unless they go on.
  void repeat(const IpAddress& address, TimePoint now);
  /// Stops the announcements of an address, since a neighbour says that it has it. The first one
  /// is sent all the same: the neighbour may have said so before the host got the address.
  void stop(const IpAddress& address);
  /// Sends the announcements that are due; skips addresses that the host no longer has.
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;

 private:
  void announce(const IpAddress& address, TimePoint now);
  void erase(const IpAddress& address);

  struct Pending {
    IpAddress address;
    TimePoint due;
    unsigned left = 0;
  };

  const Config& config_;
  const HostAddresses& host_;
  ArpOutput& arp_;
  NdOutput& nd_;
  Output& out_;
  std::vector<Pending> pending_;
};

}  // namespace ipoib::link
