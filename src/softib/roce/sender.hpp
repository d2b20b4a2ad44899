// Sends the packets of an HCA in UDP datagrams.
//
// Consecutive packets of the same size to one receiver are one call of sendmsg(2): the kernel, or
// the adapter, takes them apart (UDP_SEGMENT). Each of them has an ICRC, which is computed here.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <span>

#include "ipoib/file_descriptor.hpp"
#include "softib/core/packet_sink.hpp"
#include "softib/roce/frame.hpp"

namespace softib::roce {

/// Sockets to send from, one for each address and UDP source port; the one that has not been used
/// for longest is closed for a further one.
inline constexpr std::size_t kMaxSendSockets = 256;
/// How long a sender of datagrams waits for room in the socket before it drops.
inline constexpr int kSendWaitMilliseconds = 4;

/// Why packets were not sent.
enum class SendFailure : std::uint8_t {
  none,
  no_room,      ///< in the socket
  unreachable,  ///< no route, or no descriptor for a socket
  too_long,     ///< for the path, whose MTU is less than that of the port
  no_route      ///< in the packet: it has no GRH
};

/// All functions may be called from any thread.
class Sender {
 public:
  Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender();

  /// Sends packets in order; waits for room if `may_wait`. Returns how many of them, from the
  /// first, were sent, and in `why` the reason for which the next one was not.
  std::size_t send(std::span<const OutgoingPacket* const> packets, bool may_wait, SendFailure& why);
  /// Sets the index of the interface of link-local addresses, and closes the sockets: they send
  /// from addresses that the interface may have lost.
  void set_interface(unsigned interface);

 private:
  class Message;
  struct Socket;
  [[nodiscard]] std::shared_ptr<Socket> socket_of(const Flow& flow);
  [[nodiscard]] SendFailure add(const OutgoingPacket& packet, bool may_wait, Message& message,
                                std::size_t& sent);
  [[nodiscard]] SendFailure add_copies(const OutgoingPacket& packet, bool may_wait,
                                       Message& message, std::size_t& sent);
  [[nodiscard]] SendFailure flush(Message& message, bool may_wait);

  std::atomic<unsigned> interface_ = 0;
  std::mutex mutex_;
  std::list<std::shared_ptr<Socket>> sockets_;  ///< the one used last first
  std::atomic<bool> segments_ = true;           ///< the kernel takes datagrams apart
};

}  // namespace softib::roce
