// The failure of a request to the subnet administrator (SA).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "wire/sa_status.hpp"

namespace ipoib::wire {

/// Why a request did not succeed.
struct SaFailure {
  enum class Kind : std::uint8_t {
    status,              ///< the SA refused the request, see `status`
    timeout,             ///< no response to any attempt
    no_sm,               ///< the port knows no subnet manager
    overloaded,          ///< too many requests are waiting already
    send_failed,         ///< the port did not accept the MAD
    malformed_response,  ///< the response does not contain the requested record
    local,               ///< this host cannot do it, see `detail`
  };

  explicit SaFailure(Kind what = Kind::timeout, std::string why = {})
      : kind(what), detail(std::move(why)) {}
  explicit SaFailure(SaStatus code) : kind(Kind::status), status(code) {}

  /// One line: what happened, and the likely cause.
  [[nodiscard]] std::string text() const;

  Kind kind;
  std::optional<SaStatus> status;  ///< with Kind::status only
  std::string detail;              ///< with Kind::send_failed and Kind::local: why
};

}  // namespace ipoib::wire
