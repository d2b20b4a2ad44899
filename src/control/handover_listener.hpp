// Accepts daemons that want to take over an interface, and passes their connections on.
#pragma once

#include <functional>
#include <memory>

#include "ipoib/file_descriptor.hpp"

namespace boost::asio {
class io_context;
}

namespace ipoib::control {

class HandoverListener {
 public:
  /// `socket` listens and does not block. `accepted` gets connections, which do not block either;
  /// it is not called after the listener is destroyed, and may destroy it.
  HandoverListener(boost::asio::io_context& context, FileDescriptor socket,
                   std::function<void(FileDescriptor)> accepted);
  HandoverListener(const HandoverListener&) = delete;
  HandoverListener& operator=(const HandoverListener&) = delete;
  ~HandoverListener();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ipoib::control
