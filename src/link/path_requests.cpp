#include "link/path_requests.hpp"

#include <chrono>

#include "ipoib/log.hpp"
#include "link/path.hpp"
#include "link/refusal.hpp"

namespace ipoib::link {

QuestionId PathRequests::send(Path& path) {
  using wire::PathRecord;
  const QuestionId id = deps_.ids.next();
  AskPath request{.id = id, .record = {}, .components = 0};
  request.record.dgid = path.gid();
  request.record.sgid = source_.port.gid;
  request.record.pkey = deps_.config.pkey.as_full();
  request.record.reversible = true;
  request.record.numb_path = 1;
  request.components = PathRecord::kDgid | PathRecord::kSgid | PathRecord::kPKey |
                       PathRecord::kReversible | PathRecord::kNumbPath;
  deps_.out.events.emplace_back(request);
  deps_.out.counters.add(Counter::path_questions);
  paths_.emplace(id, &path);
  return id;
}

void PathRequests::resend(QuestionId& request, Path& path) {
  paths_.erase(request);
  request = send(path);
}

Path* PathRequests::complete(QuestionId request) {
  const auto node = paths_.extract(request);
  return node.empty() ? nullptr : node.mapped();
}

void PathRequests::log_failure(const Path& path, unsigned failures, std::string_view why,
                               TimePoint now) {
  constexpr Duration kQuiet = std::chrono::seconds(1);
  if (!should_log(failures) || now < quiet_until_) return;
  quiet_until_ = now + kQuiet;
  deps_.log.warn("path to {}: {}", path.gid().to_string(), why);
}

}  // namespace ipoib::link
