// Passes the packets of this process to those who capture the whole subnet (`softib capture`).
//
// They begin and end while the process runs. The subnet process writes who captures a node into the
// fabric file and wakes the engines of the node, and each process connects to those who do. A batch
// of packets costs each of them one message (erf/capture_messages.hpp), which is sent without
// waiting: if it does not fit into the queue of the connection, its packets are left out and
// counted. While nobody captures, the data path only finds no observer.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "erf/capture_messages.hpp"
#include "softib/endpoint/receivers.hpp"
#include "softib/fabric/capture_slots.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/transport/fork_guard.hpp"

namespace softib::endpoint {

/// Owns the connections to those who capture.
class LiveCaptures final : public PacketObserver {
 public:
  /// `folder` must outlive it; `self` is the process of the endpoint.
  LiveCaptures(const fabric::SubnetFolder& folder, const RemoteProcess& self)
      : folder_(folder), self_(self) {}

  /// An observer that sees the packets, too; to be called before there are any. It must outlive
  /// this object.
  void set_next(PacketObserver* next) { next_ = next; }
  /// Connects to those of the word in the fabric file, and disconnects from all others, which are
  /// told what was left out. Returns whether anybody captures.
  bool follow(std::uint64_t captures);

  void sent(std::span<const OutgoingPacket> batch) override;
  TrySent try_send(std::span<const OutgoingPacket> batch,
                   const std::function<TrySent()>& send) override;
  void received(std::span<const ArrivedPacket> batch, const HcaPorts& own) override;
  void mad_sent(ConstBytes packet) override;
  void mad_received(ConstBytes packet) override;

 private:
  /// A process that captures.
  struct Client {
    fabric::NodeCapture capture;
    transport::GuardedFd connection;  ///< none: it has ended, or cannot be trusted
    ipoib::erf::CaptureMessage message;
    std::uint64_t lost = 0;  ///< since the last message
  };
  enum class Direction : std::uint8_t { sent, received };

  [[nodiscard]] transport::GuardedFd connect(fabric::CaptureId id) const;
  void add_sent(std::span<const OutgoingPacket> batch, std::int64_t when);
  void add(ConstBytes packet, Direction direction, std::int64_t when);
  void flush();
  [[nodiscard]] std::vector<Client> take_ended(const fabric::NodeCaptures& wanted);
  static void send(Client& client);
  [[nodiscard]] bool wants_received() const;

  const fabric::SubnetFolder& folder_;
  const RemoteProcess self_;
  PacketObserver* next_ = nullptr;

  std::mutex mutex_;  ///< guards the members below
  std::vector<Client> clients_;
  std::vector<std::uint8_t> record_;
};

}  // namespace softib::endpoint
