// Seam: management datagrams of the GSI (QP1) of one port.
// Implemented by src/verbs with libibumad, and by tests/sim with the emulated subnet.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "ipoib/result.hpp"
#include "ipoib/time.hpp"
#include "ipoib/ud_port.hpp"

namespace ipoib {

/// The destination of a MAD: QP1 of a LID, with the well-known Q_Key (IBA 3.5.3), unless a
/// redirection names another queue pair (IBA 13.5.2).
struct MadDestination {
  Lid lid;
  ServiceLevel sl;
  std::uint16_t pkey_index = 0;
  Qpn qpn{1};
  QKey qkey{0x80010000};
  /// The global route, if the destination is in another subnet (`lid` is then the router's) or the
  /// port requires a GRH.
  std::optional<GlobalRoute> global = {};
  friend bool operator==(const MadDestination&, const MadDestination&) = default;
};

/// The attributes of the sending port that a MadDestination refers to.
struct MadSource {
  std::uint64_t gid_prefix = Gid::kLinkLocalPrefix;
  std::vector<PKey> pkeys;  ///< by index
};

struct ReceivedMad {
  /// The request in `bytes` (at least its common header) has timed out.
  bool timed_out = false;
  /// The whole MAD, if it is an RMPP response reassembled. The low 32 bits of the transaction id
  /// are those of the request; the high 32 belong to the layer below.
  std::vector<std::uint8_t> bytes;
  /// The sender, and the destination of a response.
  MadDestination from{};
};

class MadPort {
 public:
  virtual ~MadPort() = default;

  /// Sends a request, which times out after `timeout` without a response. It is not retried below
  /// this seam. A time-out of zero sends a response, which has none itself.
  [[nodiscard]] virtual Result<void> send(const MadDestination& to, ConstBytes mad,
                                          Duration timeout) = 0;
  /// The next response, time-out or unsolicited MAD; nullopt if there is none. Never blocks.
  [[nodiscard]] virtual std::optional<ReceivedMad> receive() = 0;
  /// The current attributes of the port.
  [[nodiscard]] virtual MadSource source() = 0;
};

}  // namespace ipoib
