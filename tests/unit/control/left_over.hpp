// A TUN device for InfiniBand whose daemon has died.
#pragma once

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>

#include <cstring>

#include "ipoib/file_descriptor.hpp"

namespace ipoib::control {

class LeftOver {
 public:
  explicit LeftOver(const char* name = "ib7") : fd_(open("/dev/net/tun", O_RDWR | O_CLOEXEC)) {
    ifreq request{};
    std::strcpy(request.ifr_name, name);
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    made_ = fd_ && ioctl(fd_.get(), TUNSETIFF, &request) == 0 &&
            ioctl(fd_.get(), TUNSETLINK, static_cast<unsigned long>(ARPHRD_INFINIBAND)) == 0;
  }
  [[nodiscard]] bool made() const { return made_; }

 private:
  FileDescriptor fd_;
  bool made_ = false;
};

}  // namespace ipoib::control
