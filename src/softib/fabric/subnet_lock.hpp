// Ensures that a subnet's folder has at most one subnet process.
#pragma once

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::fabric {

/// Holds the lock of a subnet's folder for its lifetime; the kernel releases the lock when the
/// process dies. The file contains the holder's process ID.
class SubnetLock {
 public:
  /// Creates the folder if needed. Fails if another subnet process has the lock.
  [[nodiscard]] static ipoib::Result<SubnetLock> take(const SubnetFolder& folder);
  /// Whether the folder still has the file of this lock; otherwise others have removed it.
  [[nodiscard]] bool is_in(const SubnetFolder& folder) const;
  /// Whether a process holds the subnet by hold_subnet(), or has inherited that.
  [[nodiscard]] bool is_held() const;

 private:
  explicit SubnetLock(ipoib::FileDescriptor file) : file_(std::move(file)) {}
  ipoib::FileDescriptor file_;
};

/// Holds a subnet, whose process then does not end for want of programs, until this process and all
/// that it starts have ended: they inherit the descriptor.
[[nodiscard]] ipoib::Result<void> hold_subnet(const SubnetFolder& folder);

}  // namespace softib::fabric
