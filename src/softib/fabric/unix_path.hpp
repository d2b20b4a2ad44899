// A path as the address of a Unix socket.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"

namespace softib::fabric {

/// Folders may be deeper than the 107 octets that an address holds: then the way leads through a
/// descriptor of the folder, which this object keeps. Use it while it lives.
class UnixPath {
 public:
  /// The errno value of a folder that cannot be opened.
  [[nodiscard]] static ipoib::Result<UnixPath> of(const std::string& path);
  /// A name in a folder that the caller has opened, and keeps open.
  UnixPath(int folder, const std::string& name);

  [[nodiscard]] const sockaddr* address() const {
    const void* generic = &address_;
    return static_cast<const sockaddr*>(generic);
  }
  [[nodiscard]] static socklen_t size() { return sizeof(sockaddr_un); }

 private:
  explicit UnixPath(const std::string& shown);

  ipoib::FileDescriptor folder_;
  sockaddr_un address_{};
};

}  // namespace softib::fabric
