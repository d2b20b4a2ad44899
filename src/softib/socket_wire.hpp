// The way out over Unix sockets: one connection to each process that we send to, made on first use,
// for sending only.
//
// A full socket is back-pressure, like link-level credits: the sender waits for at most the
// head-of-queue lifetime (IBA 18.2.5.4), then drops. From then on the receiver counts as congested,
// and is not waited for again until it has taken a message: one process that hangs does not slow
// down those who talk to others. No lock is held while waiting, and none that two destinations
// share during a system call.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "softib/fabric.hpp"
#include "softib/folder.hpp"
#include "softib/fork_guard.hpp"
#include "softib/train.hpp"
#include "softib/wire.hpp"

namespace softib {

inline constexpr std::chrono::milliseconds kHeadOfQueueLifetime{200};
/// max_connections() receivers are remembered; beyond, the one that was sent to longest ago loses
/// its connection, unless it was sent to within the last kFreshRounds times that number of sends.
/// Then there are more receivers in use than connections, as in a large broadcast, and it is the
/// newcomer who gets one for a single send: else each would lose its own just before its turn.
inline constexpr std::size_t kFreshRounds = 16;

class SocketWire : public Wire {
 public:
  /// `fabric` says by its epochs when another process has moved in; it must outlive the wire.
  SocketWire(SubnetFolder folder, const Fabric& fabric);
  ~SocketWire() override;

  std::size_t send(PlaceAddress to, std::span<const OutgoingPacket* const> packets,
                   Patience patience, Delivery& why) override;
  [[nodiscard]] bool nudge(PlaceAddress to) override;
  /// Closes all connections.
  void disconnect();

 private:
  struct Peer;
  using Peers = std::list<std::shared_ptr<Peer>>;
  using Connection = std::shared_ptr<const GuardedFd>;

  std::shared_ptr<Peer> peer(PlaceAddress to);
  void give_up_a_connection(const Peer& other_than);
  Delivery transmit(Peer& peer, std::unique_lock<std::mutex>& lock, std::span<iovec> message,
                    Patience patience);
  Delivery connect(Peer& peer);
  bool wait_for_room(Peer& peer, std::unique_lock<std::mutex>& lock, Patience patience,
                     std::chrono::steady_clock::time_point deadline);

  SubnetFolder folder_;
  const Fabric& fabric_;
  std::mutex mutex_;  ///< of the table, not of the peers in it
  Peers by_use_;      ///< the one sent to longest ago first
  std::unordered_map<std::uint32_t, Peers::iterator> peers_;
  std::uint64_t uses_ = 0;
};

}  // namespace softib
