// A ring of packets in memory that one writing and one reading process share.
//
//   page 0:  written, writer_sleeps, engine_requested | taken | reader_state
//   then the ring, kRingBytes long, of records, padded to 64 bytes:
//     | checksums valid 1, ends with its ICRC 1, second port 1, bytes 29 |
//     | GsoInfo: size 16, packets 16 | packet |
//
// `written` and `taken` count all bytes of records ever written and ever released. A record starts
// at its count modulo kRingBytes; the ring is mapped twice in a row, so each record is contiguous.
//
//   written        stored by the writer: all records before it are complete
//   taken          stored by the reader: the bytes before it may be overwritten
//   reader_state   stored by the reader. A writer that publishes and then loads `open` knows that a
//                  running reader will take the packets
//   writer_sleeps  a futex. The writer stores 1, then loads `taken`; the reader stores `taken`,
//                  then loads this. One sees the other's store, so no wakeup is lost
//   engine_requested   the writer asks the reader's engine to read the ring (wakeup_table.hpp)
//
// Orders are seq_cst, except release for `written` within a batch and acquire to look for room.
// Either process may die at any instant; what is not published was never sent. Neither trusts the
// other: an impossible count or length breaks the ring. Only "checksums valid" is not verified.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "softib/core/large_packet.hpp"
#include "softib/transport/ring_memory.hpp"

namespace softib::transport {

class RingWriter {
 public:
  explicit RingWriter(RingMemory memory) : memory_(std::move(memory)) {}

  /// Publishes packets, which arrive at port `port` of the reader's HCA, while there is room;
  /// returns how many. Skips and counts oversized ones.
  std::size_t put(std::span<const OutgoingPacket* const> packets, std::uint8_t port = 1);
  /// Sleeps until `taken` differs from `seen`, or until `deadline`. May be called while another
  /// thread uses the writer.
  void wait_for_room(std::uint64_t seen, std::chrono::steady_clock::time_point deadline) const;
  /// Sleeps until the reader has closed the ring, or until `deadline`.
  void wait_until_closed(std::chrono::steady_clock::time_point deadline) const;
  /// Returns false if the engine has been requested already and has not taken that yet
  /// (wakeup_table.hpp).
  bool request_engine() {
    auto& requested = header().engine_requested;
    return requested.load(std::memory_order_seq_cst) == 0 && requested.exchange(1) == 0;
  }
  /// The value of `taken` that put() read last.
  [[nodiscard]] std::uint64_t seen_taken() const { return room_until_ - kRingBytes; }
  [[nodiscard]] bool is_empty() const { return taken() == written_; }
  [[nodiscard]] bool is_half_free() const { return written_ - taken() <= kRingBytes / 2; }
  /// The value of `taken`, which was checked to be within kRingBytes below what is written.
  [[nodiscard]] std::uint64_t taken() const;
  [[nodiscard]] ReaderState reader_state() const;
  /// The records that are still in the ring, and the packets that they stand for.
  struct Left {
    std::size_t entries = 0;
    std::size_t packets = 0;
  };
  [[nodiscard]] Left count_left() const;

 private:
  [[nodiscard]] RingHeader& header() const { return memory_.header(); }
  RingMemory memory_;
  std::uint64_t written_ = 0;
  std::uint64_t room_until_ = kRingBytes;  ///< `written_` may grow to this without reading `taken`
};

class RingReader {
 public:
  explicit RingReader(RingMemory memory) : memory_(std::move(memory)) {}

  /// Appends packets to `out` until they stand for at least `limit`. They are valid until
  /// release(). Returns false when it finds the ring broken; from then on the ring yields nothing.
  [[nodiscard]] bool read(std::vector<ArrivedPacket>& out, std::size_t limit);
  /// Frees the room of all packets that have been read.
  void release();
  /// Whether the writer has requested the engine since the last call.
  [[nodiscard]] bool take_request() {
    auto& requested = header().engine_requested;
    return requested.load(std::memory_order_seq_cst) != 0 && requested.exchange(0) != 0;
  }
  [[nodiscard]] std::uint64_t published() const {
    return header().written.load(std::memory_order_seq_cst);
  }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  void set_state(ReaderState state);

 private:
  [[nodiscard]] RingHeader& header() const { return memory_.header(); }

  RingMemory memory_;
  std::uint64_t taken_ = 0;
  std::uint64_t read_ = 0;
  bool broken_ = false;
};

}  // namespace softib::transport
