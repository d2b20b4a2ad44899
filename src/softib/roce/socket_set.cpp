#include "softib/roce/socket_set.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

namespace softib::roce {

namespace {

ipoib::FileDescriptor make_epoll() {
  ipoib::FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  return epoll;
}

bool add_to(const ipoib::FileDescriptor& epoll, const AddressSocket& socket) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = const_cast<AddressSocket*>(&socket);
  return ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket.fd.get(), &event) == 0;
}

}  // namespace

SocketSet::SocketSet() : all_(make_epoll()), others_(make_epoll()) {}

ipoib::Result<void> SocketSet::add(const AddressSocket& socket) {
  if (add_to(all_, socket) && (socket.is_for_responses || add_to(others_, socket))) return {};
  const int code = errno;
  remove(socket);
  return ipoib::Error{code, std::string("cannot wait for packets: ") + std::strerror(code)};
}

void SocketSet::remove(const AddressSocket& socket) {
  (void)::epoll_ctl(all_.get(), EPOLL_CTL_DEL, socket.fd.get(), nullptr);
  (void)::epoll_ctl(others_.get(), EPOLL_CTL_DEL, socket.fd.get(), nullptr);
}

std::span<const AddressSocket* const> SocketSet::readable() {
  std::array<epoll_event, kMostReadable> events;
  const int count = ::epoll_wait(all_.get(), events.data(), kMostReadable, 0);
  readable_.clear();
  for (int i = 0; i < count; ++i) {
    readable_.push_back(
        static_cast<const AddressSocket*>(events[static_cast<std::size_t>(i)].data.ptr));
  }
  return readable_;
}

}  // namespace softib::roce
