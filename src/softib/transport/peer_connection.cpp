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

/// How long a reader that has announced its end may take for it.
constexpr std::chrono::milliseconds kEndPatience{200};

std::size_t entry_of(const OutgoingPacket& packet) {
  return ipoib::is_multicast(packet.dlid) ? Door::kMulticast : QpnLayout::index(packet.destination);
}

/// Writing to anything else might wait: to one that may block as well, when its count is full.
bool is_bell(int fd) {
  if ((::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0) return false;
  std::array<char, 64> name{};
  const auto link = "/proc/self/fd/" + std::to_string(fd);
  return ::readlink(link.c_str(), name.data(), name.size() - 1) > 0 &&
         std::string_view(name.data()) == "anon_inode:[eventfd]";
}

/// Of a clock that is cheap to read, and coarse.
std::int64_t tick() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

int Line::make_ring() {
  const auto memory = make_ring_memory();
  if (!memory) return memory.error().code;
  auto ring = RingMemory::map(memory->get());
  if (!ring) return ring.error().code;
  if (const int error = send_message(socket(), MessageKind::ring, {}, memory->get())) return error;
  ring_.emplace(std::move(*ring));
  return 0;
}

std::size_t Line::put(std::span<const OutgoingPacket* const> packets) {
  const std::size_t count = ring_->put(packets);
  if (!door_) listen();
  std::size_t last = Door::kMulticast + 1;
  for (const auto* packet : packets.first(count)) {
    if (const auto entry = entry_of(*packet); entry != last) wake_for(last = entry);
  }
  return count;
}

void Line::wake_for(std::size_t entry) {
  // Who has not let us in yet is about to: then it looks.
  if (!door_) return nudge();
  const auto attendant = door_->attendant(entry);
  if (attendant == Attendant::kNobody) return;
  if (attendant >= Attendant::kFirstBell) {
    const auto* found = bell(attendant);
    if (found == nullptr) listen(), found = bell(attendant);
    if (found != nullptr) {
      if (door_->claim(entry, attendant)) (void)::eventfd_write(found->event.get(), 1);
      return;
    }
  }
  call_engine();
}

void Line::call_engine() {
  if (!door_ || door_->call_engine()) nudge();
}

void Line::nudge() {
  const int error = send_message(socket(), MessageKind::nudge);
  if (error == EPIPE || error == ECONNRESET) ended_ = true;
}

bool Line::is_overdue() const {
  return ring_ && ring_->end() != RingEnd::none && ring_->end() != RingEnd::complete;
}

bool Line::has_ended(bool may_wait) {
  if (!ring_ || ended_) return ended_;
  if (ring_->end() != RingEnd::none) {
    const auto patience = steady_clock::now() + (may_wait ? kEndPatience : kEndPatience.zero());
    while (ring_->end() != RingEnd::complete && steady_clock::now() < patience) {
      std::this_thread::yield();
    }
    ended_ = true;
  } else if (const auto taken = ring_->taken(); taken != std::exchange(taken_before_, taken)) {
    return false;
  } else if (!ring_->is_empty()) {
    // Nothing has been taken since we looked last: it may be dead.
    if (const auto now = tick(); now != std::exchange(looked_at_, now)) listen();
  }
  return ended_;
}

/// To no more than there is to say at a time: somebody may talk without end.
void Line::listen() {
  MessageReader reader;
  for (std::size_t count = 0; count <= kMaxBells; ++count) {
    switch (reader.next(socket())) {
      case MessageReader::Got::message:
        take_over(reader);
        break;
      case MessageReader::Got::malformed:
        break;
      case MessageReader::Got::nothing:
        return;
      case MessageReader::Got::end:
        ended_ = true;
        return;
    }
  }
}

void Line::take_over(MessageReader& message) {
  if (message.kind() == MessageKind::door && !door_) {
    if (auto door = Door::map(message.handed_over().get())) door_.emplace(std::move(*door));
  }
  Bell bell;
  if (message.kind() != MessageKind::bell || message.body().size() != sizeof bell.number) return;
  if (!is_bell(message.handed_over().get())) return;
  std::memcpy(&bell.number, message.body().data(), sizeof bell.number);
  bell.event = message.take();
  if (bells_.size() == kMaxBells) bells_.erase(bells_.begin());
  bells_.push_back(std::move(bell));
}

const Line::Bell* Line::bell(std::uint32_t number) const {
  const auto found = std::find_if(bells_.begin(), bells_.end(),
                                  [&](const Bell& each) { return each.number == number; });
  return found == bells_.end() ? nullptr : &*found;
}

}  // namespace softib::transport
