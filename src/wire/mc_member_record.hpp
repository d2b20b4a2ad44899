// MCMemberRecord: a multicast group and the membership of a port in it.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "wire/sa_values.hpp"

namespace ipoib::wire {

/// MCMemberRecord, 52 bytes, 56 in a table (IBA 15.2.5.17).
struct McMemberRecord {
  static constexpr std::size_t kSize = 52;
  enum Mask : std::uint64_t {
    kMgid = 1ULL << 0,
    kPortGid = 1ULL << 1,
    kQKey = 1ULL << 2,
    kMlid = 1ULL << 3,
    kMtuSelector = 1ULL << 4,
    kMtu = 1ULL << 5,
    kTrafficClass = 1ULL << 6,
    kPKey = 1ULL << 7,
    kRateSelector = 1ULL << 8,
    kRate = 1ULL << 9,
    kLifetimeSelector = 1ULL << 10,
    kLifetime = 1ULL << 11,
    kSl = 1ULL << 12,
    kFlowLabel = 1ULL << 13,
    kHopLimit = 1ULL << 14,
    kScope = 1ULL << 15,
    kJoinState = 1ULL << 16,
    kProxyJoin = 1ULL << 17,
  };
  enum JoinState : std::uint8_t {
    kFullMember = 1,
    kNonMember = 2,
    kSendOnlyNonMember = 4,
    kSendOnlyFullMember = 8,
  };

  Gid mgid;
  Gid port_gid;
  QKey qkey;
  Lid mlid;
  Selector mtu_selector = Selector::exactly;
  std::uint8_t mtu = 0;
  std::uint8_t traffic_class = 0;
  PKey pkey;
  Selector rate_selector = Selector::exactly;
  std::uint8_t rate = 0;
  Selector lifetime_selector = Selector::exactly;
  std::uint8_t lifetime = 0;
  ServiceLevel sl;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t scope = 0;
  std::uint8_t join_state = 0;  ///< OR of JoinState
  bool proxy_join = false;

  [[nodiscard]] static std::optional<McMemberRecord> parse(ConstBytes record);
  void emit(MutableBytes to) const;
  friend bool operator==(const McMemberRecord&, const McMemberRecord&) = default;
};

}  // namespace ipoib::wire
