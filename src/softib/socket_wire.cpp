#include "softib/socket_wire.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <utility>

#include "softib/unix_socket.hpp"

namespace softib {

using std::chrono::steady_clock;

struct SocketWire::Peer {
  explicit Peer(PlaceAddress to) : address(to) {}

  const PlaceAddress address;
  std::uint64_t last_use = 0;  ///< of the table's lock
  std::atomic<bool> is_connected = false;
  std::mutex mutex;  ///< of what follows; order of messages
  Connection connection;
  bool congested = false;
  std::uint32_t empty_epoch = 0;  ///< in this epoch nobody listened; 0: not known
};

namespace {
std::uint32_t key_of(PlaceAddress place) {
  return std::uint32_t{place.node} * QpnLayout::kPlaces + place.place;
}
}  // namespace

SocketWire::SocketWire(SubnetFolder folder, const Fabric& fabric)
    : folder_(std::move(folder)), fabric_(fabric) {}

SocketWire::~SocketWire() = default;

std::size_t SocketWire::send(PlaceAddress to, std::span<const OutgoingPacket* const> packets,
                             Patience patience, Delivery& why) {
  const auto receiver = peer(to);
  Train train;
  std::unique_lock lock(receiver->mutex);
  why = Delivery::delivered;
  std::size_t sent = 0;
  while (sent < packets.size()) {
    const std::size_t loaded = train.load(packets.subspan(sent));
    why = transmit(*receiver, lock, train.pieces(), patience);
    if (why != Delivery::delivered) break;
    sent += loaded;
  }
  return sent;
}

bool SocketWire::nudge(PlaceAddress to) {
  const auto receiver = peer(to);
  std::uint8_t octet = 0;
  iovec message{&octet, sizeof octet};
  std::unique_lock lock(receiver->mutex);
  // Congested: so much is queued there that the engine turns anyway.
  return transmit(*receiver, lock, {&message, 1}, Patience::never_wait) != Delivery::refused;
}

void SocketWire::disconnect() {
  const std::lock_guard lock(mutex_);
  peers_.clear();
  by_use_.clear();
}

std::shared_ptr<SocketWire::Peer> SocketWire::peer(PlaceAddress to) {
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
void SocketWire::give_up_a_connection(const Peer& other_than) {
  const std::lock_guard lock(mutex_);
  const auto oldest = std::find_if(by_use_.begin(), by_use_.end(), [&](const auto& peer) {
    return peer->is_connected && peer.get() != &other_than;
  });
  if (oldest == by_use_.end()) return;
  peers_.erase(key_of((*oldest)->address));
  by_use_.erase(oldest);
}

Delivery SocketWire::transmit(Peer& peer, std::unique_lock<std::mutex>& lock,
                              std::span<iovec> message, Patience patience) {
  std::optional<steady_clock::time_point> deadline;
  msghdr header{};
  header.msg_iov = message.data();
  header.msg_iovlen = message.size();
  bool reconnected = false;
  for (;;) {
    if (!peer.connection) {
      const auto connected = connect(peer);
      if (connected != Delivery::delivered) return reconnected ? Delivery::lost : connected;
    }
    if (::sendmsg(peer.connection->get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
      peer.congested = false;
      return Delivery::delivered;
    }
    if (errno == EAGAIN) {
      if (!deadline) deadline = steady_clock::now() + kHeadOfQueueLifetime;
      if (!wait_for_room(peer, lock, patience, *deadline)) return Delivery::congested;
      continue;
    }
    if (errno == ENOBUFS || errno == ENOMEM) return Delivery::refused;
    // It died. Whoever lives there now gets the message, which is not for it: it will say so.
    peer.connection.reset();
    peer.is_connected = false;
    if (std::exchange(reconnected, true)) return Delivery::lost;
  }
}

Delivery SocketWire::connect(Peer& peer) {
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
    peer.connection = std::make_shared<const GuardedFd>(std::move(socket));
    peer.is_connected = true;
    peer.congested = false;
    return Delivery::delivered;
  }
  if (errno == EAGAIN) return Delivery::congested;
  // All else says nothing about who lives there.
  if (errno != ENOENT && errno != ECONNREFUSED) return Delivery::refused;
  peer.empty_epoch = epoch;
  return Delivery::empty_place;
}

bool SocketWire::wait_for_room(Peer& peer, std::unique_lock<std::mutex>& lock, Patience patience,
                               steady_clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now());
  if (patience == Patience::never_wait || peer.congested || left.count() <= 0) {
    peer.congested = true;
    return false;
  }
  const Connection connection = peer.connection;
  lock.unlock();
  pollfd room{connection->get(), POLLOUT, 0};
  (void)::poll(&room, 1, static_cast<int>(left.count()));
  lock.lock();
  return true;
}

}  // namespace softib
