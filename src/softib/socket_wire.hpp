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
/// Receivers that are remembered; beyond, the one that was sent to longest ago loses its
/// connection.
inline constexpr std::size_t kMaxPeers = 256;

class SocketWire : public Wire {
 public:
  /// `fabric` says by its epochs when another process has moved in; it must outlive the wire.
  SocketWire(SubnetFolder folder, const Fabric& fabric);
  ~SocketWire() override;

  std::size_t send(PlaceAddress to, std::span<const OutgoingPacket* const> packets,
                   Patience patience, Delivery& why) override;
  void nudge(PlaceAddress to) override;

 private:
  struct Peer;
  using Connection = std::shared_ptr<const GuardedFd>;

  std::shared_ptr<Peer> peer(PlaceAddress to);
  void forget_oldest();
  Delivery transmit(Peer& peer, std::unique_lock<std::mutex>& lock, std::span<iovec> message,
                    Patience patience);
  Delivery connect(Peer& peer);
  bool wait_for_room(Peer& peer, std::unique_lock<std::mutex>& lock, Patience patience,
                     std::chrono::steady_clock::time_point deadline);

  SubnetFolder folder_;
  const Fabric& fabric_;
  std::mutex mutex_;  ///< of the table, not of the peers in it
  std::unordered_map<std::uint32_t, std::shared_ptr<Peer>> peers_;
  std::uint64_t uses_ = 0;
};

}  // namespace softib
