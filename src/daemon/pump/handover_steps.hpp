// What the control thread and the thread of an interface tell each other during a handover
// (handover.hpp); parts of messages.hpp.
#pragma once

#include <functional>

#include "daemon/pump/pump_mode.hpp"
#include "link/saved_cache.hpp"

namespace ipoib::daemon {

/// Neighbours that are saved at a time.
inline constexpr std::size_t kSavedPage = 128;

// --- From the control thread to the interface's -------------------------------------------------
/// CacheSaved follows with the same `done` and one page of the link's cache.
struct SaveCache {
  link::NeighbourCursor from;
  std::function<void(link::SavedPage)> done;
};
/// What another daemon has saved, for when the link is up.
struct RestoreCache {
  link::SavedPage saved;
};
/// ModeReached follows.
struct SetMode {
  PumpMode mode = PumpMode::active;
};

// --- From the interface's thread to the control thread ------------------------------------------
struct CacheSaved {
  link::SavedPage page;
  std::function<void(link::SavedPage)> done;
};
/// SetMode has taken effect. For PumpMode::held: the link is settled, and the cache restored.
struct ModeReached {
  PumpMode mode;
};

}  // namespace ipoib::daemon
