// The ring may be written while it is read; records that are overwritten meanwhile are left out.
#include "control/trace_page.hpp"

#include <algorithm>
#include <cerrno>

#include "ipoib/trace.hpp"

namespace ipoib::control {

Response page_of(const TraceRings& rings, const TraceRequest& request) {
  const std::size_t count = rings.size();
  if (request.ring >= count) {
    return Error{EINVAL,
                 "trace: no such ring; there are " + std::to_string(count) + ", counted from 0"};
  }
  const TraceRing& ring = rings.ring(request.ring);
  TracePage page;
  page.rings = static_cast<std::uint32_t>(count);
  page.thread = ring.thread();
  page.end = ring.count();
  const std::uint64_t oldest = page.end - std::min<std::uint64_t>(page.end, TraceRing::kRecords);
  page.next = std::clamp(request.from, oldest, page.end);
  for (; page.next < page.end && page.lines.size() < kPageLines; ++page.next) {
    TraceRecord record;
    if (!ring.read(page.next, record)) continue;
    page.lines.push_back(
        {record.sequence, record.keyword, record.when, record.first, record.second});
  }
  return Reply(std::move(page));
}

}  // namespace ipoib::control
