// Frames that wait for the resolution of a neighbour or a group. They begin with the encapsulation
// header; only the address handle is missing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "ipoib/frame.hpp"
#include "ipoib/time.hpp"
#include "link/counters.hpp"
#include "link/purpose.hpp"
#include "wire/fragment.hpp"

namespace ipoib::link {

/// Limits for the parked frames of a link, and their present use. Packets of the host and replies
/// have separate limits, since strangers cause the replies. In the totals, a packet counts with the
/// bytes of its slot, since those are not available to others; for one neighbour it counts as in
/// Linux, with its own bytes and those of an sk_buff. Replies are small.
struct ParkingBudget {
  static constexpr std::size_t kPacketOverhead = 256;

  std::size_t bytes_per_neighbour = 0;
  /// A quarter of the limits below is only for this number of packets of each neighbour: a few
  /// neighbours with many packets leave room for the first ones of others.
  std::size_t first_packets = 0;
  std::size_t frames = 0;  ///< packets
  std::size_t bytes = 0;
  std::size_t replies_per_neighbour = 4;
  std::size_t replies = 128;
  /// The number of datagrams of a neighbour that are remembered since a fragment of them was
  /// dropped.
  std::size_t incomplete_per_neighbour = 8;
  std::size_t used = 0;  ///< packets
  std::size_t bytes_used = 0;
  std::size_t replies_used = 0;
};

/// The frames of one neighbour, in order of arrival. At the limit the new frame is dropped, since
/// the first frames open the connections. A fragment that is dropped takes the others of its
/// datagram along: its receiver could not use them.
class ParkedFrames {
 public:
  explicit ParkedFrames(ParkingBudget& budget) : budget_(&budget) {}
  ParkedFrames(ParkedFrames&& other) noexcept;
  ParkedFrames& operator=(ParkedFrames&& other) noexcept;
  ParkedFrames(const ParkedFrames&) = delete;
  ParkedFrames& operator=(const ParkedFrames&) = delete;
  ~ParkedFrames();

  /// Parks the frame, or drops and counts it if a limit has been reached.
  void park(Frame&& frame, Purpose purpose, Counters& counters);
  /// Removes and returns all frames.
  [[nodiscard]] std::vector<Frame> take();
  /// Drops all frames, each counted as `why`.
  void drop(Counter why, Counters& counters);
  /// The bytes of the oldest frame; empty if there is none.
  [[nodiscard]] ConstBytes first() const {
    return parked_.frames.empty() ? ConstBytes{} : parked_.frames.front().bytes();
  }
  /// Whether one of the frames is a packet of the host.
  [[nodiscard]] bool has_packets() const { return parked_.packets > 0; }
  [[nodiscard]] std::size_t size() const { return parked_.frames.size(); }
  /// A packet of the host waits, from now on unless one did before.
  void wait_from(TimePoint now) { parked_.since = std::min(parked_.since, now); }
  /// Since when packets of the host have waited; kNever if none has.
  [[nodiscard]] TimePoint since() const { return parked_.since; }

 private:
  [[nodiscard]] std::size_t replies() const { return parked_.frames.size() - parked_.packets; }
  [[nodiscard]] std::optional<Counter> refusal(const Frame& packet) const;
  void drop_other_fragments(const Frame& dropped, Counters& counters);
  [[nodiscard]] bool is_incomplete(const wire::FragmentedDatagram& datagram) const {
    return std::ranges::find(parked_.incomplete, datagram) != parked_.incomplete.end();
  }

  struct Parked {
    std::vector<Frame> frames;
    std::size_t queued = 0;   ///< bytes of the packets, as they count for one neighbour
    std::size_t slots = 0;    ///< bytes of the packets, as they count in the totals
    std::size_t packets = 0;  ///< the others are replies
    TimePoint since = kNever;
    std::vector<wire::FragmentedDatagram> incomplete;  ///< datagrams, oldest first
  };

  ParkingBudget* budget_;
  Parked parked_;
};

}  // namespace ipoib::link
