// Sockets by which processes wake a thread of another process that waits in poll(2), by empty
// datagrams.
//
//   the receiver's socket, which its program polls  <-- datagrams --  one socket for each sender
//
// The receiver makes the senders' sockets, connected to its own, and passes each to one process. A
// send is one system call that never blocks, whatever the receiver does to the socket that both
// share: MSG_DONTWAIT applies to the call, and the kernel holds no lock of a Unix datagram socket
// while it reads or writes the memory of a program. (A write to an eventfd blocks if its counter is
// full and somebody has cleared O_NONBLOCK, which belongs to all that share the descriptor.) Nor
// can one sender fill, drain or shut down the socket of another.
#pragma once

#include <cstdint>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::transport {

/// The receiver's side of the wakeups.
class WakeupSocket {
 public:
  /// Makes a socket for this process only.
  [[nodiscard]] static ipoib::Result<WakeupSocket> make();
  /// Makes a socket for other processes, too, to which make_sender() leads. For a moment it has a
  /// name in the folder of the node (slot_wakeup_name()). Only for the holder of the slot, one call
  /// at a time.
  [[nodiscard]] static ipoib::Result<WakeupSocket> make_shared(const fabric::SubnetFolder& folder,
                                                               NodeIndex node, std::uint32_t slot);

  /// The descriptor, which is readable while a wakeup is queued.
  [[nodiscard]] int fd() const { return socket_.get(); }
  /// Returns a socket by which another process wakes this one.
  [[nodiscard]] ipoib::Result<ipoib::FileDescriptor> make_sender() const;
  /// Sends a wakeup of this process itself. Returns false if the queue is full; then fd() is
  /// readable anyway.
  bool wake() const;

  enum class Wakeup : std::uint8_t { none, own, other };
  /// Takes a wakeup; waits for one if `may_wait`, unless the program has made fd() O_NONBLOCK. If
  /// the result is `none`, sets errno. Another process can pretend that its wakeup is `own`.
  [[nodiscard]] Wakeup take(bool may_wait) const;
  /// The wakeup that take() would take.
  [[nodiscard]] Wakeup next() const;

 private:
  [[nodiscard]] Wakeup receive(int flags) const;

  ipoib::FileDescriptor socket_;
  ipoib::FileDescriptor own_sender_;
  ipoib::FileDescriptor inode_;  ///< of the socket, for connect(2)
};

/// Whether wake() by this descriptor is sure not to block. The check does not block either.
[[nodiscard]] bool is_wakeup_sender(int fd);
/// Wakes the receiver. Returns false if that failed, or if its queue is full.
bool wake(int sender);

}  // namespace softib::transport
