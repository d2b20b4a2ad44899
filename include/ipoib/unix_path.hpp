// Unix socket addresses for paths of any length.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"

namespace ipoib {

/// An address holds at most 107 bytes. For a longer path this object opens the folder and refers to
/// it through /proc/self/fd, so it has to live as long as the address is used.
class UnixPath {
 public:
  /// The longest last component of a path that does not fit, in bytes.
  static constexpr std::size_t kLongestName = 82;

  /// The address of `path`. Fails with an errno value if the folder cannot be opened, with
  /// ENAMETOOLONG if the last component is too long.
  [[nodiscard]] static Result<UnixPath> of(const std::string& path);
  /// The address of a name in a folder that the caller keeps open. Fails with ENAMETOOLONG if the
  /// name is too long.
  [[nodiscard]] static Result<UnixPath> in(int folder, const std::string& name);

  [[nodiscard]] const sockaddr* address() const {
    const void* generic = &address_;
    return static_cast<const sockaddr*>(generic);
  }
  [[nodiscard]] static socklen_t size() { return sizeof(sockaddr_un); }

 private:
  explicit UnixPath(const std::string& shown);

  FileDescriptor folder_;
  sockaddr_un address_{};
};

}  // namespace ipoib
