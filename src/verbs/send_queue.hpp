// The sends that are posted and not known to be complete, and the work requests for new ones.
//
// Sends are posted as one chain. Its last work request is signalled once kSignalPeriod datagrams
// would be without a completion; frames and address handles are held until the completion. A large
// packet is one work request where the device segments it (IBV_WR_TSO). Otherwise each segment is
// one, of two elements: its headers, written to its slot in `headers_`, and the payload in place.
#pragma once

#include <span>
#include <vector>

#include "ipoib/ud_port.hpp"
#include "verbs/registered_memory.hpp"
#include "verbs/ud_values.hpp"

namespace ipoib::verbs {

class SendQueue {
 public:
  struct Target {
    ibv_qp& queue_pair;
    QKey qkey;
    std::uint32_t max_inline = 0;   ///< bytes
    std::uint32_t max_tso = 0;      ///< bytes of payload; 0: the device has no TSO
    bool checksum_offload = false;  ///< the device computes the checksums of segments
    bool always_signal = false;     ///< the last send is signalled
  };

  /// Both arguments outlive this object. All frames that are sent lie in `memory`.
  SendQueue(const RegisteredMemory& memory, UdCounters& counters)
      : memory_(memory), counters_(counters) {}
  /// The space for the headers of one segment, in bytes.
  static constexpr std::size_t kHeaderSlot = 256;
  /// The largest headers of a packet for TSO: a plain IP header, and TCP with all options.
  static constexpr std::size_t kMaxTsoHeaders = 104;
  /// Makes room for `depth` sends, a power of two. `headers` has kHeaderSlot bytes for each.
  void create(std::uint32_t depth, Frame&& headers);

  struct Sent {
    std::size_t packets = 0;  ///< as UdPort::send() returns
    bool is_refused = false;  ///< ibv_post_send() has failed
  };
  [[nodiscard]] Sent send(std::span<Outgoing> batch, const Target& to);
  /// Releases the resources of send `number` and of all before it, and returns the number of these
  /// sends.
  std::size_t complete(std::uint64_t number);
  /// Releases the resources of all sends, and returns their number.
  std::size_t release_all() { return in_flight() == 0 ? 0 : complete(head_ - 1); }

  [[nodiscard]] std::size_t depth() const { return sends_.size(); }
  [[nodiscard]] std::size_t in_flight() const { return head_ - tail_; }
  /// The number of sends whose resources were ever released.
  [[nodiscard]] std::uint64_t completed() const { return tail_; }

 private:
  /// A posted send. The last one of a large packet holds the frame.
  struct Posted {
    AddressHandlePtr to;
    Frame frame;  ///< empty if it was sent inline
  };

  struct Chain {
    std::size_t length = 0;  ///< work requests
    std::size_t datagrams = 0;
  };
  [[nodiscard]] Chain fill_chain(std::span<const Outgoing> batch, const Target& to);
  void fill_tso(const Outgoing& datagram, const Target& to, std::size_t index);
  void fill_send(const Outgoing& datagram, const Target& to, std::size_t index);
  void fill_segments(const Outgoing& datagram, const Target& to, std::size_t index);
  ibv_send_wr& begin_work(const Outgoing& datagram, const Target& to, std::size_t index);
  [[nodiscard]] ibv_sge element(ConstBytes bytes) const;
  [[nodiscard]] std::size_t hold_posted(std::span<Outgoing> batch, std::size_t posted);
  [[nodiscard]] std::size_t slot_of(std::uint64_t number) const {
    return number & (sends_.size() - 1);
  }

  const RegisteredMemory& memory_;
  UdCounters& counters_;
  // Send n is in slot n modulo depth; sends [tail, head) are posted.
  std::vector<Posted> sends_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::size_t unsignalled_ = 0;    ///< datagrams since the last signalled send
  std::vector<ibv_send_wr> work_;  ///< scratch for one chain
  std::vector<ibv_sge> elements_;  ///< two for each
  Frame headers_;
};

}  // namespace ipoib::verbs
