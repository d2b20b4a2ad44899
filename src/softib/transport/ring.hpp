// Packets from one process to another, in memory that both have mapped: one writer, one reader, no
// system call as long as neither sleeps.
//
//   page 0:  written, octets ever written | taken, octets ever taken | states
//   then the ring, a power of two, of records:
//     | checksums right 1, octets 31 | GsoInfo: size 16, packets 16 | packet | pad to 64 |
//
// A record begins at `written` modulo the ring's size, and is in one piece since the ring is mapped
// twice in a row. Either side believes nothing that the other wrote, but its word on checksums: an
// index or a length that cannot be breaks the ring. Either may die at any instant: what is not
// published was never sent.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "softib/hca/large_packet.hpp"
#include "softib/transport/shared_memory.hpp"

namespace softib::transport {

/// What is on its way to a reader that lags. As much as stays in a processor's cache.
inline constexpr std::size_t kRingOctets = std::size_t{1} << 19;

struct RingHeader {
  alignas(64) std::atomic<std::uint64_t> written;
  std::atomic<std::uint32_t> writer_sleeps;  ///< a futex: 1 until the reader has made room
  alignas(64) std::atomic<std::uint64_t> taken;
  std::atomic<std::uint32_t> end;  ///< of the reader, a RingEnd
};

/// How far the reader is with leaving.
enum class RingEnd : std::uint32_t {
  none,
  announced,  ///< what it sees published is taken, what comes later may be
  complete,   ///< no more is taken
};

/// Memory for a ring, to be mapped by both sides.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> make_ring_memory();

/// A ring as either side has it mapped.
class RingMemory {
 public:
  /// EINVAL: no memory of a ring.
  [[nodiscard]] static ipoib::Result<RingMemory> map(int memory);
  [[nodiscard]] RingHeader& header() const {
    return *reinterpret_cast<RingHeader*>(mapping_.data());
  }
  /// Where the octet stands that is the `position`th ever written; a record goes on behind it.
  [[nodiscard]] std::uint8_t* at(std::uint64_t position) const;

 private:
  explicit RingMemory(SharedMapping mapping) : mapping_(std::move(mapping)) {}
  SharedMapping mapping_;
};

class RingWriter {
 public:
  explicit RingWriter(RingMemory memory) : memory_(std::move(memory)) {}

  /// Copies packets into the ring from the front, as far as there is room, and publishes them;
  /// returns how many. What is larger than a packet can be is not sent, but passed over.
  std::size_t put(std::span<const OutgoingPacket* const> packets);
  /// Sleeps until the reader has taken more than `seen`, or `deadline`. Needs no lock that guards
  /// the rest.
  void wait_for_room(std::uint64_t seen, std::chrono::steady_clock::time_point deadline) const;
  /// What had been taken when put() last looked.
  [[nodiscard]] std::uint64_t seen_taken() const { return room_until_ - kRingOctets; }
  [[nodiscard]] bool is_empty() const { return taken() == written_; }
  /// Octets ever taken, as the reader says; never more than what is written.
  [[nodiscard]] std::uint64_t taken() const;
  [[nodiscard]] RingEnd end() const;
  /// Of what was put last: what is in the ring still, and how many packets it stands for.
  struct Left {
    std::size_t entries = 0;
    std::size_t packets = 0;
  };
  [[nodiscard]] Left count_left() const;

 private:
  [[nodiscard]] RingHeader& header() const { return memory_.header(); }
  RingMemory memory_;
  std::uint64_t written_ = 0;
  std::uint64_t room_until_ = kRingOctets;  ///< of `written_`, as far as we have looked
};

class RingReader {
 public:
  explicit RingReader(RingMemory memory) : memory_(std::move(memory)) {}

  /// Packets from the front, until they stand for `limit` of them, valid until release(). False:
  /// the ring has been found broken just now; it is empty from then on.
  [[nodiscard]] bool read(std::vector<ArrivedPacket>& out, std::size_t limit);
  /// Gives the room of what has been read back to the writer.
  void release();
  /// Octets ever published, as the writer says, and those that have been released.
  [[nodiscard]] std::uint64_t published() const {
    return header().written.load(std::memory_order_seq_cst);
  }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  [[nodiscard]] bool is_empty() const { return broken_ || published() == read_; }
  /// Tells the writer how far the reader's end is.
  void set_end(RingEnd end);

 private:
  [[nodiscard]] RingHeader& header() const { return memory_.header(); }
  void wake_writer();

  RingMemory memory_;
  std::uint64_t taken_ = 0;
  std::uint64_t read_ = 0;
  bool broken_ = false;
};

}  // namespace softib::transport
