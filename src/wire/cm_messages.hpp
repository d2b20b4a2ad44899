// Messages of communication management (IBA volume 1, 12.6). Each is a MAD of class 7 with method
// Send; the attribute names the message.
//
//   active side                        passive side
//     REQ           ------------->
//                   <-------------     MRA, if the answer takes long
//                   <-------------     REP, or REJ
//     RTU, or REJ   ------------->
//     ...
//     DREQ          ------------->     by either side
//                   <-------------     DREP
//
// SIDR_REQ and SIDR_REP ask for the UD queue pair of a service.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <variant>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "wire/mad.hpp"
#include "wire/psn.hpp"

namespace ipoib::wire {

namespace mgmt_class {
inline constexpr std::uint8_t kCommMgt = 0x07;
}  // namespace mgmt_class

inline constexpr std::uint8_t kCmClassVersion = 2;
inline constexpr std::size_t kCmDataSize = kMadSize - kMadHeaderSize;  ///< 232 bytes

/// A local or remote communication ID, or the request ID of SIDR; 0 if none is known.
using CommId = Strong<struct CommIdTag, std::uint32_t>;
using ServiceId = Strong<struct ServiceIdTag, std::uint64_t>;
template <std::size_t kSize>
using PrivateData = std::array<std::uint8_t, kSize>;
/// Additional information of REJ and SIDR_REP.
struct CmAdditionalInfo {
  static constexpr std::size_t kSize = 72;
  std::uint8_t length = 0;  ///< bytes that count
  std::array<std::uint8_t, kSize> bytes{};

  /// The first kSize bytes of `info`.
  [[nodiscard]] static CmAdditionalInfo of(ConstBytes info);
  friend bool operator==(const CmAdditionalInfo&, const CmAdditionalInfo&) = default;
};

/// The Transport Service Type (IBA 12.6.5).
enum class CmTransport : std::uint8_t {
  reliable = 0,
  unreliable = 1,
  reliable_datagram = 2,
  extended = 3,  ///< `extended_transport` says which; 1 is XRC (IBA A14)
};
inline constexpr std::uint8_t kXrcTransport = 1;

/// The message that is delayed or rejected (IBA 12.6.6 and 12.6.7).
enum class CmSubject : std::uint8_t { req = 0, rep = 1, other = 2, reserved = 3 };

/// The reason of a REJ (IBA 12.6.7.2). Other values are passed on as they are.
enum class CmRejReason : std::uint16_t {
  no_queue_pair = 1,
  no_resources = 3,
  timeout = 4,
  unsupported_request = 5,
  invalid_comm_id = 6,
  invalid_service_id = 8,
  invalid_transport = 9,
  stale_connection = 10,
  invalid_gid = 12,
  invalid_lid = 13,
  invalid_mtu = 26,
  consumer = 28,
};

/// IBA 12.11.2.
enum class CmSidrStatus : std::uint8_t {
  valid = 0,
  unsupported_service = 1,
  rejected = 2,
  no_queue_pair = 3,
};

/// A path as REQ has it, 44 bytes. "Local" is the side that sends REQ.
struct CmPath {
  Lid local_lid{};
  Lid remote_lid{};
  Gid local_gid{};
  Gid remote_gid{};
  std::uint32_t flow_label = 0;  ///< 20 bits
  std::uint8_t rate = 0;         ///< IBA code, 6 bits
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  ServiceLevel sl{};
  bool is_subnet_local = false;
  std::uint8_t ack_timeout = 0;  ///< 4.096 us * 2^ack_timeout, 5 bits

  friend bool operator==(const CmPath&, const CmPath&) = default;
};

/// Request for communication (IBA 12.6.5). Times are codes of 5 bits: 4.096 us * 2^code.
struct CmReq {
  static constexpr std::uint16_t kAttribute = 0x0010;
  CommId local_id{};
  ServiceId service_id{};
  Guid ca_guid{};
  QKey qkey{};
  Qpn qpn{};
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t remote_response_timeout = 0;  ///< what the passive side may take
  CmTransport transport = CmTransport::reliable;
  bool flow_control = false;                ///< end to end
  Psn starting_psn{};                       ///< of what the passive side sends
  std::uint8_t local_response_timeout = 0;  ///< what the active side may take
  std::uint8_t retry_count = 0;             ///< 3 bits
  PKey pkey{};
  std::uint8_t mtu = 0;              ///< IBA code, 4 bits
  std::uint8_t rnr_retry_count = 0;  ///< 3 bits
  std::uint8_t max_cm_retries = 0;   ///< 4 bits
  bool srq = false;
  std::uint8_t extended_transport = 0;  ///< 3 bits
  CmPath primary{};
  CmPath alternate{};  ///< all zero: there is none
  PrivateData<92> private_data{};

