#include "link/path_requests.hpp"

#include "ipoib/log.hpp"
#include "link/path.hpp"

namespace ipoib::link {

void PathRequests::send(Path& path) {
  const wire::SaRequestId id = deps_.ids.next();
  deps_.out.events.emplace_back(wire::SaRequest{
      id, wire::path_query(source_.port.gid, path.gid(), deps_.config.pkey.as_full())});
  deps_.out.counters.add(Counter::path_requests);
  paths_.emplace(id, &path);
}

Path* PathRequests::complete(wire::SaRequestId request) {
  const auto node = paths_.extract(request);
  return node.empty() ? nullptr : node.mapped();
}

void PathRequests::log_failure(const Path& path, unsigned failures, std::string_view why,
                               TimePoint now) {
  if (!should_log(failures) || !log_pause_.take(now)) return;
  deps_.log.warn("path to {}: {}", path.gid().to_string(), why);
}

}  // namespace ipoib::link
