// Sockets of which one call tells in which packets wait. Somebody who waits can leave out those for
// responses, for which nobody has to be woken while the program polls.
#pragma once

#include <span>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "softib/roce/receiver.hpp"

namespace softib::roce {

class SocketSet {
 public:
  /// Throws std::system_error when the system has no descriptor left.
  SocketSet();

  /// Adds a socket, which must stay where it is until remove().
  [[nodiscard]] ipoib::Result<void> add(const AddressSocket& socket);
  /// To call before the socket is closed: other processes may have it, too.
  void remove(const AddressSocket& socket);
  /// Readable when a packet waits in a socket.
  [[nodiscard]] int fd() const { return all_.get(); }
  /// The same without the sockets for responses.
  [[nodiscard]] int fd_of_others() const { return others_.get(); }
  /// Sockets in which packets wait, at most kMostReadable. Valid until the next call.
  [[nodiscard]] std::span<const AddressSocket* const> readable();

  static constexpr std::size_t kMostReadable = 16;

 private:
  ipoib::FileDescriptor all_;
  ipoib::FileDescriptor others_;
  std::vector<const AddressSocket*> readable_;
};

}  // namespace softib::roce
