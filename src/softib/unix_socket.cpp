#include "softib/unix_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "softib/unix_path.hpp"

namespace softib {

using ipoib::Error;
using ipoib::Result;

namespace {

GuardedFd make_socket() {
  return GuardedFd(
      ipoib::FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
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
  const UnixPath name(path);
  if (::bind(socket.get(), name.address(), UnixPath::size()) != 0 ||
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
  const UnixPath name(path);
  if (::connect(socket.get(), name.address(), UnixPath::size()) != 0) {
    const int code = errno;
    socket.reset();
    errno = code;
  }
  return socket;
}

}  // namespace softib
