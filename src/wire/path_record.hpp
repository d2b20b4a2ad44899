// PathRecord: a path from one port to another.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "wire/sa_values.hpp"

namespace ipoib::wire {

/// PathRecord, 64 bytes (IBA 15.2.5.16).
struct PathRecord {
  static constexpr std::size_t kSize = 64;
  enum Mask : std::uint64_t {
    kServiceId = 3ULL << 0,  ///< each half is a component
    kDgid = 1ULL << 2,
    kSgid = 1ULL << 3,
    kDlid = 1ULL << 4,
    kSlid = 1ULL << 5,
    kRaw = 1ULL << 6,
    kFlowLabel = 1ULL << 8,
    kHopLimit = 1ULL << 9,
    kTrafficClass = 1ULL << 10,
    kReversible = 1ULL << 11,
    kNumbPath = 1ULL << 12,
    kPKey = 1ULL << 13,
    kQosClass = 1ULL << 14,
    kSl = 1ULL << 15,
    kMtuSelector = 1ULL << 16,
    kMtu = 1ULL << 17,
    kRateSelector = 1ULL << 18,
    kRate = 1ULL << 19,
    kLifetimeSelector = 1ULL << 20,
    kLifetime = 1ULL << 21,
  };

  std::uint64_t service_id = 0;
  Gid dgid;
  Gid sgid;
  Lid dlid;
  Lid slid;
  bool raw_traffic = false;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  bool reversible = false;
  std::uint8_t numb_path = 0;
  PKey pkey;
  std::uint16_t qos_class = 0;
  ServiceLevel sl;
  Selector mtu_selector = Selector::exactly;
  std::uint8_t mtu = 0;  ///< IBA code
  Selector rate_selector = Selector::exactly;
  std::uint8_t rate = 0;  ///< code
  Selector lifetime_selector = Selector::exactly;
  std::uint8_t lifetime = 0;  ///< 4.096 us * 2^lifetime
  std::uint8_t preference = 0;

  [[nodiscard]] static std::optional<PathRecord> parse(ConstBytes record);
  void emit(MutableBytes to) const;
  friend bool operator==(const PathRecord&, const PathRecord&) = default;
};

}  // namespace ipoib::wire
