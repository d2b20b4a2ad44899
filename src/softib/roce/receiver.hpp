// Receives the packets of a process from UDP sockets.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "softib/core/packet_sink.hpp"
#include "softib/roce/frame.hpp"

namespace softib::roce {

/// Most calls of recvmsg(2) for one socket in one poll, so that a flood delays others by so much.
inline constexpr std::size_t kReceivesPerPoll = 16;

/// A socket, and the address that it is bound to.
struct AddressSocket {
  Gid address;
  ipoib::FileDescriptor fd;
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
    /// A packet, LRH to padding, whose ICRC is right. Its bytes are valid only during the call.
    virtual void packet_arrived(ConstBytes packet, Qpn destination) = 0;
    virtual void icrc_failed() = 0;
    /// It is too short or too long, or its length no multiple of 4.
    virtual void malformed() = 0;
  };

  Receiver();
  /// Delivers what is in a socket, but not more than kReceivesPerPoll times its buffer. After a
  /// packet that came alone it leaves what may be there to the next call. Returns the number of
  /// packets.
  std::size_t poll(const AddressSocket& socket, Handler& handler);
  /// Delivers datagrams, which begin kRouteBytes after the begin of `buffer`, and overwrites them.
  /// Returns their number, right or wrong.
  std::size_t deliver(const Received& received, std::span<std::uint8_t> buffer, Handler& handler);

 private:
  [[nodiscard]] std::size_t receive(const AddressSocket& from, Handler& handler);
  [[nodiscard]] bool is_valid(ConstBytes datagram, const Flow& flow, std::size_t index);

  std::unique_ptr<std::uint8_t[]> buffer_;
  std::vector<bool> valid_;  ///< of the datagrams that were received at once
  IdentificationCheck identifications_;
};

}  // namespace softib::roce
