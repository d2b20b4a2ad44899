#include "softib/transport/peer_connection.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "softib/transport/wakeup_socket.hpp"

namespace softib::transport {

using std::chrono::steady_clock;

namespace {

std::size_t entry_of(const OutgoingPacket& packet) {
  if (packet.purpose == Purpose::request) return WakeupEntry::kRequests;
  if (packet.purpose == Purpose::response) return WakeupEntry::kResponses;
  return ipoib::is_multicast(packet.dlid) ? WakeupEntry::kMulticast
                                          : QpnLayout::index(packet.destination);
}

/// Nanoseconds of a clock that is cheap to read, with a resolution of some milliseconds.
std::int64_t coarse_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

PeerConnection::~PeerConnection() {
  if (!shared_) return;
  for (std::size_t i = 1; i < wakeup_fds_.size(); ++i) shared_->give_back(*this);
}

int PeerConnection::make_ring() {
  const auto memory = make_ring_memory();
  if (!memory) return memory.error().code;
  auto ring = RingMemory::map(memory->get());
  if (!ring) return ring.error().code;
  if (const int error = send_message(socket(), MessageKind::ring, {}, memory->get())) return error;
  ring_.emplace(std::move(*ring));
  return 0;
}

int PeerConnection::send(MessageKind kind, ipoib::ConstBytes body) {
  const int error = send_message(socket(), kind, body);
  if (error == EPIPE || error == ECONNRESET) ended_ = true;
  return error;
}

std::size_t PeerConnection::put(std::span<const OutgoingPacket* const> packets, std::uint8_t port) {
  const std::size_t count = ring_->put(packets, port);
  if (!wakeup_table_) read_messages();
  std::size_t last = WakeupEntry::kCount;
  for (const auto* packet : packets.first(count)) {
    if (const auto entry = entry_of(*packet); entry != last) wake_waiter(last = entry);
  }
  return count;
}

void PeerConnection::wake_waiter(std::size_t entry) {
  // Until the table has come, wake the engine by a message. If the socket is full, the receiver
  // reads the ring when it handles our message `ring`.
  if (!wakeup_table_) return send_wakeup();
  const auto word = wakeup_table_->entry(entry);
  const auto waiter = WakeupView::waiter(word);
  if (waiter == Waiter::kNone) return;
  if (waiter >= Waiter::kFirstWakeupFd) {
    if (wakeup_table_->is_woken(entry, word)) return;
    const auto* found = find_wakeup_fd(waiter);
    if (found == nullptr) read_messages(), found = find_wakeup_fd(waiter);
    if (found != nullptr && wake(found->sender.get())) {
      return wakeup_table_->set_woken(entry, word);
    }
    if (found == nullptr) want_wakeup_fd(waiter);
    // The waiter's queue is full, perhaps of the wakeups of a faulty sender.
  }
  notify_engine();
}

void PeerConnection::notify_engine() {
  if (!wakeup_table_) return send_wakeup();
  if (ring_->request_engine() && wakeup_table_->must_wake_engine()) send_wakeup();
}

/// Whether the engine is closing: it first refuses messages, then reads the ring for the last time,
/// then closes the socket.
bool PeerConnection::is_closing() const {
  if (!ring_ || is_gone_) return false;
  const auto state = ring_->reader_state();
  return state != ReaderState::closed && (ended_ || state != ReaderState::open);
}

bool PeerConnection::has_ended(std::chrono::nanoseconds patience) {
  if (!ring_) return ended_;
  if (ended_ || ring_->reader_state() != ReaderState::open) {
    if (is_closing()) read_messages();  // the receiver may have died
    if (is_closing()) ring_->wait_until_closed(steady_clock::now() + patience);
    ended_ = true;
  } else if (const auto now = coarse_now(); now != std::exchange(checked_at_, now)) {
    // Not for each packet, since `taken` is in the reader's cache. A reader that has taken nothing
    // since the last check may be dead: the socket tells.
    const auto taken = ring_->taken();
    if (taken == std::exchange(taken_before_, taken) && !ring_->is_empty()) read_messages();
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
        ended_ = true;
        return;
      case MessageReader::Got::end:
        ended_ = is_gone_ = true;
        return;
      case MessageReader::Got::no_room:  // the engine is woken instead
        break;
      case MessageReader::Got::nothing:
        return;
    }
  }
}

/// Returns false for a message that no receiver sends.
bool PeerConnection::handle(MessageReader& message) {
  if (message.kind() == MessageKind::wakeup_table) {
    if (wakeup_table_) return false;
    auto table = WakeupView::map(message.fd().get());
    if (table) wakeup_table_.emplace(std::move(*table));
    return bool(table);
  }
  std::uint32_t number = 0;
  if (message.kind() != MessageKind::wakeup_fd || message.body().size() != sizeof number) {
    return false;
  }
  if (!is_wakeup_sender(message.fd().get())) return false;
  std::memcpy(&number, message.body().data(), sizeof number);
  if (number != wanted_) return true;  // the answer to an earlier request
  wanted_ = Waiter::kNone;
  keep({number, message.take_fd()});
  return true;
}

/// Asks for a wakeup descriptor, only for waiters that the table names, and one after the other: a
/// receiver cannot make this process hold descriptors that it does not use.
void PeerConnection::want_wakeup_fd(std::uint32_t number) {
  const auto now = coarse_now();
  const std::chrono::nanoseconds waited(now - wanted_at_);
  if (wanted_ != Waiter::kNone && waited < kWakeupFdPatience) return;
  std::array<std::uint8_t, sizeof number> body;
  std::memcpy(body.data(), &number, sizeof number);
  if (send(MessageKind::want_wakeup_fd, body) != 0) return;
  wanted_ = number;
  wanted_at_ = now;
}

/// Keeps a descriptor; replaces the oldest one if there is no room for another.
void PeerConnection::keep(WakeupFd one) {
  const bool has_room = wakeup_fds_.empty() ||
                        (wakeup_fds_.size() < kMaxWakeupFds && (!shared_ || shared_->take(*this)));
  if (!has_room) wakeup_fds_.erase(wakeup_fds_.begin());
  wakeup_fds_.push_back(std::move(one));
}

const PeerConnection::WakeupFd* PeerConnection::find_wakeup_fd(std::uint32_t number) const {
  const auto found = std::find_if(wakeup_fds_.begin(), wakeup_fds_.end(),
                                  [&](const WakeupFd& each) { return each.number == number; });
  return found == wakeup_fds_.end() ? nullptr : &*found;
}

}  // namespace softib::transport
