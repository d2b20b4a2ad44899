// An eventfd by which one thread makes another one's event loop turn.
#pragma once

#include "ipoib/file_descriptor.hpp"

namespace ipoib::host {

class WakeUp {
 public:
  WakeUp();  ///< throws std::system_error when the process has no descriptor left

  /// Makes descriptor() readable. Any thread.
  void signal();
  /// Makes it unreadable again. The receiving thread, before it looks at what it was woken for.
  void clear();
  [[nodiscard]] int descriptor() const { return fd_.get(); }

 private:
  FileDescriptor fd_;
};

}  // namespace ipoib::host
