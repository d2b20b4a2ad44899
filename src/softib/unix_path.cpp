#include "softib/unix_path.hpp"

#include <fcntl.h>

#include <algorithm>

namespace softib {

UnixPath::UnixPath(const std::string& path) {
  address_.sun_family = AF_UNIX;
  constexpr std::size_t kRoom = sizeof address_.sun_path - 1;
  std::string shown = path;
  if (shown.size() > kRoom) {
    const auto slash = path.rfind('/');
    folder_.reset(::open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    shown = "/proc/self/fd/" + std::to_string(folder_.get()) + path.substr(slash);
  }
  shown.copy(address_.sun_path, kRoom);
}

}  // namespace softib
