// A path as the address of a Unix socket.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "ipoib/file_descriptor.hpp"

namespace softib {

/// Folders may be deeper than the 107 octets that an address holds: then the way leads through a
/// descriptor of the folder, which this object keeps. Use it while it lives.
class UnixPath {
 public:
  explicit UnixPath(const std::string& path);

  [[nodiscard]] const sockaddr* address() const {
    const void* generic = &address_;
    return static_cast<const sockaddr*>(generic);
  }
  [[nodiscard]] static socklen_t size() { return sizeof(sockaddr_un); }

 private:
  ipoib::FileDescriptor folder_;
  sockaddr_un address_{};
};

}  // namespace softib
