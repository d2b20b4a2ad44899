// Management datagrams (MADs): the common header (IBA 13.4.3), RMPP (13.6.2) and the SA header
// (15.2.1.1).
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"

namespace ipoib::wire {

inline constexpr std::size_t kMadSize = 256;
inline constexpr std::size_t kMadHeaderSize = 24;
inline constexpr std::size_t kRmppHeaderSize = 12;
inline constexpr std::size_t kSaHeaderSize = 56;  ///< MAD + RMPP + SA headers: records begin here
inline constexpr std::size_t kSaDataSize = kMadSize - kSaHeaderSize;  ///< 200 bytes
inline constexpr QKey kGsiQKey{0x80010000};
inline constexpr Qpn kGsiQpn{1};

namespace mgmt_class {
inline constexpr std::uint8_t kSubnLid = 0x01;
inline constexpr std::uint8_t kSubnDirected = 0x81;
inline constexpr std::uint8_t kSubnAdm = 0x03;
inline constexpr std::uint8_t kPerf = 0x04;
}  // namespace mgmt_class

namespace method {
inline constexpr std::uint8_t kGet = 0x01;
inline constexpr std::uint8_t kSet = 0x02;
inline constexpr std::uint8_t kSend = 0x03;
inline constexpr std::uint8_t kReport = 0x06;
inline constexpr std::uint8_t kGetTable = 0x12;
inline constexpr std::uint8_t kDelete = 0x15;
inline constexpr std::uint8_t kResponse = 0x80;  ///< bit
inline constexpr std::uint8_t kGetResp = 0x81;
inline constexpr std::uint8_t kReportResp = 0x86;
inline constexpr std::uint8_t kGetTableResp = 0x92;
inline constexpr std::uint8_t kDeleteResp = 0x95;
}  // namespace method

namespace attribute {
inline constexpr std::uint16_t kClassPortInfo = 0x0001;
inline constexpr std::uint16_t kNotice = 0x0002;
inline constexpr std::uint16_t kInformInfo = 0x0003;
inline constexpr std::uint16_t kNodeInfo = 0x0011;
inline constexpr std::uint16_t kPortInfo = 0x0015;
inline constexpr std::uint16_t kNodeRecord = 0x0011;
inline constexpr std::uint16_t kPortInfoRecord = 0x0012;
inline constexpr std::uint16_t kPortCounters = 0x0012;
inline constexpr std::uint16_t kPortCountersExtended = 0x001d;
inline constexpr std::uint16_t kServiceRecord = 0x0031;
inline constexpr std::uint16_t kPathRecord = 0x0035;
inline constexpr std::uint16_t kMcMemberRecord = 0x0038;
}  // namespace attribute

/// The status bits that all classes have (IBA 13.4.7).
namespace mad_status {
inline constexpr std::uint16_t kUnsupportedVersion = 1 << 2;
inline constexpr std::uint16_t kUnsupportedMethodAttribute = 3 << 2;
inline constexpr std::uint16_t kInvalidField = 7 << 2;
}  // namespace mad_status

struct MadHeader {
  std::uint8_t base_version = 1;
  std::uint8_t management_class = 0;
  std::uint8_t class_version = 0;
  std::uint8_t method = 0;
  std::uint16_t status = 0;  ///< for the SA: class bits 0x0100.. (see sa_status.hpp)
  std::uint16_t class_specific = 0;
  std::uint64_t transaction_id = 0;
  std::uint16_t attribute_id = 0;
  std::uint32_t attribute_modifier = 0;

  [[nodiscard]] bool is_response() const { return (method & method::kResponse) != 0; }
  /// Returns nullopt for fewer than kMadHeaderSize bytes or another base version.
  [[nodiscard]] static std::optional<MadHeader> parse(ConstBytes mad);
  void emit(MutableBytes to) const;  ///< kMadHeaderSize bytes
  friend bool operator==(const MadHeader&, const MadHeader&) = default;
};

enum class RmppType : std::uint8_t { none = 0, data = 1, ack = 2, stop = 3, abort = 4 };

struct RmppHeader {
  static constexpr std::uint8_t kActive = 1;
  static constexpr std::uint8_t kFirst = 2;
  static constexpr std::uint8_t kLast = 4;

  std::uint8_t version = 1;
  RmppType type = RmppType::none;
  std::uint8_t response_time = 0x1f;  ///< 5 bits; 0x1f: none given
  std::uint8_t flags = 0;             ///< 3 bits
  std::uint8_t status = 0;
  std::uint32_t data1 = 0;  ///< DATA, ACK: segment number
  std::uint32_t data2 = 0;  ///< DATA: payload length of first and last; ACK: new window last

  [[nodiscard]] bool is_active() const { return (flags & kActive) != 0; }
  [[nodiscard]] static std::optional<RmppHeader> parse(ConstBytes rmpp);
  void emit(MutableBytes to) const;  ///< kRmppHeaderSize bytes
  friend bool operator==(const RmppHeader&, const RmppHeader&) = default;
};

/// The distance of records of this size in a table, in units of 8 bytes (IBA 15.2.1.1).
[[nodiscard]] constexpr std::uint16_t attribute_offset(std::size_t record_size) {
  return static_cast<std::uint16_t>((record_size + 7) / 8);
}

struct SaHeader {
  MadHeader mad;
  RmppHeader rmpp;
  std::uint64_t sm_key = 0;
  std::uint16_t attribute_offset = 0;  ///< of the records in a table, see wire::attribute_offset()
  std::uint64_t component_mask = 0;

  /// Returns nullopt for anything but a complete header of class SubnAdm, version 2.
  [[nodiscard]] static std::optional<SaHeader> parse(ConstBytes mad);
  void emit(MutableBytes to) const;  ///< kSaHeaderSize bytes
  friend bool operator==(const SaHeader&, const SaHeader&) = default;
};

}  // namespace ipoib::wire
