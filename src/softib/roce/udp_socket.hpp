// The UDP sockets of a RoCE port.
//
// To receive, each process slot of a node has a socket of its own for each address, at port 4791.
// The sockets of an address are a group (SO_REUSEPORT), whose filter reads the destination QPN, so
// the kernel itself hands each packet to the process that the QPN names. The process of the port
// opens all of them, because the order in which they are opened is their number in the filter, and
// passes them on (socket_exchange.hpp).
//
// A slot has two: one for the responses to the requests of its connections, for which nobody is
// woken while the program polls (verbs/wakeup_policy.hpp), and one for all else.
#pragma once

#include <cstdint>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "softib/roce/icrc.hpp"

namespace softib::roce {

/// The descriptors of a slot.
struct SlotSockets {
  int others = -1;
  int responses = -1;
};

/// The sockets of one address.
class ReceiveSockets {
 public:
  /// Opens the socket of the process of the port, which gets packets to QP0 and QP1. Fails with
  /// EADDRINUSE if another program has the port; the error says what that may be.
  [[nodiscard]] static ipoib::Result<ReceiveSockets> open(const Gid& address, unsigned interface);

  [[nodiscard]] const Gid& address() const { return address_; }
  /// Whether sockets of an earlier process of the port were there, which was killed: then the
  /// kernel counts those first, and anything can come to any socket.
  [[nodiscard]] bool is_mixed() const { return is_mixed_; }
  /// The sockets that the process of the port has to read: its own one, and those that were opened
  /// for slots and never lent, to which anything can come if is_mixed().
  [[nodiscard]] std::vector<int> own() const;
  /// The sockets of a slot, for its process; they are opened if there are none yet.
  [[nodiscard]] ipoib::Result<SlotSockets> lend(std::uint32_t slot);

 private:
  ReceiveSockets(const Gid& address, unsigned interface)
      : address_(address), interface_(interface) {}
  [[nodiscard]] ipoib::Result<void> add();

  Gid address_;
  unsigned interface_;  ///< index; of link-local addresses
  bool is_mixed_ = false;
  struct Socket {
    ipoib::FileDescriptor fd;
    bool is_lent = false;
  };
  std::vector<Socket> sockets_;
};

/// Opens a socket to receive what is sent to a multicast group, and joins it on an interface.
/// Several processes may have one.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open_group_socket(const Gid& group,
                                                                     unsigned interface);

/// Opens a socket to send from an address and UDP source port, without waiting. Fails with
/// EADDRINUSE if the port is taken.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> open_send_socket(const Gid& address,
                                                                    unsigned interface,
                                                                    std::uint16_t port);

}  // namespace softib::roce
