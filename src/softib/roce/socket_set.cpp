#include "softib/roce/socket_set.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

namespace softib::roce {

SocketSet::SocketSet() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
}

ipoib::Result<void> SocketSet::add(const AddressSocket& socket) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = const_cast<AddressSocket*>(&socket);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.fd.get(), &event) == 0) return {};
  return ipoib::Error{errno, std::string("cannot wait for packets: ") + std::strerror(errno)};
}

void SocketSet::remove(const AddressSocket& socket) {
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.fd.get(), nullptr);
}

std::span<const AddressSocket* const> SocketSet::readable() {
  std::array<epoll_event, kMostReadable> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kMostReadable, 0);
  readable_.clear();
  for (int i = 0; i < count; ++i) {
    readable_.push_back(
        static_cast<const AddressSocket*>(events[static_cast<std::size_t>(i)].data.ptr));
  }
  return readable_;
}

}  // namespace softib::roce
