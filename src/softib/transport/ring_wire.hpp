// The sending side of the wire: a PeerConnection to each process that this one sends to, made on
// first use.
//
// A full ring is back-pressure, like link-level credits: the sender waits for at most the
// head-of-queue lifetime (IBA 18.2.5.4), then drops. From then on the receiver counts as congested,
// and no sender waits for it until half of its ring is free, so a process that hangs, or takes a
// packet now and then, does not slow down traffic to others (patience.hpp). The same goes for a
// receiver that does not finish closing. Nobody waits for room for messages: those that a socket
// has no room for are dropped. No lock is held while waiting, and no lock that two destinations
// share is held during a system call.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "softib/core/adaptive_mutex.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/transport/shared_wakeup_fds.hpp"
#include "softib/transport/wire.hpp"
#include "softib/transport/wire_message.hpp"

namespace softib::transport {

/// How long a sender leaves a full ring to the thread that polls it before it wakes the engine.
inline constexpr std::chrono::milliseconds kPollerGrace{5};
/// At most max_connections() connections are kept. A further receiver replaces the least recently
/// used one, unless that was used within the last kRecentUseRounds * max_connections() sends. Then
/// more receivers are in use than connections, as in a large broadcast, and the new one gets a
/// connection for a single send; otherwise every connection would be closed just before its reuse.
inline constexpr std::size_t kRecentUseRounds = 16;

/// Interface: notices the ends of connections. Called from any thread.
class ConnectionWatcher {
 public:
  virtual ~ConnectionWatcher() = default;
  /// Reports when the other end closes the socket. Returns false if that is impossible.
  [[nodiscard]] virtual bool watch(int socket, Process process) = 0;
  virtual void connection_ended(Process process) = 0;
};

class RingWire : public Wire {
 public:
  /// Takes from `fabric` the epochs, which tell when another process has taken a slot. `fabric`
  /// and `watcher` must outlive the wire; null for nobody.
  RingWire(fabric::SubnetFolder folder, const fabric::Fabric& fabric,
           ConnectionWatcher* watcher = nullptr);
  ~RingWire() override;

  std::size_t send(ProcessAddress to, std::uint8_t port,
                   std::span<const OutgoingPacket* const> packets, SendMode mode, Delivery& why,
                   std::uint64_t& lost) override;
  Delivery send_mad(ProcessAddress to, const MadOnWire& mad, std::uint64_t& lost) override;
  [[nodiscard]] bool wake(ProcessAddress to, std::uint64_t& lost) override;
  [[nodiscard]] bool has_untaken(ProcessAddress process) override;
  void watch(ProcessAddress process) override;
  /// Closes all connections.
  void disconnect();

 private:
  struct Peer;
  using Peers = std::list<std::shared_ptr<Peer>>;
  using Lock = std::unique_lock<AdaptiveMutex>;

  std::shared_ptr<Peer> peer(ProcessAddress to);
  void close_least_recently_used(const Peer& except);
  Delivery connect(Peer& peer);
  Delivery connect_with_ring(Peer& peer);
  Delivery transmit(ProcessAddress to, MessageKind kind, ConstBytes body, std::uint64_t& lost);
  static bool wait_for_ring(Peer& peer, Lock& lock, SendMode mode);
  [[nodiscard]] static bool has_ended(Peer& peer, SendMode mode);

  fabric::SubnetFolder folder_;
  const fabric::Fabric& fabric_;
  ConnectionWatcher* const watcher_;
  AdaptiveMutex mutex_;  ///< guards the members below, but not the peers themselves
  Peers lru_;            ///< least recently used first
  std::unordered_map<std::uint32_t, Peers::iterator> peers_;
  std::uint64_t uses_ = 0;
  const std::shared_ptr<SharedWakeupFds> wakeup_fds_;
};

}  // namespace softib::transport
