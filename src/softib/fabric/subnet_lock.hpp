// That there is one subnet process to a folder.
#pragma once

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::fabric {

/// The lock of a subnet's folder, held as long as this lives; the kernel lets go of it when the
/// process dies. The file has the holder's process id in it, for people.
class SubnetLock {
 public:
  /// Makes the folder if need be. An error if another subnet process has it.
  [[nodiscard]] static ipoib::Result<SubnetLock> take(const SubnetFolder& folder);

 private:
  explicit SubnetLock(ipoib::FileDescriptor file) : file_(std::move(file)) {}
  ipoib::FileDescriptor file_;
};

}  // namespace softib::fabric
