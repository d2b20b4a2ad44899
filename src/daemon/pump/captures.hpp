// Those who capture the packets of an interface, and their packets (erf/capture_messages.hpp).
//
// A batch of packets costs each of them one message, which is sent without waiting: if it does not
// fit into the queue of the connection, its packets are left out and counted. While nobody
// captures, the pumps have no observer.
//
// An HCA takes and delivers only the payload of a datagram. The headers are those of its address
// handle or completion; what these do not have is filled in: P_Key and Q_Key are the interface's,
// PSN and virtual lane 0, and so are flow label, traffic class and hop limit of a received GRH.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "control/requests.hpp"
#include "daemon/pump/packet_observer.hpp"
#include "erf/capture_messages.hpp"
#include "ipoib/file_descriptor.hpp"
#include "link/neighbour_info.hpp"
#include "wire/packet.hpp"

namespace ipoib::daemon {

/// Owns the connections of those who capture.
class Captures final : public PacketObserver {
 public:
  static constexpr std::size_t kMaxCaptures = 4;  ///< at a time

  struct Counters {
    std::uint64_t packets = 0;  ///< passed on, to each who captures
    std::uint64_t lost = 0;     ///< left out, since he reads too slowly
  };

  /// Begins a capture, and sends the response: EBUSY beyond the limit.
  void add(const control::CaptureRequest& request, FileDescriptor connection);
  [[nodiscard]] bool is_on() const { return !clients_.empty(); }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  void sending(std::span<const Outgoing> batch, const QueuePairView& from) override;
  void sent(std::size_t count) override;
  void received(std::span<const Incoming> batch, const QueuePairView& by) override;

 private:
  /// One who captures.
  struct Client {
    FileDescriptor connection;  ///< closed when he has gone
    std::optional<IpAddress> neighbour;
    erf::CaptureMessage message;
    std::uint64_t lost = 0;  ///< since the last message
  };
  /// The record of a datagram in records_.
  struct Piece {
    std::size_t end = 0;
    std::size_t packet = 0;  ///< its index in the batch
    bool is_received = false;
    std::uint32_t takers = 0;  ///< a bit for each of clients_
  };

  void begin(const QueuePairView& view);
  [[nodiscard]] std::uint32_t takers_of(ConstBytes frame, const HwAddress& peer, Lid lid) const;
  void add_frame(wire::UdPacket& headers, const Frame& frame, const Piece& piece);
  void add_datagram(wire::UdPacket& headers, ConstBytes first, ConstBytes second, Piece piece);
  void deliver(std::size_t packets);
  void send(Client& client);
  void remove_ended();

  std::vector<Client> clients_;
  Counters counters_;
  std::int64_t now_ = 0;  ///< of the batch, in nanoseconds
  /// What is known of the neighbours of clients_ during the batch.
  std::vector<std::optional<link::NeighbourInfo>> known_;
  std::vector<std::uint8_t> records_;  ///< of the batch
  std::vector<Piece> pieces_;
};

}  // namespace ipoib::daemon
