// ARP requests of the fabric that were passed on to stations, and wait for an answer. The hosts of
// the fabric share the limit fairly.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/fair_share.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/time.hpp"
#include "wire/arp.hpp"

namespace ipoib::ethernet {

class FabricRequests {
 public:
  static constexpr std::size_t kMax = 512;  ///< at most half of them of one host
  static constexpr Duration kPatience = std::chrono::seconds(3);

  /// Adds a request, or lets it wait for longer if it is a repetition. Returns false if too many
  /// wait.
  [[nodiscard]] bool add(const wire::Arp& request, TimePoint now) {
    erase_if([&](const Waiting& one) {
      return one.until <= now || (one.request.target_protocol == request.target_protocol &&
                                  one.request.sender_hardware == request.sender_hardware);
    });
    if (!shares_.take(request.sender_hardware)) return false;
    waiting_.push_back({request, now + kPatience});
    return true;
  }
  /// Moves the requests for `target` to the end of `out`.
  void take(Ipv4Address target, std::vector<wire::Arp>& out) {
    erase_if([&](const Waiting& one) {
      const bool is_for = one.request.target_protocol == target;
      if (is_for) out.push_back(one.request);
      return is_for;
    });
  }

 private:
  struct Waiting {
    wire::Arp request;
    TimePoint until;
  };
  template <class Predicate>
  void erase_if(Predicate is_obsolete) {
    std::erase_if(waiting_, [&](const Waiting& one) {
      if (!is_obsolete(one)) return false;
      shares_.give_back(one.request.sender_hardware);
      return true;
    });
  }

  std::vector<Waiting> waiting_;
  FairShare<HwAddress> shares_{kMax};
};

}  // namespace ipoib::ethernet
