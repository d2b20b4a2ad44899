#include "softib/transport/wakeup_socket.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "ipoib/refuse_descriptors.hpp"
#include "ipoib/unix_path.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::transport {

using ipoib::Error;
using ipoib::FileDescriptor;
using ipoib::Result;

namespace {

constexpr int kType = SOCK_DGRAM | SOCK_CLOEXEC;

Error failure(int code) {
  return Error{code, std::string("cannot make a socket for wakeups: ") + std::strerror(code)};
}

int option(int fd, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

}  // namespace

Result<WakeupSocket> WakeupSocket::make() {
  int ends[2];
  if (::socketpair(AF_UNIX, kType, 0, ends) != 0) return failure(errno);
  WakeupSocket made;
  made.socket_.reset(ends[0]);
  made.own_sender_.reset(ends[1]);
  return made;
}

Result<WakeupSocket> WakeupSocket::make_shared(const fabric::SubnetFolder& folder, NodeIndex node,
                                               std::uint32_t slot) {
  WakeupSocket made;
  made.socket_.reset(::socket(AF_UNIX, kType, 0));
  if (!made.socket_) return failure(errno);
  ipoib::refuse_descriptors(made.fd());
  const auto at = folder.open_node(node);
  if (!at) return at.error();
  const auto name = fabric::slot_wakeup_name(slot);
  const auto path = ipoib::UnixPath::in(at->get(), name);
  if (!path) return path.error();
  ::unlinkat(at->get(), name.c_str(), 0);  // left by a process that was killed
  if (::bind(made.fd(), path->address(), ipoib::UnixPath::size()) != 0) return failure(errno);
  auto inode = fabric::open_socket(at->get(), name);
  ::unlinkat(at->get(), name.c_str(), 0);
  if (!inode) return inode.error();
  made.inode_ = std::move(*inode);
  auto sender = made.make_sender();
  if (!sender) return sender.error();
  made.own_sender_ = std::move(*sender);
  // Whoever may write to the folder could have put another socket there.
  made.wake();
  if (::recv(made.fd(), nullptr, 0, MSG_DONTWAIT) != 0) return failure(EPERM);
  return made;
}

Result<FileDescriptor> WakeupSocket::make_sender() const {
  FileDescriptor sender(::socket(AF_UNIX, kType | SOCK_NONBLOCK, 0));
  if (!sender) return failure(errno);
  if (const int code = fabric::connect_socket(sender.get(), inode_); code != 0) {
    return failure(code);
  }
  return sender;
}

/// Sends a wakeup of this process, which one byte distinguishes from those of others.
bool WakeupSocket::wake() const {
  constexpr char kOwn = 1;
  return ::send(own_sender_.get(), &kOwn, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

WakeupSocket::Wakeup WakeupSocket::take(bool may_wait) const {
  return receive(may_wait ? 0 : MSG_DONTWAIT);
}

WakeupSocket::Wakeup WakeupSocket::next() const { return receive(MSG_PEEK | MSG_DONTWAIT); }

WakeupSocket::Wakeup WakeupSocket::receive(int flags) const {
  char first = 0;
  const auto size = ::recv(fd(), &first, 1, flags);
  if (size < 0) return Wakeup::none;
  return size == 0 ? Wakeup::other : Wakeup::own;
}

bool is_wakeup_sender(int fd) {
  return option(fd, SO_DOMAIN) == AF_UNIX && option(fd, SO_TYPE) == SOCK_DGRAM;
}

bool wake(int sender) { return ::send(sender, nullptr, 0, MSG_DONTWAIT | MSG_NOSIGNAL) == 0; }

}  // namespace softib::transport
