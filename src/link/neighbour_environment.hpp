// What neighbour entries act through, and what they say of themselves.
#pragma once

#include "ipoib/log_fwd.hpp"
#include "ipoib/random.hpp"
#include "link/config.hpp"
#include "link/output.hpp"
#include "link/parked_frames.hpp"

namespace ipoib::link {

class ArpOutput;
class PathTable;

/// What entries work with; outlives them.
struct NeighbourEnvironment {
  const Config& config;
  PathTable& paths;
  ArpOutput& arp;
  Output& out;
  ParkingBudget& parking;
  Random& random;
  Logger& log;
};

enum class Fate : bool { keep, erase };
/// How an address was learnt: by a reply to us, which shows that our frames arrive, or otherwise.
enum class Evidence : bool { told, confirmed };

}  // namespace ipoib::link
