#include "ipoib/unix_path.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

namespace ipoib {

namespace {
constexpr std::size_t kRoom = sizeof(sockaddr_un::sun_path) - 1;
}

Result<UnixPath> UnixPath::of(const std::string& path) {
  if (path.size() <= kRoom) return UnixPath(path);
  const auto slash = path.rfind('/');
  const auto above = path.substr(0, slash);
  FileDescriptor folder(::open(above.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    const int code = errno;
    return Error{code, "cannot open " + above + ": " + std::strerror(code)};
  }
  UnixPath shorter(folder.get(), path.substr(slash + 1));
  shorter.folder_ = std::move(folder);
  return shorter;
}

UnixPath::UnixPath(int folder, const std::string& name)
    : UnixPath("/proc/self/fd/" + std::to_string(folder) + "/" + name) {}

UnixPath::UnixPath(const std::string& shown) {
  address_.sun_family = AF_UNIX;
  shown.copy(address_.sun_path, kRoom);
}

}  // namespace ipoib
