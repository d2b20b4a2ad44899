// A sender's connection to one process: a socket for messages, a ring for packets, and the wakeup
// table and wakeup descriptors that the receiver has sent.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "softib/transport/fork_guard.hpp"
#include "softib/transport/ring.hpp"
#include "softib/transport/shared_wakeup_fds.hpp"
#include "softib/transport/wakeup_table.hpp"
#include "softib/transport/wire_message.hpp"

namespace softib::transport {

/// How long a sender waits for a wakeup descriptor before it asks for one again.
inline constexpr std::chrono::seconds kWakeupFdPatience{1};

/// A connection, used by one thread at a time, except where stated otherwise.
class PeerConnection {
 public:
  explicit PeerConnection(GuardedFd socket, std::shared_ptr<SharedWakeupFds> shared = nullptr)
      : socket_(std::move(socket)), shared_(std::move(shared)) {}
  PeerConnection(const PeerConnection&) = delete;
  PeerConnection& operator=(const PeerConnection&) = delete;
  ~PeerConnection();

  /// The socket; for any thread.
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] bool has_ring() const { return ring_.has_value(); }
  /// Makes a ring and sends its memory to the receiver. Returns 0 or an errno value.
  [[nodiscard]] int make_ring();
  /// Sends a message; see send_message().
  [[nodiscard]] int send(MessageKind kind, ipoib::ConstBytes body);
  /// Writes packets, which arrive at `port`, to the ring and wakes their waiters. Returns how many
  /// fitted.
  std::size_t put(std::span<const OutgoingPacket* const> packets, std::uint8_t port);
  /// Whether the receiver has died or closed the connection. If it is closing, waits for it to
  /// finish, for at most `patience`. A dead receiver is noticed some milliseconds late.
  [[nodiscard]] bool has_ended(std::chrono::nanoseconds patience);
  /// Whether the connection has ended for this side, and the receiver may still take packets.
  [[nodiscard]] bool is_closing() const;
  /// Whether the receiver lives and has not taken all packets. A dead one may be noticed late.
  [[nodiscard]] bool has_untaken() { return ring_ && !ring_->is_empty() && !has_ended({}); }
  /// The packets that the receiver has not taken after has_ended() and, unless is_closing(), never
  /// will.
  [[nodiscard]] RingWriter::Left count_left() const {
    return ring_ ? ring_->count_left() : RingWriter::Left{};
  }
  /// Makes the receiver's engine read the ring, whoever the waiters are.
  void notify_engine();
  [[nodiscard]] std::uint64_t seen_taken() const { return ring_->seen_taken(); }
  [[nodiscard]] bool is_half_free() const { return ring_->is_half_free(); }
  /// Waits as RingWriter does; for any thread.
  void wait_for_room(std::uint64_t seen, std::chrono::steady_clock::time_point deadline) const {
    ring_->wait_for_room(seen, deadline);
  }

 private:
  struct WakeupFd {
    std::uint32_t number;
    ipoib::FileDescriptor sender;
  };
  void wake_waiter(std::size_t entry);
  void send_wakeup() { (void)send(MessageKind::wakeup, {}); }
  void read_messages();
  [[nodiscard]] bool handle(MessageReader& message);
  [[nodiscard]] const WakeupFd* find_wakeup_fd(std::uint32_t number) const;
  void want_wakeup_fd(std::uint32_t number);
  void keep(WakeupFd one);

  GuardedFd socket_;
  std::optional<RingWriter> ring_;
  std::optional<WakeupView> wakeup_table_;
  std::vector<WakeupFd> wakeup_fds_;         ///< the last ones received
  std::shared_ptr<SharedWakeupFds> shared_;  ///< null if kMaxWakeupFds is the only limit
  std::uint32_t wanted_ = Waiter::kNone;     ///< the wakeup descriptor that it has asked for
  std::int64_t wanted_at_ = 0;
  std::uint64_t taken_before_ = 0;
  std::int64_t checked_at_ = 0;  ///< when has_ended() last read `taken`
  bool ended_ = false;
  bool is_gone_ = false;  ///< the receiver has closed its socket, later than the ring
};

}  // namespace softib::transport
