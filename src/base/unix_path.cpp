#include "ipoib/unix_path.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

namespace ipoib {

namespace {

constexpr std::size_t kRoom = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::string_view kDescriptors = "/proc/self/fd/";
constexpr std::size_t kDigits = std::numeric_limits<int>::digits10 + 1;
static_assert(kDescriptors.size() + kDigits + 1 + UnixPath::kLongestName == kRoom);

Error too_long(const std::string& name) {
  return {ENAMETOOLONG, name + ": the name of a socket may have " +
                            std::to_string(UnixPath::kLongestName) + " bytes at most"};
}

}  // namespace

Result<UnixPath> UnixPath::of(const std::string& path) {
  if (path.size() <= kRoom) return UnixPath(path);
  const auto slash = path.rfind('/');
  const auto name = path.substr(slash + 1);
  if (name.size() > kLongestName) return too_long(name);
  const auto above = path.substr(0, slash);
  FileDescriptor folder(::open(above.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    const int code = errno;
    return Error{code, "cannot open " + above + ": " + std::strerror(code)};
  }
  auto shorter = in(folder.get(), name);
  shorter->folder_ = std::move(folder);
  return shorter;
}

Result<UnixPath> UnixPath::in(int folder, const std::string& name) {
  if (name.size() > kLongestName) return too_long(name);
  return UnixPath(std::string(kDescriptors) + std::to_string(folder) + "/" + name);
}

UnixPath::UnixPath(const std::string& shown) {
  address_.sun_family = AF_UNIX;
  shown.copy(address_.sun_path, kRoom);
}

}  // namespace ipoib