  [[nodiscard]] bool has_alternate() const {
    return alternate.remote_lid != Lid() || !alternate.remote_gid.is_zero();
  }
  friend bool operator==(const CmReq&, const CmReq&) = default;
};

/// IBA 12.6.6.
struct CmMra {
  static constexpr std::uint16_t kAttribute = 0x0011;
  CommId local_id{};
  CommId remote_id{};
  CmSubject subject = CmSubject::req;
  std::uint8_t service_timeout = 0;  ///< until the answer: 4.096 us * 2^code, 5 bits
  PrivateData<222> private_data{};
  friend bool operator==(const CmMra&, const CmMra&) = default;
};

/// IBA 12.6.7.
struct CmRej {
  static constexpr std::uint16_t kAttribute = 0x0012;
  CommId local_id{};   ///< 0 if the sender has none
  CommId remote_id{};  ///< 0 with reason `timeout`, if none is known
  CmSubject subject = CmSubject::req;
  CmRejReason reason = CmRejReason::consumer;
  CmAdditionalInfo info{};
  PrivateData<148> private_data{};
  friend bool operator==(const CmRej&, const CmRej&) = default;
};

/// IBA 12.6.8.
struct CmRep {
  static constexpr std::uint16_t kAttribute = 0x0013;
  /// A value of `failover`: the alternate path is not used.
  static constexpr std::uint8_t kFailoverUnsupported = 1;
  CommId local_id{};
  CommId remote_id{};
  QKey qkey{};
  Qpn qpn{};
  Psn starting_psn{};  ///< of what the active side sends
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;  ///< 4.096 us * 2^code, 5 bits
  std::uint8_t failover = 0;          ///< 2 bits
  bool flow_control = false;          ///< end to end
  std::uint8_t rnr_retry_count = 0;   ///< 3 bits
  bool srq = false;
  Guid ca_guid{};
  PrivateData<196> private_data{};
  friend bool operator==(const CmRep&, const CmRep&) = default;
};

/// IBA 12.6.9.
struct CmRtu {
  static constexpr std::uint16_t kAttribute = 0x0014;
  CommId local_id{};
  CommId remote_id{};
  PrivateData<224> private_data{};
  friend bool operator==(const CmRtu&, const CmRtu&) = default;
};

/// IBA 12.6.10.
struct CmDreq {
  static constexpr std::uint16_t kAttribute = 0x0015;
  CommId local_id{};
  CommId remote_id{};
  Qpn remote_qpn{};  ///< of the receiver
  PrivateData<220> private_data{};
  friend bool operator==(const CmDreq&, const CmDreq&) = default;
};

/// IBA 12.6.11.
struct CmDrep {
  static constexpr std::uint16_t kAttribute = 0x0016;
  CommId local_id{};
  CommId remote_id{};
  PrivateData<224> private_data{};
  friend bool operator==(const CmDrep&, const CmDrep&) = default;
};

/// IBA 12.11.1.
struct CmSidrReq {
  static constexpr std::uint16_t kAttribute = 0x0017;
  CommId request_id{};
  PKey pkey{};
  ServiceId service_id{};
  PrivateData<216> private_data{};
  friend bool operator==(const CmSidrReq&, const CmSidrReq&) = default;
};

/// IBA 12.11.2.
struct CmSidrRep {
  static constexpr std::uint16_t kAttribute = 0x0018;
  CommId request_id{};
  CmSidrStatus status = CmSidrStatus::valid;
  Qpn qpn{};
  ServiceId service_id{};
  QKey qkey{};
  CmAdditionalInfo info{};
  PrivateData<136> private_data{};
  friend bool operator==(const CmSidrRep&, const CmSidrRep&) = default;
};

/// Load of an alternate path (IBA 12.8.1). Only the IDs are read: alternate paths are not
/// supported.
struct CmLap {
  static constexpr std::uint16_t kAttribute = 0x0019;
  CommId local_id{};
  CommId remote_id{};
  friend bool operator==(const CmLap&, const CmLap&) = default;
};

/// Response to LAP (IBA 12.8.2), without additional information.
struct CmApr {
  static constexpr std::uint16_t kAttribute = 0x001a;
  static constexpr std::uint8_t kInvalidCommId = 1;
  static constexpr std::uint8_t kUnsupported = 2;
  CommId local_id{};
  CommId remote_id{};
  std::uint8_t status = kUnsupported;
  friend bool operator==(const CmApr&, const CmApr&) = default;
};

using CmMessage = std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq,
                               CmSidrRep, CmLap, CmApr>;

/// A whole MAD of communication management.
struct CmMad {
  static constexpr std::size_t kSize = kMadSize;
  std::uint64_t transaction_id = 0;
  CmMessage message;

  /// Returns nullopt for fewer than kMadSize bytes, and for anything but method Send of class 7,
  /// version 2, with one of the attributes above.
  [[nodiscard]] static std::optional<CmMad> parse(ConstBytes mad);
  void emit(MutableBytes to) const;  ///< kMadSize bytes
  friend bool operator==(const CmMad&, const CmMad&) = default;
};

}  // namespace ipoib::wire
