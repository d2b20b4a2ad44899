// The attributes that the queue pair of an ID needs for a state: INIT_QP_ATTR of the ABI. The user
// makes the transitions.
#pragma once

#include <cstdint>

#include "ipoib/result.hpp"
#include "softib/cm/qp_parameters.hpp"
#include "softib/core/fabric_types.hpp"
#include "softib/rdma_cm/id.hpp"

namespace softib::rdma_cm {

/// The Q_Key of the UD queue pairs of an ID that does not name one (RDMA_UDP_QKEY).
inline constexpr QKey kDefaultQKey{0x01234567};

/// Attributes with the numbers and bits of the verbs ABI (ibv_qp_state, ibv_qp_attr_mask,
/// ibv_access_flags).
struct QpAttributes {
  enum State : std::uint32_t { kInit = 1, kRtr = 2, kRts = 3 };
  enum Mask : std::uint32_t {
    kState = 1U << 0,
    kAccessFlags = 1U << 3,
    kPKeyIndex = 1U << 4,
    kPort = 1U << 5,
    kQKey = 1U << 6,
    kAddressVector = 1U << 7,
    kPathMtu = 1U << 8,
    kTimeout = 1U << 9,
    kRetryCount = 1U << 10,
    kRnrRetry = 1U << 11,
    kRqPsn = 1U << 12,
    kMaxReads = 1U << 13,
    kMinRnrTimer = 1U << 15,
    kSqPsn = 1U << 16,
    kMaxDestinationReads = 1U << 17,
    kDestination = 1U << 20,
  };
  enum Access : std::uint32_t { kRemoteWrite = 1U << 1, kRemoteRead = 1U << 2, kAtomic = 1U << 3 };

  std::uint32_t mask = 0;
  std::uint32_t state = 0;
  std::uint32_t access = 0;
  std::uint16_t pkey_index = 0;
  std::uint8_t port = 0;
  QKey qkey;
  wire::PathRecord path;  ///< kAddressVector: to the peer; its MTU is that of kPathMtu
  Qpn destination;
  wire::Psn rq_psn;
  wire::Psn sq_psn;
  std::uint8_t max_reads = 0;
  std::uint8_t max_destination_reads = 0;
  std::uint8_t timeout = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;
};

/// The attributes for a state; `parameters` are null before there is a connection. Fails with
/// EINVAL if there is no such state, or its attributes are not known yet.
[[nodiscard]] ipoib::Result<QpAttributes> qp_attributes(const Id& id, std::uint32_t state,
                                                        const PortAttributes& port,
                                                        const cm::QpParameters* parameters);

}  // namespace softib::rdma_cm
