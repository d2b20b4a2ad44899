// Reads a page of a trace ring.
#pragma once

#include "control/protocol.hpp"

namespace ipoib {
class TraceRings;
}

namespace ipoib::control {

/// Returns up to kPageLines records, from the requested one or the oldest on. Fails with EINVAL if
/// there is no such ring.
[[nodiscard]] Response page_of(const TraceRings& rings, const TraceRequest& request);

}  // namespace ipoib::control
