// One end of the connection over which a handover takes place: messages with descriptors.
#pragma once

#include <optional>
#include <vector>

#include "daemon/interfaces/handover_messages.hpp"
#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"

namespace ipoib::daemon::handover {

/// A message as it arrived.
struct Received {
  Message message;
  FileDescriptor descriptor = {};  ///< empty if the message carries none
};

/// A socket of the type SOCK_SEQPACKET. Without timeout it does not block.
class Connection {
 public:
  explicit Connection(FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Sends bytes of emit(), with a descriptor unless it is negative. Fails with EAGAIN if the peer
  /// does not read, and with EPIPE if it has gone.
  [[nodiscard]] Result<void> send(ConstBytes bytes, int descriptor = -1);
  /// Returns nullopt if the peer has closed its end. Fails with EAGAIN if there is no message, and
  /// with EPROTO if it is not valid.
  [[nodiscard]] Result<std::optional<Received>> receive();
  /// The longest time that receive() and send() block from now on.
  void set_timeout(std::chrono::milliseconds timeout);

  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  FileDescriptor socket_;
  bool blocks_ = false;
};

}  // namespace ipoib::daemon::handover
