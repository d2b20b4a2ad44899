// Solicits the hardware address of a neighbour by ARP or Neighbour Discovery, and limits the rate
// of broadcast and multicast solicitations.
#pragma once

#include "ipoib/ip.hpp"
#include "ipoib/token_bucket.hpp"
#include "link/config.hpp"
#include "link/output.hpp"
#include "link/path.hpp"

namespace ipoib::link {

class ArpOutput;
class NdOutput;

class Solicitor {
 public:
  struct Dependencies {
    const Config& config;
    ArpOutput& arp;
    NdOutput& nd;
    Output& out;
  };

  explicit Solicitor(const Dependencies& deps);

  // --- The rate limit --------------------------------------------------------------------------
  /// Whether the first solicitation of a new neighbour can be sent within the retransmit interval.
  [[nodiscard]] bool may_solicit_first(TimePoint now) const;
  /// Reserves and returns the time of the first solicitation. Requires may_solicit_first().
  [[nodiscard]] TimePoint reserve_first(TimePoint now);
  /// Whether a repetition may be sent now.
  [[nodiscard]] bool admit_repetition(TimePoint now);
  /// Whether a neighbour that has answered before may be solicited now.
  [[nodiscard]] bool admit_revalidation(TimePoint now);

  // --- Solicitations ---------------------------------------------------------------------------
  /// Solicits by broadcast, or to the solicited-node group. `prompt` is the waiting datagram, which
  /// begins with the encapsulation header; empty if there is none.
  void solicit_all(const IpAddress& target, ConstBytes prompt, TimePoint now);
  /// Solicits all hosts, also with IPv6: the one that has the target now need not be a member of
  /// its solicited-node group yet.
  void search(const IpAddress& target, TimePoint now);
  /// Solicits by unicast to the last known address.
  void solicit(const IpAddress& target, const HwAddress& hardware, const PathData& path);

 private:
  [[nodiscard]] bool admit(TokenBucket& bucket, TimePoint now);

  Dependencies deps_;
  TokenBucket first_;
  TokenBucket repetitions_;
  TokenBucket revalidations_;
};

}  // namespace ipoib::link
