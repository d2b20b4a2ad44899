#include "softib/transport/peer_connection.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>
#include <thread>

namespace softib::transport {

using std::chrono::steady_clock;

namespace {

/// How long a sender waits for a reader that is closing.
constexpr std::chrono::milliseconds kCloseTimeout{200};

std::size_t entry_of(const OutgoingPacket& packet) {
  return ipoib::is_multicast(packet.dlid) ? WakeupTable::kMulticast
                                          : QpnLayout::index(packet.destination);
}

/// Writing to anything else might block; so might a blocking eventfd, when its counter is full.
bool is_nonblocking_eventfd(int fd) {
  if ((::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0) return false;
  std::array<char, 64> name{};
  const auto link = "/proc/self/fd/" + std::to_string(fd);
  return ::readlink(link.c_str(), name.data(), name.size() - 1) > 0 &&
         std::string_view(name.data()) == "anon_inode:[eventfd]";
}

/// Nanoseconds of a clock that is cheap to read, with a resolution of some milliseconds.
std::int64_t coarse_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

int PeerConnection::make_ring() {
  const auto memory = make_ring_memory();
  if (!memory) return memory.error().code;
  auto ring = RingMemory::map(memory->get());
  if (!ring) return ring.error().code;
  if (const int error = send_message(socket(), MessageKind::ring, {}, memory->get())) return error;
  ring_.emplace(std::move(*ring));
  return 0;
}

std::size_t PeerConnection::put(std::span<const OutgoingPacket* const> packets) {
  const std::size_t count = ring_->put(packets);
  if (!wakeup_table_) read_messages();
  std::size_t last = WakeupTable::kMulticast + 1;
  for (const auto* packet : packets.first(count)) {
    if (const auto entry = entry_of(*packet); entry != last) wake_waiter(last = entry);
  }
  return count;
}

void PeerConnection::wake_waiter(std::size_t entry) {
  // Until the table has come, wake the engine by a message. If the socket is full, the receiver
  // reads the ring when it handles our message `ring`.
  if (!wakeup_table_) return send_wakeup();
  const auto waiter = wakeup_table_->waiter(entry);
  if (waiter == Waiter::kNone) return;
  if (waiter >= Waiter::kFirstWakeupFd) {
    const auto* found = find_wakeup_fd(waiter);
    if (found == nullptr) read_messages(), found = find_wakeup_fd(waiter);
    if (found != nullptr) {
      if (wakeup_table_->claim(entry, waiter)) (void)::eventfd_write(found->event.get(), 1);
      return;
    }
  }
  notify_engine();
}

void PeerConnection::notify_engine() {
  if (!wakeup_table_ || wakeup_table_->notify_engine()) send_wakeup();
}

void PeerConnection::send_wakeup() {
  const int error = send_message(socket(), MessageKind::wakeup);
  if (error == EPIPE || error == ECONNRESET) ended_ = true;
}

bool PeerConnection::is_closing() const {
  return ring_ && ring_->reader_state() != ReaderState::open &&
         ring_->reader_state() != ReaderState::closed;
}

bool PeerConnection::has_ended(bool may_wait) {
  if (!ring_ || ended_) return ended_;
  if (ring_->reader_state() != ReaderState::open) {
    const auto deadline = steady_clock::now() + (may_wait ? kCloseTimeout : kCloseTimeout.zero());
    while (ring_->reader_state() != ReaderState::closed && steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    ended_ = true;
  } else if (const auto taken = ring_->taken(); taken != std::exchange(taken_before_, taken)) {
    return false;
  } else if (!ring_->is_empty()) {
    // The reader has taken nothing since the last call and may be dead: check the socket.
    if (const auto now = coarse_now(); now != std::exchange(checked_at_, now)) read_messages();
  }
  return ended_;
}

/// Reads a bounded number of messages, since a peer might send without end.
void PeerConnection::read_messages() {
  MessageReader reader;
  for (std::size_t count = 0; count <= kMaxWakeupFds; ++count) {
    switch (reader.next(socket())) {
      case MessageReader::Got::message:
        if (handle(reader)) break;
        [[fallthrough]];
      case MessageReader::Got::malformed:
      case MessageReader::Got::end:
        ended_ = true;
        return;
      case MessageReader::Got::nothing:
        return;
    }
  }
}

/// Returns false for a message that no receiver sends.
bool PeerConnection::handle(MessageReader& message) {
  if (message.kind() == MessageKind::wakeup_table) {
    auto table = WakeupTable::map(message.fd().get());
    if (table && !wakeup_table_) wakeup_table_.emplace(std::move(*table));
    return bool(table);
  }
  std::uint32_t number = 0;
  if (message.kind() != MessageKind::wakeup_fd || message.body().size() != sizeof number) {
    return false;
  }
  if (!is_nonblocking_eventfd(message.fd().get())) return true;
  std::memcpy(&number, message.body().data(), sizeof number);
  if (wakeup_fds_.size() == kMaxWakeupFds) wakeup_fds_.erase(wakeup_fds_.begin());
  wakeup_fds_.push_back({number, message.take_fd()});
  return true;
}

const PeerConnection::WakeupFd* PeerConnection::find_wakeup_fd(std::uint32_t number) const {
  const auto found = std::find_if(wakeup_fds_.begin(), wakeup_fds_.end(),
                                  [&](const WakeupFd& each) { return each.number == number; });
  return found == wakeup_fds_.end() ? nullptr : &*found;
}

}  // namespace softib::transport
