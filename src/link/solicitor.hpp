// Questions for the hardware address of a neighbour: ARP or Neighbour Discovery, as its address
// is, and one limit on those that more than the neighbour hear.
#pragma once

#include "ipoib/ip.hpp"
#include "link/config.hpp"
#include "link/output.hpp"
#include "link/path.hpp"
#include "link/token_bucket.hpp"

namespace ipoib::link {

class ArpOutput;
class NdOutput;

class Solicitor {
 public:
  struct Environment {
    const Config& config;
    ArpOutput& arp;
    NdOutput& nd;
    Output& out;
  };

  explicit Solicitor(const Environment& env);

  // --- The rate limit --------------------------------------------------------------------------
  /// Whether a first question for a new neighbour may go soon: within the interval of repetitions.
  [[nodiscard]] bool may_ask_first(TimePoint now) const;
  /// The moment at which that is; it is the caller's. Only if may_ask_first().
  [[nodiscard]] TimePoint reserve_first(TimePoint now);
  /// Whether another one may go now.
  [[nodiscard]] bool admit_repetition(TimePoint now);
  /// Whether one for a neighbour that has answered before may go now.
  [[nodiscard]] bool admit_revalidation(TimePoint now);

  // --- Questions -------------------------------------------------------------------------------
  /// By broadcast, or to the solicited-node group. `prompt` is the datagram that waits for the
  /// answer, from its encapsulation header on; empty: none does.
  void ask_all(const IpAddress& target, ConstBytes prompt, TimePoint now);
  /// Where the neighbour was last.
  void ask(const IpAddress& target, const HwAddress& hardware, const PathData& path);

 private:
  [[nodiscard]] bool admit(TokenBucket& bucket, TimePoint now);

  Environment env_;
  TokenBucket first_;
  TokenBucket repetitions_;
  TokenBucket revalidations_;
};

}  // namespace ipoib::link
