#include "linux/poller.hpp"

#include <cerrno>
#include <system_error>

namespace ipoib::linux {

Poller::Poller() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
}

void Poller::add(int fd, std::uint32_t tag) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u32 = tag;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
  }
}

std::span<const std::uint32_t> Poller::wait(TimePoint now, TimePoint deadline) {
  timespec timeout{};
  if (deadline > now && deadline != kNever) {
    const auto left = deadline - now;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    timeout.tv_sec = seconds.count();
    timeout.tv_nsec = (left - seconds).count();
  }
  const int count = epoll_pwait2(epoll_.get(), events_.data(), static_cast<int>(kMaxReady),
                                 deadline == kNever ? nullptr : &timeout, nullptr);
  if (count < 0) {
    if (errno == EINTR) return {};
    throw std::system_error(errno, std::generic_category(), "epoll_pwait2");
  }
  const auto size = static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < size; ++i) {
    ready_[i] = events_[i].data.u32;
  }
  return {ready_.data(), size};
}

}  // namespace ipoib::linux
