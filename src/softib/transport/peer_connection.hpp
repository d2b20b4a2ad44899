// A line to one process: the socket, the ring, and what the other end has said about waking it.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "softib/transport/fork_guard.hpp"
#include "softib/transport/ring.hpp"
#include "softib/transport/wakeup_table.hpp"
#include "softib/transport/wire_message.hpp"

namespace softib::transport {

/// For one thread at a time, but for what says otherwise.
class Line {
 public:
  explicit Line(GuardedFd socket) : socket_(std::move(socket)) {}

  /// From any thread; the line is alive.
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] bool has_ring() const { return ring_.has_value(); }
  /// Makes a ring and hands it over; 0 or an errno value.
  [[nodiscard]] int make_ring();
  /// Puts packets into the ring, and wakes whom it has to; returns how many fitted.
  std::size_t put(std::span<const OutgoingPacket* const> packets);
  /// Whether the other process has died or left, as far as can be told without a packet for it.
  /// Waits for one that is about to leave to have done so, if that is wanted.
  [[nodiscard]] bool has_ended(bool may_wait);
  /// The other process has announced that it leaves, and has not done so.
  [[nodiscard]] bool is_overdue() const;
  /// What it has not taken, and will not, now that it has ended.
  [[nodiscard]] RingWriter::Left count_left() const {
    return ring_ ? ring_->count_left() : RingWriter::Left{};
  }
  /// Has the engine take packets, whoever was to do so.
  void call_engine();
  [[nodiscard]] std::uint64_t seen_taken() const { return ring_->seen_taken(); }
  /// From any thread: see RingWriter.
  void wait_for_room(std::uint64_t seen, std::chrono::steady_clock::time_point deadline) const {
    ring_->wait_for_room(seen, deadline);
  }

 private:
  struct Bell {
    std::uint32_t number;
    ipoib::FileDescriptor event;
  };
  void wake_for(std::size_t entry);
  void nudge();
  void listen();
  void take_over(MessageReader& message);
  [[nodiscard]] const Bell* bell(std::uint32_t number) const;

  GuardedFd socket_;
  std::optional<RingWriter> ring_;
  std::optional<Door> door_;
  std::vector<Bell> bells_;  ///< the newest kMaxBells
  std::uint64_t taken_before_ = 0;
  std::int64_t looked_at_ = 0;  ///< when we looked whether it is dead
  bool ended_ = false;
};

}  // namespace softib::transport
