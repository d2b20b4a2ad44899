// Owns a trace ring while a thread lives.
#pragma once

#include <string>

#include "ipoib/trace.hpp"

namespace ipoib::daemon {

struct OwnRing {
  OwnRing(TraceRings& all, const std::string& name) : rings(all), ring(all.add(name)) {}
  OwnRing(const OwnRing&) = delete;
  OwnRing& operator=(const OwnRing&) = delete;
  ~OwnRing() { rings.release(ring); }
  TraceRings& rings;
  TraceRing& ring;
};

}  // namespace ipoib::daemon
