// What a queue pair has sent and does not know to be done, and the work requests that it is made
// of.
//
// Sends go out as one chain, of which the last is signalled once no completion will
// cover kSignalPeriod datagrams; frames and address handles are held until one does. A large packet
// is a work request of its own where the device cuts it (IBV_WR_TSO). Elsewhere each segment is
// one, of two elements: headers, written to the place that its number has in `headers_`, and
// payload, where it lies.
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
    std::uint32_t inline_octets = 0;
    std::uint32_t large_octets = 0;  ///< of the payload of a packet that the device may cut
    bool sums_up = false;            ///< the device computes the checksums of segments
    bool reports = false;            ///< there is a completion, however few sends it covers
  };

  /// Both outlive it; `memory` is that of all frames which are sent.
  SendQueue(const RegisteredMemory& memory, UdCounters& counters)
      : memory_(memory), counters_(counters) {}
  /// For the headers of one segment.
  static constexpr std::size_t kHeaderSlot = 256;
  /// The headers of a packet that the device cuts: of a plain IP header, and TCP with all options.
  static constexpr std::size_t kMaxLargeHeaders = 104;
  /// For `depth` sends, a power of two. `headers` has kHeaderSlot octets for each.
  void make(std::uint32_t depth, Frame&& headers);

  /// As UdPort::send(). False in `accepted`: the device has refused some of it.
  [[nodiscard]] std::size_t send(std::span<Outgoing> batch, const Target& to, bool& accepted);
  /// Gives back what belongs to the send of that number and to all before it; returns how many
  /// sends these are.
  std::size_t complete(std::uint64_t number);
  /// Gives back everything, the same.
  std::size_t take_back() { return in_flight() == 0 ? 0 : complete(head_ - 1); }

  [[nodiscard]] std::size_t depth() const { return sends_.size(); }
  [[nodiscard]] std::size_t in_flight() const { return head_ - tail_; }

 private:
  /// Of a large packet the last of its sends has it.
  struct Posted {
    AddressHandlePtr to;
    Frame frame;  ///< empty when it went inline
  };

  struct Chain {
    std::size_t length = 0;     ///< work requests
    std::size_t datagrams = 0;  ///< that these make
  };
  [[nodiscard]] Chain fill_chain(std::span<const Outgoing> batch, const Target& to);
  void fill_large(const Outgoing& datagram, const Target& to, std::size_t place);
  void fill_send(const Outgoing& datagram, const Target& to, std::size_t place);
  void fill_segments(const Outgoing& datagram, const Target& to, std::size_t place);
  ibv_send_wr& begin_work(const Outgoing& datagram, const Target& to, std::size_t place);
  [[nodiscard]] ibv_sge element(ConstBytes bytes) const;
  [[nodiscard]] std::size_t hold_posted(std::span<Outgoing> batch, const Target& to,
                                        std::size_t posted);
  [[nodiscard]] std::size_t slot_of(std::uint64_t number) const {
    return number & (sends_.size() - 1);
  }

  const RegisteredMemory& memory_;
  UdCounters& counters_;
  // The send with number n is in slot n modulo depth; [tail, head) are posted.
  std::vector<Posted> sends_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::size_t uncovered_ = 0;      ///< datagrams since the last send that was signalled
  std::vector<ibv_send_wr> work_;  ///< scratch for one chain
  std::vector<ibv_sge> elements_;  ///< two for each
  Frame headers_;
};

}  // namespace ipoib::verbs
