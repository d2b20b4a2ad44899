#include "softib/transport/ring_wire.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "softib/core/adaptive_mutex.hpp"
#include "softib/transport/patience.hpp"
#include "softib/transport/peer_connection.hpp"
#include "softib/transport/unix_socket.hpp"

namespace softib::transport {

using std::chrono::steady_clock;

struct RingWire::Peer {
  Peer(ProcessAddress to, ConnectionWatcher* who) : address(to), watcher(who) {}
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { disconnect(); }
  /// Closes the connection. A watched one that this side closes counts as ended, too: nobody would
  /// notice its end.
  void disconnect() {
    connection.reset();
    is_connected = false;
    taken = 0;
    if (std::exchange(is_watched, false)) watcher->connection_ended({address, epoch});
  }

  const ProcessAddress address;
  ConnectionWatcher* const watcher;
  std::uint64_t last_use = 0;  ///< guarded by RingWire::mutex_
  std::atomic<bool> is_connected = false;
  AdaptiveMutex mutex;  ///< guards the members below, and keeps the order of messages
  std::shared_ptr<PeerConnection> connection;
  std::uint32_t epoch = 0;  ///< of the slot when the connection was made
  bool is_watched = false;
  bool congested = false;         ///< nobody waits for it
  std::uint64_t taken = 0;        ///< of the ring; `patience` has been given for it
  Patience patience;              ///< with the process that has the slot
  std::uint32_t empty_epoch = 0;  ///< epoch in which nobody listened; 0 if none is known
};

namespace {
std::uint32_t key_of(ProcessAddress process) {
  return std::uint32_t{process.node} * QpnLayout::kSlots + process.slot;
}
}  // namespace

RingWire::RingWire(fabric::SubnetFolder folder, const fabric::Fabric& fabric,
                   ConnectionWatcher* watcher)
    : folder_(std::move(folder)),
      fabric_(fabric),
      watcher_(watcher),
      wakeup_fds_(std::make_shared<SharedWakeupFds>(max_shared_wakeup_fds())) {}

RingWire::~RingWire() = default;

std::size_t RingWire::send(ProcessAddress to, std::uint8_t port,
                           std::span<const OutgoingPacket* const> packets, SendMode mode,
                           Delivery& why, std::uint64_t& lost) {
  const auto receiver = peer(to);
  Lock lock(receiver->mutex);
  std::size_t sent = 0;
  std::size_t on_this_connection = 0;
  bool reconnected = false;
  if (receiver->connection && receiver->epoch != fabric_.epoch(to.node, to.slot)) {
    lost += receiver->connection->count_left().packets;
    receiver->disconnect();
  }
  for (;;) {
    why = connect_with_ring(*receiver);
    if (why != Delivery::delivered) {
      if (reconnected) why = Delivery::lost;
      return sent;
    }
    auto& connection = *receiver->connection;
    if (receiver->congested && connection.is_half_free()) receiver->congested = false;
    const std::size_t count = connection.put(packets.subspan(sent), port);
    sent += count;
    on_this_connection += count;
    if (has_ended(*receiver, mode)) {
      // The receiver died or disconnected us. What it has not taken of these packets is sent again
      // on a new connection. If another process has the slot by now, it drops them. What it may
      // still take counts as lost: nothing is sent twice.
      const auto left = connection.count_left();
      const auto put = std::exchange(on_this_connection, 0);
      const auto back = connection.is_closing() ? 0 : std::min(left.entries, put);
      sent -= back;
      lost += left.packets - std::min(left.packets, count_packets(packets.subspan(sent, back)));
      receiver->disconnect();
      if (sent == packets.size()) return sent;
      why = Delivery::lost;
      if (std::exchange(reconnected, true)) return sent;
    } else if (sent == packets.size()) {
      return sent;
    } else if (!wait_for_ring(*receiver, lock, mode)) {
      why = Delivery::congested;
      return sent;
    }
  }
}

Delivery RingWire::send_mad(ProcessAddress to, const MadOnWire& mad, std::uint64_t& lost) {
  const auto kind = mad.has_icrc ? MessageKind::mad_with_icrc : MessageKind::mad;
  std::array<std::uint8_t, kMaxMessageBody> body;
  if (mad.bytes.size() >= body.size()) return Delivery::too_long;
  body[0] = mad.port;
  std::ranges::copy(mad.bytes, body.begin() + 1);
  return transmit(to, kind, ConstBytes(body).first(mad.bytes.size() + 1), lost);
}

bool RingWire::wake(ProcessAddress to, std::uint64_t& lost) {
  // A congested receiver has messages queued, so its engine wakes anyway.
  return transmit(to, MessageKind::wakeup, {}, lost) != Delivery::refused;
}

bool RingWire::has_untaken(ProcessAddress process) {
  const auto receiver = peer(process);
  const Lock lock(receiver->mutex);
  if (!receiver->connection || receiver->epoch != fabric_.epoch(process.node, process.slot)) {
    return false;
  }
  if (!receiver->connection->has_untaken()) return false;
  receiver->connection->notify_engine();
  return true;
}

void RingWire::watch(ProcessAddress process) {
  if (watcher_ == nullptr) return;
  const auto other = peer(process);
  const Lock lock(other->mutex);
  if (other->is_watched) return;
  const bool is_watched = connect(*other) == Delivery::delivered &&
                          watcher_->watch(other->connection->socket(), {process, other->epoch});
  other->is_watched = is_watched;
  if (!is_watched) {
    watcher_->connection_ended({process, fabric_.epoch(process.node, process.slot)});
  }
}

void RingWire::disconnect() {
  const std::lock_guard lock(mutex_);
  peers_.clear();
  lru_.clear();
}

std::shared_ptr<RingWire::Peer> RingWire::peer(ProcessAddress to) {
  const std::uint32_t key = key_of(to);
  const std::lock_guard lock(mutex_);
  ++uses_;
  // Most packets follow another one to the same process.
  const bool is_last = !lru_.empty() && lru_.back()->address == to;
  const auto known = is_last ? peers_.end() : peers_.find(key);
  if (known != peers_.end()) lru_.splice(lru_.end(), lru_, known->second);
  if (is_last || known != peers_.end()) {
    lru_.back()->last_use = uses_;
    return lru_.back();
  }
  const auto bound = max_connections();
  if (lru_.size() >= bound) {
    const Peer& oldest = *lru_.front();
    if (oldest.last_use + kRecentUseRounds * bound > uses_) {
      return std::make_shared<Peer>(to, watcher_);
    }
    peers_.erase(key_of(oldest.address));
    lru_.pop_front();
  }
  peers_[key] = lru_.insert(lru_.end(), std::make_shared<Peer>(to, watcher_));
  lru_.back()->last_use = uses_;
  return lru_.back();
}

/// Frees descriptors for another connection.
void RingWire::close_least_recently_used(const Peer& except) {
  const std::lock_guard lock(mutex_);
  const auto oldest = std::find_if(lru_.begin(), lru_.end(), [&](const auto& peer) {
    return peer->is_connected && peer.get() != &except;
  });
  if (oldest == lru_.end()) return;
  peers_.erase(key_of((*oldest)->address));
  lru_.erase(oldest);
}

Delivery RingWire::transmit(ProcessAddress to, MessageKind kind, ConstBytes body,
                            std::uint64_t& lost) {
  const auto receiver = peer(to);
  const Lock lock(receiver->mutex);
  bool reconnected = false;
  for (;;) {
    const auto connected = connect(*receiver);
    if (connected != Delivery::delivered) return reconnected ? Delivery::lost : connected;
    const int error = receiver->connection->send(kind, body);
    if (error == 0) return Delivery::delivered;
    if (error == EAGAIN) return Delivery::congested;
    if (error == ENOBUFS || error == ENOMEM) return Delivery::refused;
    // The receiver died or is disconnecting us. Connect again and repeat the message; if another
    // process has the slot by now, it drops it.
    (void)has_ended(*receiver, SendMode::non_blocking);
    lost += receiver->connection->count_left().packets;
    receiver->disconnect();
    if (std::exchange(reconnected, true)) return Delivery::lost;
  }
}

Delivery RingWire::connect(Peer& peer) {
  if (peer.connection) return Delivery::delivered;
  // Read before connect(): a process advances the epoch after it has begun to listen.
  const std::uint32_t epoch = fabric_.epoch(peer.address.node, peer.address.slot);
  if (epoch != 0 && epoch == peer.empty_epoch) return Delivery::no_process;
  const auto connect_now = [&] {
    return connect_to(folder_, peer.address.node, peer.address.slot);
  };
  GuardedFd socket = connect_now();
  // It takes two descriptors for a moment, and a connection has only one.
  for (int tries = 0; tries < 2 && !socket && (errno == EMFILE || errno == ENFILE); ++tries) {
    close_least_recently_used(peer);
    socket = connect_now();
  }
  if (socket) {
    peer.epoch = epoch;
    peer.connection = std::make_shared<PeerConnection>(std::move(socket), wakeup_fds_);
    peer.is_connected = true;
    return Delivery::delivered;
  }
  if (errno == EAGAIN) return Delivery::congested;
  // After other errors the slot may still be in use.
  if (errno != ENOENT && errno != ECONNREFUSED) return Delivery::refused;
  peer.empty_epoch = epoch;
  return Delivery::no_process;
}

Delivery RingWire::connect_with_ring(Peer& peer) {
  const auto connected = connect(peer);
  if (connected != Delivery::delivered || peer.connection->has_ring()) return connected;
  int error = peer.connection->make_ring();
  if (error == EMFILE || error == ENFILE) {
    close_least_recently_used(peer);
    error = peer.connection->make_ring();
  }
  if (error == 0) return Delivery::delivered;
  if (error == EAGAIN) return Delivery::congested;
  if (error != EPIPE && error != ECONNRESET) return Delivery::refused;
  peer.disconnect();
  return Delivery::lost;
}

bool RingWire::has_ended(Peer& peer, SendMode mode) {
  if (!peer.connection->has_ended({})) return false;
  if (!peer.connection->is_closing()) return true;
  const auto start = steady_clock::now();
  const bool may_wait = mode == SendMode::blocking && !peer.congested;
  const auto longest = may_wait ? peer.patience.left(start) : std::chrono::nanoseconds::zero();
  const bool ended = peer.connection->has_ended(longest);
  peer.patience.spend(start, steady_clock::now());
  return ended;
}

/// Waits for room in a ring. Marks the peer as congested when the patience with it is used up.
/// Without waiting, wakes the engine, since the thread that polls may have stopped.
bool RingWire::wait_for_ring(Peer& peer, Lock& lock, SendMode mode) {
  if (mode == SendMode::as_room_permits) return false;
  const auto connection = peer.connection;
  const auto give_up = [&] {
    connection->notify_engine();
    return false;
  };
  if (mode == SendMode::non_blocking || peer.congested) return give_up();
  const auto taken = connection->seen_taken();
  if (taken > peer.taken) peer.patience.earn(taken - std::exchange(peer.taken, taken));
  const auto begin = steady_clock::now();
  const auto left = peer.patience.left(begin);
  peer.congested = left < kLeastPatience;
  if (peer.congested) return give_up();
  const auto until = begin + std::min<std::chrono::nanoseconds>(left, kPollerGrace);
  lock.unlock();
  connection->wait_for_room(taken, until);
  lock.lock();
  const auto end = steady_clock::now();
  peer.patience.spend(begin, end);
  if (end >= until) connection->notify_engine();
  return true;
}

}  // namespace softib::transport
