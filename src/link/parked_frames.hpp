// Frames that wait for a neighbour or a path: ready to be sent but for the address handle.
#pragma once

#include <cstddef>
#include <vector>

#include "ipoib/frame.hpp"
#include "link/counters.hpp"

namespace ipoib::link {

/// Bounds for all the parked frames of a link, and how many there are. A frame counts with all the
/// octets of its slot, since that is what it keeps from others.
struct ParkingBudget {
  std::size_t per_neighbour = 0;
  std::size_t in_all = 0;
  std::size_t bytes_per_neighbour = 0;
  std::size_t bytes_in_all = 0;
  std::size_t used = 0;
  std::size_t octets_used = 0;
};

/// What a frame is parked for: what the host sends is a use of the neighbour, a reply is none.
enum class Purpose : bool { reply, packet };

/// The frames of one neighbour, in the order of their coming. When it is full the newcomer is
/// refused: those who came first are the beginning of something.
class ParkedFrames {
 public:
  explicit ParkedFrames(ParkingBudget& budget) : budget_(&budget) {}
  ParkedFrames(ParkedFrames&& other) noexcept;
  ParkedFrames& operator=(ParkedFrames&& other) noexcept;
  ParkedFrames(const ParkedFrames&) = delete;
  ParkedFrames& operator=(const ParkedFrames&) = delete;
  ~ParkedFrames();

  /// Parks the frame, or drops it and counts that.
  void park(Frame&& frame, Purpose purpose, Counters& counters);
  /// All of them, which are parked no longer.
  [[nodiscard]] std::vector<Frame> take();
  /// Drops all of them, each counted as `why`.
  void drop(Counter why, Counters& counters);
  /// The one that came first; nothing when there is none.
  [[nodiscard]] ConstBytes first() const {
    return frames_.empty() ? ConstBytes{} : frames_.front().bytes();
  }
  /// Whether one of them is a packet of the host.
  [[nodiscard]] bool has_packets() const { return packets_ > 0; }
  [[nodiscard]] std::size_t size() const { return frames_.size(); }

 private:
  ParkingBudget* budget_;
  std::vector<Frame> frames_;
  std::size_t octets_ = 0;
  std::size_t packets_ = 0;
};

}  // namespace ipoib::link
