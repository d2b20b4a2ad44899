// An eventfd to wake the event loop of another thread.
#pragma once

#include "ipoib/file_descriptor.hpp"

namespace ipoib::linux {

class WakeUp {
 public:
  WakeUp();  ///< throws std::system_error when the process has no descriptor left

  /// Makes descriptor() readable. For any thread.
  void signal();
  /// Makes descriptor() unreadable. For the receiving thread, before it checks for work.
  void clear();
  [[nodiscard]] int descriptor() const { return fd_.get(); }

 private:
  FileDescriptor fd_;
};

}  // namespace ipoib::linux
