// Seam: management datagrams of the GSI (QP1) of one port.
// Implemented by src/verbs over libibumad, and by tests/sim over the emulated subnet's core.
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

/// Where a MAD goes: QP1 of a LID, with the well-known Q_Key (IBA 3.5.3), unless who is there has
/// said otherwise (IBA 13.5.2).
struct MadDestination {
  Lid lid;
  ServiceLevel sl;
  std::uint16_t pkey_index = 0;
  Qpn qpn{1};
  QKey qkey{0x80010000};
  std::optional<GlobalRoute> global = {};  ///< to another subnet; `lid` is the router's
  friend bool operator==(const MadDestination&, const MadDestination&) = default;
};

/// What a destination refers to of the port that MADs are sent from.
struct MadSource {
  std::uint64_t gid_prefix = Gid::kLinkLocalPrefix;
  std::vector<PKey> pkeys;  ///< by index
};

struct ReceivedMad {
  /// Not so: nothing came back within the time-out of the request whose octets these are, at least
  /// its common header.
  bool answered = true;
  /// The whole MAD; an RMPP answer is reassembled already. The low 32 bits of the transaction id
  /// are those of the request; the high 32 belong to the layer below.
  std::vector<std::uint8_t> bytes;
  /// Who has sent it; where to respond.
  MadDestination from{};
};

class MadPort {
 public:
  virtual ~MadPort() = default;

  /// Sends a request and awaits its response for `timeout`; it is not repeated below this seam.
  /// A MAD without a time-out is a response, for which nothing is awaited.
  [[nodiscard]] virtual Result<void> send(const MadDestination& to, ConstBytes mad,
                                          Duration timeout) = 0;
  /// The next answer, time-out or unsolicited MAD; nothing when there is none now. Never blocks.
  [[nodiscard]] virtual std::optional<ReceivedMad> receive() = 0;
  /// As the port is now.
  [[nodiscard]] virtual MadSource source() = 0;
};

}  // namespace ipoib
