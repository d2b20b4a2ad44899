// A page of a trace ring, for a client.
#pragma once

#include "control/protocol.hpp"

namespace ipoib {
class TraceRings;
}

namespace ipoib::control {

/// From the asked record on, or the oldest there is, at most kPageLines. EINVAL: no such ring.
[[nodiscard]] Response page_of(const TraceRings& rings, const TraceRequest& request);

}  // namespace ipoib::control
