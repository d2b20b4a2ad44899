// SA requests as MADs (IBA 15.2.1.1), and the records of response MADs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "ipoib/bytes.hpp"
#include "ipoib/mad_port.hpp"
#include "sa/config.hpp"
#include "wire/mad.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::sa {

/// Methods and attribute of a query. With the transaction id they identify its response.
struct Exchange {
  std::uint8_t method = 0;
  std::uint8_t response = 0;
  std::uint16_t attribute = 0;
};
[[nodiscard]] Exchange exchange_of(const wire::SaQuery& query);

[[nodiscard]] const RetryPolicy& policy_for(const Config& config, const wire::SaQuery& query);

using MadBytes = std::array<std::uint8_t, wire::kMadSize>;
[[nodiscard]] MadBytes request_mad(const wire::SaQuery& query, std::uint32_t tid);

/// The records of a response with status 0. Returns nullopt if there is no record, if it is about
/// another path or group, or if it is unusable for sending.
[[nodiscard]] std::optional<wire::SaResult> records_of(const wire::SaQuery& query, ConstBytes mad);

/// The address that a response with status `redirect` names; `asked` is the SA that sent it.
/// Returns nullopt if the response names no address that `source` can send to; with `grh_required`
/// it needs a GID.
[[nodiscard]] std::optional<MadDestination> redirection(const MadDestination& asked,
                                                        bool grh_required, const MadSource& source,
                                                        ConstBytes mad);

/// Whether a MAD with the source `from` is of the port that `asked` names. Senders cannot choose:
/// their HCA writes a LID of the port and a GID of its own. A response has the LID to which its
/// request was sent (IBA 13.5.4), and an SA sends reports from the LID of which the subnet manager
/// tells all ports. Its other LIDs do not count: their number depends on the LMC of each port,
/// which is 0 on most switches, so the LIDs that follow may be those of others. The well-known GID
/// of an SA stands for any port (IBA 4.1.1); to another subnet, `asked` has the LID of a router,
/// and only the GID counts.
[[nodiscard]] bool is_from(const MadDestination& asked, const MadDestination& from);

/// The header of Report(Notice); nullopt for any other MAD.
[[nodiscard]] std::optional<wire::SaHeader> report_header(ConstBytes mad);
/// Acknowledges a report, which its sender then stops repeating: the same MAD as a response
/// (IBA 13.4.11).
[[nodiscard]] MadBytes report_response(const wire::SaHeader& header, ConstBytes mad);

/// "path to fe80::1", for the log.
[[nodiscard]] std::string describe(const wire::SaQuery& query);

}  // namespace ipoib::sa
