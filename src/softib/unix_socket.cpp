#include "softib/unix_socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace softib {

using ipoib::Error;
using ipoib::Result;

namespace {

/// A path as an address. Folders may be deeper than the 107 octets of sun_path: then the way leads
/// through a descriptor of the folder, which has to live as long as the address.
class PathAddress {
 public:
  explicit PathAddress(const std::string& path) {
    address_.sun_family = AF_UNIX;
    std::string shown = path;
    if (shown.size() >= sizeof address_.sun_path) {
      const auto slash = path.rfind('/');
      folder_.reset(::open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      shown = "/proc/self/fd/" + std::to_string(folder_.get()) + path.substr(slash);
    }
    std::copy_n(shown.data(), std::min(shown.size(), sizeof address_.sun_path - 1),
                address_.sun_path);
  }

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  [[nodiscard]] static socklen_t size() { return sizeof(sockaddr_un); }

 private:
  UniqueFd folder_;
  sockaddr_un address_{};
};

GuardedFd make_socket() {
  return GuardedFd(UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
}

Error failure(const std::string& what, int code) {
  return Error{code, what + ": " + std::strerror(code)};
}

}  // namespace

Result<GuardedFd> listen_at(const std::string& path) {
  GuardedFd socket = make_socket();
  if (!socket) return failure("cannot make a socket", errno);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return failure("cannot replace " + path, errno);
  }
  const PathAddress address(path);
  if (::bind(socket.get(), address.get(), PathAddress::size()) != 0 ||
      ::chmod(path.c_str(), 0666) != 0 || ::listen(socket.get(), kListenBacklog) != 0) {
    return failure("cannot listen at " + path, errno);
  }
  return socket;
}

GuardedFd connect_to(const std::string& path) {
  GuardedFd socket = make_socket();
  if (!socket) return socket;
  const int octets = kSocketBuffer;
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, &octets, sizeof octets) != 0) {
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &octets, sizeof octets);
  }
  const PathAddress address(path);
  if (::connect(socket.get(), address.get(), PathAddress::size()) != 0) {
    const int code = errno;
    socket.reset();
    errno = code;
  }
  return socket;
}

}  // namespace softib
