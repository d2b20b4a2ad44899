// Puts segments of one flow together again, so that the host takes many in one go: what its kernel
// does for network devices (GRO), and not for packets written to a TUN.
//
// Packets come in with add(), and go on with flush(), at the end of a batch: none waits for another
// batch. A group has a packet and those of its flow that continue it (flow.hpp), and goes on where
// its first packet stood; a packet of the flow that does not continue it ends the group, and one of
// which it cannot be said what flow it is of, or that is large already, ends all groups. So the
// packets of a flow keep their order. Of the checksums of those that are put together each was
// verified, by the device or here; the large packet says that its own is partial, so the host
// verifies none and completes it should it pass it on. What the device has put together already
// goes on as it is.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ipoib/frame.hpp"
#include "ipoib/tun_port.hpp"
#include "offload/flow.hpp"

namespace ipoib::offload {

class Coalescer {
 public:
  struct Counters {
    std::uint64_t large = 0;     ///< packets put together, here or by the device
    std::uint64_t segments = 0;  ///< of which they were made
    std::uint64_t refused = 0;   ///< packets of the fabric that the host did not take
  };

  /// `host` outlives it.
  explicit Coalescer(TunPort& host) : host_(host) {}

  /// Adds an IP packet for the host, with Frame::upper_layer() set. A large one must be of a kind
  /// that the host accepts.
  void add(Frame&& packet);
  /// Hands on all that has been added.
  void flush();
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  /// A flow's group is found by a place that its tag has. Flows with the same place end each
  /// other's groups.
  static constexpr std::size_t kPlaces = 256;
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Piece {
    Frame frame;
    std::uint32_t next = kNone;  ///< of the same group
  };
  struct Group {
    FlowPacket first;
    std::uint32_t first_piece = 0;
    std::uint32_t last_piece = 0;
    std::uint32_t count = 1;
    std::size_t octets = 0;
    bool open = false;
  };

  void begin(Frame&& packet, const FlowPacket& flow);
  [[nodiscard]] bool append(Group& group, Frame& packet, const FlowPacket& flow);
  void open_last();
  [[nodiscard]] Group* find_open(const FlowPacket& flow);
  [[nodiscard]] bool write(const Group& group);

  TunPort& host_;
  std::vector<Piece> pieces_;
  std::vector<Group> groups_;                    ///< in the order in which they are written
  std::array<std::uint32_t, kPlaces> places_{};  ///< the last group opened; may be of another batch
  std::size_t closed_ = 0;                       ///< groups before are not open
  Counters counters_;
};

}  // namespace ipoib::offload
