// Gratuitous ARP: tells everybody, a few times, which addresses are here (RFC 5227, 2.3; the QPN in
// them is another one after each start of a daemon, RFC 4391, 9.4).
#pragma once

#include <vector>

#include "ipoib/ip.hpp"
#include "ipoib/time.hpp"
#include "link/config.hpp"
#include "link/output.hpp"

namespace ipoib::link {

class ArpOutput;
class HostAddresses;

class Announcer {
 public:
  Announcer(const Config& config, const HostAddresses& host, ArpOutput& arp, Output& out)
      : config_(config), host_(host), arp_(arp), out_(out) {}

  /// Announces the address anew. Several that are started together go out one after the other.
  void start(Ipv4Address address, TimePoint now);
  void start_all(TimePoint now);
  void stop() { pending_.clear(); }
  /// An address that the host has no longer is not announced.
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;

 private:
  struct Pending {
    Ipv4Address address;
    TimePoint due;
    unsigned left = 0;
  };

  const Config& config_;
  const HostAddresses& host_;
  ArpOutput& arp_;
  Output& out_;
  std::vector<Pending> pending_;
};

}  // namespace ipoib::link
