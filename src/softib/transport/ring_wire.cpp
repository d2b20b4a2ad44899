#include "softib/transport/ring_wire.hpp"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "softib/transport/peer_connection.hpp"
#include "softib/transport/unix_socket.hpp"

namespace softib::transport {

using std::chrono::steady_clock;

struct RingWire::Peer {
  explicit Peer(PlaceAddress to) : address(to) {}
  void hang_up() {
    line.reset();
    is_connected = false;
  }

  const PlaceAddress address;
  std::uint64_t last_use = 0;  ///< of the table's lock
  std::atomic<bool> is_connected = false;
  std::mutex mutex;  ///< of what follows; order of messages
  std::shared_ptr<Line> line;
  std::uint32_t epoch = 0;  ///< in which the line was made
  bool congested = false;
  std::uint32_t empty_epoch = 0;  ///< in this epoch nobody listened; 0: not known
};

namespace {
std::uint32_t key_of(PlaceAddress place) {
  return std::uint32_t{place.node} * QpnLayout::kSlots + place.place;
}
}  // namespace

RingWire::RingWire(fabric::SubnetFolder folder, const fabric::Fabric& fabric)
    : folder_(std::move(folder)), fabric_(fabric) {}

RingWire::~RingWire() = default;

std::size_t RingWire::send(PlaceAddress to, std::span<const OutgoingPacket* const> packets,
                           Patience patience, Delivery& why, std::uint64_t& lost) {
  const auto receiver = peer(to);
  Lock lock(receiver->mutex);
  Deadline deadline{};
  std::size_t sent = 0;
  std::size_t on_this_line = 0;
  bool reconnected = false;
  if (receiver->line && receiver->epoch != fabric_.epoch(to.node, to.place)) {
    lost += receiver->line->count_left().packets;
    receiver->hang_up();
  }
  for (;;) {
    why = connect_with_ring(*receiver);
    if (why != Delivery::delivered) {
      if (reconnected) why = Delivery::lost;
      return sent;
    }
    auto& line = *receiver->line;
    const bool may_wait = patience == Patience::wait && !receiver->congested;
    const std::size_t count = line.put(packets.subspan(sent));
    if (count != 0 && line.seen_taken() != 0) receiver->congested = false;
    sent += count;
    on_this_line += count;
    if (line.has_ended(may_wait)) {
      // It died, or cut us off. Whoever lives there now gets what is left of these packets, which
      // may not be for it: it will say so.
      const auto left = line.count_left();
      const auto back = std::min(left.entries, std::exchange(on_this_line, 0));
      sent -= back;
      lost += left.packets - std::min(left.packets, count_packets(packets.subspan(sent, back)));
      receiver->congested = line.is_overdue();
      receiver->hang_up();
      if (sent == packets.size()) return sent;
      why = Delivery::lost;
      if (std::exchange(reconnected, true)) return sent;
    } else if (sent == packets.size()) {
      return sent;
    } else if (!wait_for_ring(*receiver, lock, patience, deadline)) {
      why = Delivery::congested;
      return sent;
    }
  }
}

Delivery RingWire::send_mad(PlaceAddress to, ConstBytes packet, Patience patience,
                            std::uint64_t& lost) {
  return transmit(to, MessageKind::mad, packet, patience, lost);
}

bool RingWire::nudge(PlaceAddress to, std::uint64_t& lost) {
  // Congested: so much is queued there that the engine turns anyway.
  return transmit(to, MessageKind::nudge, {}, Patience::never_wait, lost) != Delivery::refused;
}

void RingWire::disconnect() {
  const std::lock_guard lock(mutex_);
  peers_.clear();
  by_use_.clear();
}

std::shared_ptr<RingWire::Peer> RingWire::peer(PlaceAddress to) {
  const std::uint32_t key = key_of(to);
  const std::lock_guard lock(mutex_);
  ++uses_;
  if (const auto known = peers_.find(key); known != peers_.end()) {
    by_use_.splice(by_use_.end(), by_use_, known->second);
    by_use_.back()->last_use = uses_;
    return by_use_.back();
  }
  const auto bound = max_connections();
  if (by_use_.size() >= bound) {
    const Peer& oldest = *by_use_.front();
    if (oldest.last_use + kFreshRounds * bound > uses_) return std::make_shared<Peer>(to);
    peers_.erase(key_of(oldest.address));
    by_use_.pop_front();
  }
  peers_[key] = by_use_.insert(by_use_.end(), std::make_shared<Peer>(to));
  by_use_.back()->last_use = uses_;
  return by_use_.back();
}

/// For want of descriptors.
void RingWire::give_up_a_connection(const Peer& other_than) {
  const std::lock_guard lock(mutex_);
  const auto oldest = std::find_if(by_use_.begin(), by_use_.end(), [&](const auto& peer) {
    return peer->is_connected && peer.get() != &other_than;
  });
  if (oldest == by_use_.end()) return;
  peers_.erase(key_of((*oldest)->address));
  by_use_.erase(oldest);
}

Delivery RingWire::transmit(PlaceAddress to, MessageKind kind, ConstBytes body, Patience patience,
                            std::uint64_t& lost) {
  const auto receiver = peer(to);
  Lock lock(receiver->mutex);
  Deadline deadline{};
  bool reconnected = false;
  for (;;) {
    const auto connected = connect(*receiver);
    if (connected != Delivery::delivered) return reconnected ? Delivery::lost : connected;
    const int error = send_message(receiver->line->socket(), kind, body);
    if (error == 0) {
      receiver->congested = false;
      return Delivery::delivered;
    }
    if (error == EAGAIN) {
      if (!wait_for_socket(*receiver, lock, patience, deadline)) return Delivery::congested;
      continue;
    }
    if (error == ENOBUFS || error == ENOMEM) return Delivery::refused;
    // It died. Whoever lives there now gets the message, which is not for it: it will say so.
    // Or it is about to cut us off: then it takes what it has.
    (void)receiver->line->has_ended(patience == Patience::wait && !receiver->congested);
    lost += receiver->line->count_left().packets;
    receiver->congested = receiver->line->is_overdue();
    receiver->hang_up();
    if (std::exchange(reconnected, true)) return Delivery::lost;
  }
}

Delivery RingWire::connect(Peer& peer) {
  if (peer.line) return Delivery::delivered;
  // Read before connecting: a process advances its epoch after it has begun to listen.
  const std::uint32_t epoch = fabric_.epoch(peer.address.node, peer.address.place);
  if (epoch != 0 && epoch == peer.empty_epoch) return Delivery::empty_place;
  const auto path = folder_.place(peer.address.node, peer.address.place);
  GuardedFd socket = connect_to(path);
  if (!socket && (errno == EMFILE || errno == ENFILE)) {
    give_up_a_connection(peer);
    socket = connect_to(path);
  }
  if (socket) {
    if (std::exchange(peer.epoch, epoch) != epoch) peer.congested = false;
    peer.line = std::make_shared<Line>(std::move(socket));
    peer.is_connected = true;
    return Delivery::delivered;
  }
  if (errno == EAGAIN) return Delivery::congested;
  // All else says nothing about who lives there.
  if (errno != ENOENT && errno != ECONNREFUSED) return Delivery::refused;
  peer.empty_epoch = epoch;
  return Delivery::empty_place;
}

Delivery RingWire::connect_with_ring(Peer& peer) {
  const auto connected = connect(peer);
  if (connected != Delivery::delivered || peer.line->has_ring()) return connected;
  int error = peer.line->make_ring();
  if (error == EMFILE || error == ENFILE) {
    give_up_a_connection(peer);
    error = peer.line->make_ring();
  }
  if (error == 0) return Delivery::delivered;
  if (error == EAGAIN) return Delivery::congested;
  if (error != EPIPE && error != ECONNRESET) return Delivery::refused;
  peer.hang_up();
  return Delivery::lost;
}

/// Sets the deadline, if there is none yet.
bool RingWire::may_wait(Peer& peer, Patience patience, Deadline& deadline) {
  const auto now = steady_clock::now();
  if (deadline == Deadline{}) deadline = now + kHeadOfQueueLifetime;
  if (patience == Patience::never_wait || now >= deadline) peer.congested = true;
  return !peer.congested;
}

bool RingWire::wait_for_socket(Peer& peer, Lock& lock, Patience patience, Deadline& deadline) {
  if (!may_wait(peer, patience, deadline)) return false;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
  const auto line = peer.line;
  lock.unlock();
  pollfd room{line->socket(), POLLOUT, 0};
  (void)::poll(&room, 1, static_cast<int>(left));
  lock.lock();
  return true;
}

bool RingWire::wait_for_ring(Peer& peer, Lock& lock, Patience patience, Deadline& deadline) {
  if (!may_wait(peer, patience, deadline)) return false;
  const auto line = peer.line;
  const auto seen = line->seen_taken();
  lock.unlock();
  const auto turn = std::min(deadline, steady_clock::now() + kPollersTurn);
  line->wait_for_room(seen, turn);
  lock.lock();
  if (steady_clock::now() >= turn) line->call_engine();
  return true;
}

}  // namespace softib::transport
