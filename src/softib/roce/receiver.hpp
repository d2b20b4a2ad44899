// Receives the packets of a process from UDP sockets.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "softib/core/packet_sink.hpp"
#include "softib/roce/frame.hpp"
#include "softib/roce/receive_buffer.hpp"

namespace softib::roce {

/// Most calls of recvmsg(2) for one socket in one poll, so that a flood delays others by so much.
inline constexpr std::size_t kReceivesPerPoll = 16;
/// What so many of them have received is delivered together, so that the HCA answers it at once.
inline constexpr std::size_t kReceivesAtOnce = 4;
/// After a single datagram that is shorter, the socket is taken to be empty.
inline constexpr std::size_t kLeastOfStream = 2048;

/// A socket, and the address that it is bound to.
struct AddressSocket {
  Gid address;
  ipoib::FileDescriptor fd;
  bool is_for_responses = false;  ///< to the requests of connections, and for nothing else
};

/// Datagrams of one flow, which the kernel may have joined.
struct Received {
  std::size_t bytes = 0;
  std::size_t segment = 0;  ///< bytes of each datagram but the last; 0: it is one
  Flow flow;
  IpOptions options;
};

class Receiver {
 public:
  /// Gets what has come.
  class Handler {
   public:
    virtual ~Handler() = default;
    /// Packets to one queue pair whose ICRCs are right. They are valid only during the call.
    virtual void packets_arrived(std::span<const ArrivedPacket> packets, Qpn destination) = 0;
    virtual void icrc_failed() = 0;
    /// It is too short or too long, or its length no multiple of 4.
    virtual void malformed() = 0;
  };

  /// Delivers what is in a socket, but not more than kReceivesPerPoll times its buffer. After a
  /// short packet that came alone it leaves what may be there to the next call. Returns the bytes,
  /// right or wrong.
  std::size_t poll(const AddressSocket& socket, Handler& handler);
  /// Delivers datagrams, `received.bytes` in all. Returns their number, right or wrong.
  std::size_t deliver(const Received& received, ConstBytes datagrams, Handler& handler);

 private:
  [[nodiscard]] std::size_t check(const Received& received, ReceiveBuffer& buffer,
                                  Handler& handler);
  void deliver_checked(Handler& handler);
  [[nodiscard]] bool is_valid(ConstBytes datagram, const Flow& flow, std::size_t index);

  std::array<ReceiveBuffer, kReceivesAtOnce> buffers_;
  std::vector<ArrivedPacket> packets_;  ///< in the buffers, whose ICRCs are right
  IdentificationCheck identifications_;
};

}  // namespace softib::roce
