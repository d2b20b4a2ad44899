// How the process of a RoCE port passes receive sockets on: a program sends a datagram with its
// slot and one end of a socket pair, and gets a message for each socket through the other end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/roce/receiver.hpp"
#include "softib/roce/udp_socket.hpp"

namespace softib::roce {

/// Name of the socket in the folder of a RoCE port.
inline constexpr const char* kExchangeName = "sockets";
/// How long a program waits for the process of the port.
inline constexpr int kExchangeMilliseconds = 2000;

/// Sockets that their owner keeps.
struct LentSocket {
  Gid address;
  SlotSockets fds;
};
/// The sockets of a slot, two for each address, and the index of their interface.
struct LentSockets {
  unsigned interface = 0;
  bool is_mixed = false;  ///< anything can come to any of them (ReceiveSockets::is_mixed())
  std::vector<LentSocket> sockets;
};

/// Answers requests; for the process of the port.
class SocketLender {
 public:
  /// Fails if the folder is not writable.
  [[nodiscard]] static ipoib::Result<SocketLender> open(const fabric::SubnetFolder& folder);
  /// Readable when requests wait. Non-blocking.
  [[nodiscard]] int fd() const { return socket_.get(); }
  /// Answers those that wait. A requester that does not read gets nothing.
  void answer(const std::function<LentSockets(std::uint32_t slot)>& of_slot);

 private:
  explicit SocketLender(ipoib::FileDescriptor socket) : socket_(std::move(socket)) {}
  ipoib::FileDescriptor socket_;
  /// By slot: an end of its process's connection, which tells it the end of this one.
  std::map<std::uint32_t, ipoib::FileDescriptor> borrowers_;
};

/// What a program has got.
struct BorrowedSockets {
  unsigned interface = 0;
  std::vector<AddressSocket> sockets;
  bool is_mixed = false;
  /// Its other end is closed when the process of the port ends; from then on anything can come to
  /// any of the sockets.
  ipoib::FileDescriptor lender;
};
/// Asks for the sockets of a slot, and waits for at most kExchangeMilliseconds. Fails with ENOENT
/// or ECONNREFUSED if the process of the port does not run, and with ETIMEDOUT if it does not
/// answer.
[[nodiscard]] ipoib::Result<BorrowedSockets> borrow_sockets(const fabric::SubnetFolder& folder,
                                                            std::uint32_t slot);

}  // namespace softib::roce
