// NodeInfo and NodeRecord.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"

namespace ipoib::wire {

/// NodeInfo (IBA 14.2.5.3), 40 bytes.
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

/// NodeRecord (IBA 15.2.5.2), 108 bytes: LID, NodeInfo, NodeDescription.
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

using NodeTable = std::vector<NodeRecord>;

}  // namespace ipoib::wire
