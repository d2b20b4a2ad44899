#include "softib/transport/unix_socket.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ipoib/unix_path.hpp"

namespace softib::transport {

using ipoib::Error;
using ipoib::FileDescriptor;
using ipoib::Result;

namespace {

GuardedFd make_socket() {
  const ForkLock lock;
  return {FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
          lock};
}

Error failure(const std::string& what, int code) {
  return Error{code, what + ": " + std::strerror(code)};
}

/// Sets mode 0666 whatever the umask. Another user may have replaced the socket meanwhile, so this
/// changes only a socket with a single link.
Result<void> open_to_all(int folder, const std::string& name) {
  const FileDescriptor file(::openat(folder, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return failure("cannot open " + name, errno);
  if (!S_ISSOCK(status.st_mode) || status.st_nlink != 1) {
    return Error{EPERM, name + " is not a socket with a single link"};
  }
  const auto path = "/proc/self/fd/" + std::to_string(file.get());
  if (::chmod(path.c_str(), 0666) != 0) return failure("cannot set the mode of " + name, errno);
  return {};
}

}  // namespace

Result<void> bind_at(int socket, int folder, const std::string& name) {
  if (::unlinkat(folder, name.c_str(), 0) != 0 && errno != ENOENT) {
    return failure("cannot replace " + name, errno);
  }
  const auto path = ipoib::UnixPath::in(folder, name);
  if (!path) return path.error();
  if (::bind(socket, path->address(), ipoib::UnixPath::size()) != 0) {
    return failure("cannot listen at " + name, errno);
  }
  return open_to_all(folder, name);
}

Result<GuardedFd> listen_at(int folder, const std::string& name) {
  GuardedFd socket = make_socket();
  if (!socket) return failure("cannot make a socket", errno);
  if (const auto bound = bind_at(socket.get(), folder, name); !bound) return bound.error();
  if (::listen(socket.get(), kListenBacklog) != 0) {
    return failure("cannot listen at " + name, errno);
  }
  return socket;
}

GuardedFd accept_from(int listener) {
  const ForkLock lock;
  return {FileDescriptor(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)),
          lock};
}

std::size_t max_connections() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMaxConnections;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / 4, 1, kMaxConnections));
}

GuardedFd connect_to(const std::string& path) {
  GuardedFd socket = make_socket();
  if (!socket) return socket;
  const int bytes = kSocketBuffer;
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0) {
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  }
  const auto name = ipoib::UnixPath::of(path);
  int code = name ? 0 : name.error().code;
  if (name && ::connect(socket.get(), name->address(), ipoib::UnixPath::size()) != 0) code = errno;
  if (code != 0) socket.reset();
  errno = code;
  return socket;
}

}  // namespace softib::transport
