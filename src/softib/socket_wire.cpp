#include "softib/socket_wire.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
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
  std::mutex mutex;            ///< of what follows; order of messages
  Connection connection;
  bool congested = false;
  std::uint32_t empty_epoch = 0;  ///< in this epoch nobody listened; 0: not known
};

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

void SocketWire::nudge(PlaceAddress to) {
  const auto receiver = peer(to);
  std::uint8_t octet = 0;
  iovec message{&octet, sizeof octet};
  std::unique_lock lock(receiver->mutex);
  // Not delivered: nobody is there, or so much is queued that the engine turns anyway.
  (void)transmit(*receiver, lock, {&message, 1}, Patience::never_wait);
}

std::shared_ptr<SocketWire::Peer> SocketWire::peer(PlaceAddress to) {
  const std::uint32_t key = std::uint32_t{to.node} * QpnLayout::kPlaces + to.place;
  const std::lock_guard lock(mutex_);
  auto found = peers_.find(key);
  if (found == peers_.end()) {
    if (peers_.size() >= kMaxPeers) forget_oldest();
    found = peers_.emplace(key, std::make_shared<Peer>(to)).first;
  }
  found->second->last_use = ++uses_;
  return found->second;
}

void SocketWire::forget_oldest() {
  const auto oldest = std::min_element(
      peers_.begin(), peers_.end(),
      [](const auto& a, const auto& b) { return a.second->last_use < b.second->last_use; });
  if (oldest != peers_.end()) peers_.erase(oldest);
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
    if (errno == ENOBUFS || errno == ENOMEM) return Delivery::congested;
    // It died. Whoever lives there now gets the message, which is not for it: it will say so.
    peer.connection.reset();
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
    {
      const std::lock_guard lock(mutex_);
      forget_oldest();
    }
    socket = connect_to(path);
  }
  if (socket) {
    peer.connection = std::make_shared<const GuardedFd>(std::move(socket));
    peer.congested = false;
    return Delivery::delivered;
  }
  if (errno == EAGAIN || errno == EMFILE || errno == ENFILE) return Delivery::congested;
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
