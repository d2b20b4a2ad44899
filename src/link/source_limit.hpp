// Limits how often each source of datagrams may cause something, in constant memory.
//
// A source is a port: its HCA fills in its LID, and its GID if there is a GRH, and it cannot forge
// them. Sources share a fixed number of token buckets by a keyed hash, so no source can choose to
// use up the tokens of another one, and there is nothing to evict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ipoib/keyed_hash.hpp"
#include "ipoib/token_bucket.hpp"
#include "ipoib/ud_port.hpp"

namespace ipoib::link {

class SourceLimit {
 public:
  SourceLimit(std::uint32_t per_second, const HashKey& key)
      : hash_(key), buckets_(kBuckets, TokenBucket(per_second, per_second)) {}

  /// Takes a token of the sender; returns false if there is none now. `lmc` is that of the subnet's
  /// ports.
  [[nodiscard]] bool take(const Incoming& datagram, std::uint8_t lmc, TimePoint now) {
    const Gid source = datagram.has_grh ? datagram.source_gid
                                        : Gid(0, Guid(base_lid(datagram.source_lid, lmc).value()));
    return buckets_[hash_(source) % kBuckets].take(now);
  }

 private:
  static constexpr std::size_t kBuckets = 1024;
  KeyedHash hash_;
  std::vector<TokenBucket> buckets_;
};

}  // namespace ipoib::link
