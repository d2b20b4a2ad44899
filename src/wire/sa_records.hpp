// Records of the subnet administrator (IBA 15.2.5) with their component masks, as values.
// Each has parse() from a record's octets and emit() to them; sizes are those on the wire.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"

namespace ipoib::wire {

/// How a value of a query is to be compared (IBA 15.2.5.16).
enum class Selector : std::uint8_t { greater = 0, less = 1, exactly = 2, largest = 3 };

/// IBA MTU code (1..5 = 256..4096) and its size in octets; 0 for an invalid code, 0 for no such
/// size.
[[nodiscard]] constexpr std::uint32_t mtu_octets(std::uint8_t code) {
  return code >= 1 && code <= 5 ? 128U << code : 0;
}
[[nodiscard]] constexpr std::uint8_t mtu_code(std::uint32_t octets) {
  for (std::uint8_t code = 1; code <= 5; ++code) {
    if (mtu_octets(code) == octets) return code;
  }
  return 0;
}
/// IBA rate code of a PathRecord in Mb/s (2 = 2500, 3 = 10000, ...); 0 for an unknown code.
[[nodiscard]] std::uint32_t rate_mbps(std::uint8_t code);

/// PathRecord, 64 octets (IBA 15.2.5.16).
struct PathRecord {
  static constexpr std::size_t kSize = 64;
  enum Mask : std::uint64_t {
    kServiceId = 1ULL << 0,
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
  std::uint8_t mtu = 0;  ///< code
  Selector rate_selector = Selector::exactly;
  std::uint8_t rate = 0;  ///< code
  Selector lifetime_selector = Selector::exactly;
  std::uint8_t lifetime = 0;  ///< 4.096 us * 2^lifetime
  std::uint8_t preference = 0;

  [[nodiscard]] static std::optional<PathRecord> parse(ConstBytes record);
  void emit(MutableBytes to) const;
  friend bool operator==(const PathRecord&, const PathRecord&) = default;
};

/// MCMemberRecord, 52 octets, 56 in a table (IBA 15.2.5.17).
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

/// NodeInfo (IBA 14.2.5.3), 40 octets.
struct NodeInfo {
  static constexpr std::size_t kSize = 40;
  enum Type : std::uint8_t { kChannelAdapter = 1, kSwitch = 2, kRouter = 3 };
  std::uint8_t type = kChannelAdapter;
  std::uint8_t ports = 1;
  Guid system_image_guid;
  Guid node_guid;
  Guid port_guid;
  std::uint16_t partition_capacity = 0;
  std::uint16_t device_id = 0;
  std::uint32_t revision = 0;
  std::uint8_t local_port = 1;
  std::uint32_t vendor_id = 0;  ///< 24 bits

  [[nodiscard]] static std::optional<NodeInfo> parse(ConstBytes bytes);
  void emit(MutableBytes to) const;
  friend bool operator==(const NodeInfo&, const NodeInfo&) = default;
};

/// NodeRecord (IBA 15.2.5.2), 108 octets: LID, NodeInfo, NodeDescription.
struct NodeRecord {
  static constexpr std::size_t kSize = 108;
  static constexpr std::size_t kDescriptionSize = 64;
  enum Mask : std::uint64_t {
    kLid = 1ULL << 0,
    kNodeType = 1ULL << 4,
    kSystemImageGuid = 1ULL << 6,
    kNodeGuid = 1ULL << 7,
    kPortGuid = 1ULL << 8,
    kDescription = 1ULL << 14,
  };
  Lid lid;
  NodeInfo node;
  std::array<char, kDescriptionSize> description{};  ///< zero-padded

  [[nodiscard]] static std::optional<NodeRecord> parse(ConstBytes record);
  void emit(MutableBytes to) const;
  friend bool operator==(const NodeRecord&, const NodeRecord&) = default;
};

/// PortInfo (IBA 14.2.5.6), 64 octets: the fields that a UD subnet without routing has.
struct PortInfo {
  static constexpr std::size_t kSize = 64;
  std::uint64_t m_key = 0;
  std::uint64_t gid_prefix = Gid::kLinkLocalPrefix;
  Lid lid;
  Lid sm_lid;
  std::uint32_t capability_mask = 0;
  std::uint8_t local_port = 1;
  std::uint8_t link_width_enabled = 0;
  std::uint8_t link_width_supported = 0;
  std::uint8_t link_width_active = 0;
  std::uint8_t link_speed_supported = 0;
  std::uint8_t port_state = 0;      ///< 1 down, 2 init, 3 armed, 4 active
  std::uint8_t physical_state = 0;  ///< 3 disabled, 5 link up
  std::uint8_t lmc = 0;
  std::uint8_t link_speed_active = 0;
  std::uint8_t link_speed_enabled = 0;
  std::uint8_t neighbor_mtu = 0;  ///< code
  ServiceLevel sm_sl;
  std::uint8_t vl_capability = 0;
  std::uint8_t mtu_capability = 0;  ///< code
  std::uint8_t guid_capability = 1;
  bool client_reregister = false;
  std::uint8_t subnet_timeout = 0;

  [[nodiscard]] static std::optional<PortInfo> parse(ConstBytes bytes);
  void emit(MutableBytes to) const;
  friend bool operator==(const PortInfo&, const PortInfo&) = default;
};

/// PortInfoRecord (IBA 15.2.5.3), 68 octets: EndportLID, port number, options, PortInfo.
struct PortInfoRecord {
  static constexpr std::size_t kSize = 68;
  enum Mask : std::uint64_t { kLid = 1ULL << 0, kPort = 1ULL << 1 };
  Lid lid;
  std::uint8_t port = 1;
  PortInfo info;

  [[nodiscard]] static std::optional<PortInfoRecord> parse(ConstBytes record);
  void emit(MutableBytes to) const;
  friend bool operator==(const PortInfoRecord&, const PortInfoRecord&) = default;
};

}  // namespace ipoib::wire
