// The path requests that are outstanding at the SA: at most Limits::path_requests.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "ipoib/log_fwd.hpp"
#include "ipoib/should_log.hpp"
#include "ipoib/time.hpp"
#include "link/config.hpp"
#include "link/events.hpp"
#include "link/output.hpp"
#include "link/purpose.hpp"

namespace ipoib::link {

class Path;

/// The port that paths begin at.
struct PathSource {
  PortGid port;
  std::uint8_t lmc = 0;
  bool grh_required = false;  ///< every path has a global route
};

class PathRequests {
 public:
  struct Dependencies {
    const Config& config;
    Output& out;
    RequestIds& ids;
    Logger& log;
  };

  explicit PathRequests(const Dependencies& deps) : deps_(deps) {}

  void set_source(const PathSource& source) { source_ = source; }
  [[nodiscard]] const PathSource& source() const { return source_; }

  /// Whether no request may be sent for that purpose now.
  [[nodiscard]] bool full(Purpose purpose) const {
    const std::size_t limit = deps_.config.limits.path_requests;
    return outstanding() >= (purpose == Purpose::packet ? limit : limit - limit / 4);
  }
  [[nodiscard]] std::size_t outstanding() const { return paths_.size(); }
  void send(Path& path);
  /// The path that the response to a request is for; null if the request is not outstanding.
  [[nodiscard]] Path* complete(wire::SaRequestId request);
  /// Logs the n-th failure in a row, at most one line a second: an SA that is gone fails all paths.
  void log_failure(const Path& path, unsigned failures, std::string_view why, TimePoint now);

 private:
  Dependencies deps_;
  PathSource source_;
  std::unordered_map<wire::SaRequestId, Path*> paths_;
  LogPause log_pause_{std::chrono::seconds(1)};
};

}  // namespace ipoib::link
