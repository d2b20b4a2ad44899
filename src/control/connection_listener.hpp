// Accepts connections to a socket for handovers or captures, and passes them on.
#pragma once

#include <functional>
#include <memory>

#include "ipoib/file_descriptor.hpp"

namespace boost::asio {
class io_context;
}

namespace ipoib::control {

class ConnectionListener {
 public:
  /// `socket` listens and does not block. `accepted` gets connections, which do not block either;
  /// it is not called after the listener is destroyed, and may destroy it.
  ConnectionListener(boost::asio::io_context& context, FileDescriptor socket,
                     std::function<void(FileDescriptor)> accepted);
  ConnectionListener(const ConnectionListener&) = delete;
  ConnectionListener& operator=(const ConnectionListener&) = delete;
  ~ConnectionListener();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ipoib::control
