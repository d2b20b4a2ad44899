// What the control thread and the thread of an interface tell each other during a handover
// (handover.hpp); parts of messages.hpp.
#pragma once

#include <functional>
#include <vector>

#include "daemon/pump/port_selection.hpp"
#include "daemon/pump/pump_mode.hpp"
#include "ethernet/station_page.hpp"
#include "link/saved_cache.hpp"

namespace ipoib::daemon {

/// Neighbours that are saved at a time.
inline constexpr std::size_t kSavedPage = 128;

/// A page of the link's cache; the first one also has the port that serves, and the stations of an
/// Ethernet interface.
struct SavedCache : link::SavedPage {
  SavedSelection selection;
  std::vector<ethernet::SavedStation> stations;
  std::vector<ethernet::SavedGroup> station_groups;
};

// --- From the control thread to the interface's -------------------------------------------------
/// CacheSaved follows with the same `done` and one page.
struct SaveCache {
  link::NeighbourCursor from;
  std::function<void(SavedCache)> done;
};
/// What another daemon has saved: for when the link is up, and the stations for PumpMode::active.
struct RestoreCache {
  SavedCache saved;
};
/// ModeReached follows.
struct SetMode {
  PumpMode mode = PumpMode::active;
};

// --- From the interface's thread to the control thread ------------------------------------------
struct CacheSaved {
  SavedCache page;
  std::function<void(SavedCache)> done;
};
/// SetMode has taken effect. For PumpMode::held: the link is settled, and the cache restored.
struct ModeReached {
  PumpMode mode;
};

}  // namespace ipoib::daemon
