#include "softib/transport/unix_socket.hpp"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ipoib/unix_path.hpp"
#include "softib/fabric/shared_file.hpp"

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

}  // namespace

Result<void> bind_at(int socket, int folder, const std::string& name) {
  if (::unlinkat(folder, name.c_str(), 0) != 0 && errno != ENOENT) {
    const int code = errno;
    return Error{code, "cannot replace " + name + ": " + std::strerror(code) + "; remove it"};
  }
  const auto path = ipoib::UnixPath::in(folder, name);
  if (!path) return path.error();
  if (::bind(socket, path->address(), ipoib::UnixPath::size()) != 0) {
    return failure("cannot listen at " + name, errno);
  }
  return fabric::open_socket_to_all(folder, name);
}

Result<GuardedFd> listen_at(int folder, const std::string& name) {
  GuardedFd socket = make_socket();
  if (!socket) return failure("cannot make a socket for " + name, errno);
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

namespace {

/// Connects; needs two descriptors at a time.
GuardedFd connect_in(Result<FileDescriptor> folder, const std::string& name) {
  const auto opened = folder ? fabric::open_socket(folder->get(), name) : folder.error();
  if (folder) folder->reset();
  GuardedFd socket;
  int code = opened ? 0 : opened.error().code;
  if (opened) {
    socket = make_socket();
    if (!socket) return socket;
    const int bytes = kSocketBuffer;
    if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0) {
      (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
    code = fabric::connect_socket(socket.get(), *opened);
  }
  if (code != 0) socket.reset();
  errno = code;
  return socket;
}

}  // namespace

GuardedFd connect_to(const fabric::SubnetFolder& folder, NodeIndex node, std::uint32_t slot) {
  return connect_in(folder.open_node(node), fabric::slot_name(slot));
}

GuardedFd connect_to_capture(const fabric::SubnetFolder& folder, fabric::CaptureId id) {
  return connect_in(folder.open(), fabric::capture_name(id));
}

}  // namespace softib::transport
