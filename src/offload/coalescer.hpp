// Coalesces segments of one flow into large packets, as GRO does for network devices. The kernel
// has no GRO for packets written to a TUN.
//
// add() takes packets, and flush() writes them to the host at the end of a batch: no packet waits
// for the next batch. A group is a packet followed by those of its flow that continue it
// (flow.hpp). It is written in the order of its first packet. A packet of the flow that does not
// continue the group closes it; a packet without a known flow, or a large one, closes all groups.
// So the order of each flow is preserved. Segments are coalesced only after their checksums were
// verified, by the device or here. The large packet gets a partial checksum: the host does not
// verify it, and completes it if it forwards the packet. Large packets from the device are passed
// on unchanged.
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
    std::uint64_t large = 0;     ///< large packets, coalesced here or received as such
    std::uint64_t segments = 0;  ///< of the large packets
    std::uint64_t refused = 0;   ///< received packets that the host did not accept

    Counters& operator+=(const Counters& other) {
      large += other.large;
      segments += other.segments;
      refused += other.refused;
      return *this;
    }
  };

  /// `host` outlives the coalescer.
  explicit Coalescer(TunPort& host) : host_(host) {}

  /// Adds an IP packet for the host, with Frame::upper_layer() set. A large one must be of a kind
  /// that the host accepts.
  void add(Frame&& packet);
  /// Writes all packets to the host.
  void flush();
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  /// Open groups are found by a hash of the flow's tag. Flows in the same bucket close each other's
  /// groups.
  static constexpr std::size_t kBuckets = 256;
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Packet {
    Frame frame;
    std::uint32_t next = kNone;  ///< packet of the same group
  };
  struct Group {
    FlowPacket first;
    std::uint32_t first_packet = 0;
    std::uint32_t last_packet = 0;
    std::uint32_t count = 1;
    std::size_t size = 0;  ///< bytes of the large packet
    bool open = false;
  };

  void begin(Frame&& packet, const FlowPacket& flow);
  [[nodiscard]] bool append(Group& group, Frame& packet, const FlowPacket& flow);
  void open_last();
  [[nodiscard]] Group* find_open(const FlowPacket& flow);
  [[nodiscard]] bool write(const Group& group);

  TunPort& host_;
  std::vector<Packet> packets_;
  std::vector<Group> groups_;  ///< in the order in which they are written
  /// The last group opened in each bucket; it may be of an earlier batch.
  std::array<std::uint32_t, kBuckets> buckets_{};
  std::size_t closed_ = 0;  ///< the groups before this one are closed
  Counters counters_;
};

}  // namespace ipoib::offload
