// What neighbour entries act through, and what they say of themselves.
#pragma once

#include "ipoib/log_fwd.hpp"
#include "ipoib/random.hpp"
#include "link/config.hpp"
#include "link/output.hpp"
#include "link/parked_frames.hpp"

namespace ipoib::link {

class PathTable;
class Solicitor;

/// What entries work with; outlives them.
struct NeighbourEnvironment {
  const Config& config;
  PathTable& paths;
  Solicitor& solicitor;
  Output& out;
  ParkingBudget& parking;
  Random& random;
  Logger& log;
};

enum class Fate : bool { keep, erase };
/// How an address was learnt: by an answer to us, which shows that our frames arrive, or otherwise.
enum class Evidence : bool { told, confirmed };

}  // namespace ipoib::link
