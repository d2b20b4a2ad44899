#include "linux/wake_up.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace ipoib::linux {

WakeUp::WakeUp() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!fd_) throw std::system_error(errno, std::generic_category(), "eventfd");
}

void WakeUp::signal() { (void)eventfd_write(fd_.get(), 1); }

void WakeUp::clear() {
  eventfd_t value = 0;
  (void)eventfd_read(fd_.get(), &value);
}

}  // namespace ipoib::linux
