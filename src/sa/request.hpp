// Questions as MADs (IBA 15.2.1.1), and the records in the MADs that answer them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "ipoib/bytes.hpp"
#include "ipoib/mad_port.hpp"
#include "sa/query.hpp"
#include "wire/mad.hpp"

namespace ipoib::sa {

/// What tells the response to a question from other MADs, besides its transaction id.
struct Exchange {
  std::uint8_t method = 0;
  std::uint8_t response = 0;
  std::uint16_t attribute = 0;
};
[[nodiscard]] Exchange exchange_of(const Query& query);

using RequestMad = std::array<std::uint8_t, wire::kMadSize>;
[[nodiscard]] RequestMad request_mad(const Query& query, std::uint32_t tid);

using Records = std::variant<wire::PathRecord, wire::McMemberRecord, wire::InformInfo, Members>;
/// The record or records of a successful response; nothing when it has none, or one of another path
/// or group, or one that nobody could send by.
[[nodiscard]] std::optional<Records> records_of(const Query& query, ConstBytes mad);

/// Where a response with the status `redirect`, from an administrator at `asked`, says that the
/// class is served; nothing when it names no place that can be sent to from `source`.
[[nodiscard]] std::optional<MadDestination> redirection(const MadDestination& asked,
                                                        const MadSource& source, ConstBytes mad);

/// The header of a report of a notice; nothing for any other MAD.
[[nodiscard]] std::optional<wire::SaHeader> report_header(ConstBytes mad);
/// What ends the repetitions of a report: the same MAD as a response (IBA 13.4.11).
[[nodiscard]] RequestMad report_response(const wire::SaHeader& header, ConstBytes mad);

/// "path to fe80::1", for the log.
[[nodiscard]] std::string describe(const Query& query);

}  // namespace ipoib::sa
