// The parts of the link that neighbour entries use.
#pragma once

#include "ipoib/frame.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/random.hpp"
#include "link/config.hpp"
#include "link/disposition.hpp"
#include "link/neighbour_statistics.hpp"
#include "link/output.hpp"
#include "link/parked_frames.hpp"

namespace ipoib::link {

class IcmpErrors;
class PathTable;
class Solicitor;

/// References to these parts, which outlive the entries.
struct NeighbourDependencies {
  const Config& config;
  PathTable& paths;
  Solicitor& solicitor;
  IcmpErrors& icmp;
  FramePool& packets;  ///< for fragments
  Output& out;
  ParkingBudget& parking;
  NeighbourStatistics& statistics;
  Random& random;
  Logger& log;
};

/// Whether an address was learnt from a response to our request, which shows that our frames reach
/// the neighbour.
enum class Evidence : bool { unconfirmed, confirmed };

}  // namespace ipoib::link
