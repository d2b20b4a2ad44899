// The way out: one line to each process that we send to, made on first use, for sending only. It is
// a socket for messages, and once there is a packet for a queue pair, a ring beside it.
//
// A full ring is back-pressure, like link-level credits: the sender waits for at most the
// head-of-queue lifetime (IBA 18.2.5.4), then drops. From then on the receiver counts as congested,
// and is not waited for again until it has taken something: one process that hangs does not slow
// down those who talk to others. The same goes for one that says that it leaves, and does not. No
// lock is held while waiting, and none that two destinations share during a system call.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/transport/wire.hpp"
#include "softib/transport/wire_message.hpp"

namespace softib::transport {

inline constexpr std::chrono::milliseconds kHeadOfQueueLifetime{200};
/// How long a full ring is left to whoever polls for its packets, before the engine is called.
inline constexpr std::chrono::milliseconds kPollersTurn{5};
/// max_connections() receivers are remembered; beyond, the one that was sent to longest ago loses
/// its connection, unless it was sent to within the last kFreshRounds times that number of sends.
/// Then there are more receivers in use than connections, as in a large broadcast, and it is the
/// newcomer who gets one for a single send: else each would lose its own just before its turn.
inline constexpr std::size_t kFreshRounds = 16;

class RingWire : public Wire {
 public:
  /// `fabric` says by its epochs when another process has moved in; it must outlive the wire.
  RingWire(fabric::SubnetFolder folder, const fabric::Fabric& fabric);
  ~RingWire() override;

  std::size_t send(PlaceAddress to, std::span<const OutgoingPacket* const> packets,
                   Patience patience, Delivery& why, std::uint64_t& lost) override;
  Delivery send_mad(PlaceAddress to, ConstBytes packet, Patience patience,
                    std::uint64_t& lost) override;
  [[nodiscard]] bool nudge(PlaceAddress to, std::uint64_t& lost) override;
  /// Closes all connections.
  void disconnect();

 private:
  struct Peer;
  using Peers = std::list<std::shared_ptr<Peer>>;
  using Lock = std::unique_lock<std::mutex>;
  using Deadline = std::chrono::steady_clock::time_point;

  std::shared_ptr<Peer> peer(PlaceAddress to);
  void give_up_a_connection(const Peer& other_than);
  Delivery connect(Peer& peer);
  Delivery connect_with_ring(Peer& peer);
  Delivery transmit(PlaceAddress to, MessageKind kind, ConstBytes body, Patience patience,
                    std::uint64_t& lost);
  bool wait_for_socket(Peer& peer, Lock& lock, Patience patience, Deadline& deadline);
  bool wait_for_ring(Peer& peer, Lock& lock, Patience patience, Deadline& deadline);
  [[nodiscard]] static bool may_wait(Peer& peer, Patience patience, Deadline& deadline);

  fabric::SubnetFolder folder_;
  const fabric::Fabric& fabric_;
  std::mutex mutex_;  ///< of the table, not of the peers in it
  Peers by_use_;      ///< the one sent to longest ago first
  std::unordered_map<std::uint32_t, Peers::iterator> peers_;
  std::uint64_t uses_ = 0;
};

}  // namespace softib::transport
