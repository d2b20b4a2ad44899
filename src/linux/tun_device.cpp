#include "linux/tun_device.hpp"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "linux/link_settings.hpp"

namespace ipoib::host {

namespace {

constexpr const char* kCloneDevice = "/dev/net/tun";

// One IP packet a read, without a header before it. IFF_VNET_HDR belongs here when one read is to
// carry a TCP segment larger than the MTU.
constexpr short kTunFlags = IFF_TUN | IFF_NO_PI;

Error failure(const std::string& what, int error, const std::string& remedy = {}) {
  return Error{error, what + ": " + std::strerror(error) + (remedy.empty() ? "" : "; " + remedy)};
}

ifreq request_for(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

Error cannot_open_clone_device(int error) {
  switch (error) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
      return failure(
          kCloneDevice, error,
          "load the driver (modprobe tun) or make the node (mknod /dev/net/tun c 10 200)");
    case EACCES:
    case EPERM:
      return failure(kCloneDevice, error, "run as root, or with CAP_NET_ADMIN");
    default:
      return failure(kCloneDevice, error);
  }
}

Error cannot_have_interface(const std::string& name, int error) {
  const auto what = "interface " + name;
  switch (error) {
    case EPERM:
      return failure(what, error, "a TUN needs CAP_NET_ADMIN: run as root");
    case EBUSY:
      return failure(what, error,
                     "another process has it: stop that one, or choose another --name");
    case EINVAL:
      return failure(what, error,
                     "the name is not possible, or belongs to an interface of another kind: choose "
                     "another --name");
    default:
      return failure(what, error);
  }
}

}  // namespace

Result<std::unique_ptr<TunDevice>> TunDevice::open(const TunOptions& options) {
  if (options.name.empty() || options.name.size() >= IFNAMSIZ) {
    return Error{EINVAL, "interface name \"" + options.name + "\": 1 to 15 characters"};
  }
  FileDescriptor fd(::open(kCloneDevice, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return cannot_open_clone_device(errno);
  FileDescriptor control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!control) return failure("socket", errno);

  const bool existed = if_nametoindex(options.name.c_str()) != 0;
  auto request = request_for(options.name);
  request.ifr_flags = kTunFlags;
  if (ioctl(fd.get(), TUNSETIFF, &request) != 0) return cannot_have_interface(options.name, errno);

  std::unique_ptr<TunDevice> device(
      new TunDevice(std::move(fd), std::move(control), request.ifr_name));
  device->adopted_ = existed;
  if (auto done = device->configure(options); !done) return done.error();
  return device;
}

void TunDevice::discard(const std::string& name) {
  const FileDescriptor fd(::open(kCloneDevice, O_RDWR | O_CLOEXEC));
  auto request = request_for(name);
  request.ifr_flags = kTunFlags;
  // One that is not there is made, and goes with the descriptor.
  if (!fd || ioctl(fd.get(), TUNSETIFF, &request) != 0) return;
  (void)ioctl(fd.get(), TUNSETPERSIST, 0UL);
}

Result<void> TunDevice::configure(const TunOptions& options) {
  auto request = request_for(name_);
  const auto apply = [&](unsigned long command) {
    return ioctl(control_.get(), command, &request) == 0;
  };
  if (!apply(SIOCGIFINDEX)) return failure(name_, errno);
  index_ = request.ifr_ifindex;

  if (!apply(SIOCGIFHWADDR)) return failure(name_, errno);
  if (request.ifr_hwaddr.sa_family != ARPHRD_INFINIBAND &&
      ioctl(fd_.get(), TUNSETLINK, static_cast<unsigned long>(ARPHRD_INFINIBAND)) != 0) {
    return failure("link type of " + name_, errno,
                   "ip link set " + name_ + " down, then try again");
  }
  if (auto done = set_carrier(false); !done) return done;

  request = request_for(name_);
  request.ifr_qlen = static_cast<int>(options.queue_length);
  if (!apply(SIOCSIFTXQLEN)) return failure("txqueuelen of " + name_, errno);
  if (!adopted_) {
    // First: an address that is there while the flag is still set misses its solicited-node group.
    if (auto done = change_flags(0, IFF_NOARP); !done) return done;
    if (auto done = detect_duplicate_addresses(name_); !done) return done;
  }
  if (auto done = options.stable_secret ? set_stable_secret(name_, *options.stable_secret)
                                        : disable_generated_link_local(index_);
      !done) {
    return done;
  }

  if (!adopted_) {
    if (auto done = change_flags(IFF_UP, 0); !done) return done;
  }
  // Last, so that a half-made interface goes away by itself.
  if (ioctl(fd_.get(), TUNSETPERSIST, 1UL) != 0) return failure("TUNSETPERSIST", errno);
  return {};
}

Result<void> TunDevice::change_flags(short set, short clear) {
  auto request = request_for(name_);
  if (ioctl(control_.get(), SIOCGIFFLAGS, &request) != 0) return failure(name_, errno);
  request.ifr_flags = static_cast<short>((request.ifr_flags | set) & ~clear);
  if (ioctl(control_.get(), SIOCSIFFLAGS, &request) != 0) {
    return failure("cannot change the flags of " + name_, errno);
  }
  return {};
}

std::size_t TunDevice::read(FramePool& pool, std::size_t headroom, std::vector<Frame>& out,
                            std::size_t limit) {
  assert(headroom < pool.slot_size());
  const auto room = pool.slot_size() - headroom;
  std::size_t count = 0;
  while (count < limit) {
    Frame frame = pool.take();
    if (!frame) break;
    frame.window(headroom, room);
    const auto size = ::read(fd_.get(), frame.bytes().data(), room);
    if (size < 0) {
      if (errno == EINTR) continue;
      gone_ = gone_ || errno == EBADFD;
      break;
    }
    frame.window(headroom, static_cast<std::size_t>(size));
    out.push_back(std::move(frame));
    ++count;
  }
  return count;
}

bool TunDevice::write(ConstBytes packet) {
  for (;;) {
    const auto size = ::write(fd_.get(), packet.data(), packet.size());
    if (size >= 0) return static_cast<std::size_t>(size) == packet.size();
    if (errno == EINTR) continue;
    gone_ = gone_ || errno == EBADFD;
    return false;
  }
}

Result<void> TunDevice::set_mtu(std::uint32_t octets) {
  auto request = request_for(name_);
  if (ioctl(control_.get(), SIOCGIFMTU, &request) != 0) return failure("MTU of " + name_, errno);
  const std::uint32_t wanted = mtu_.wanted(octets, static_cast<std::uint32_t>(request.ifr_mtu));
  request.ifr_mtu = static_cast<int>(wanted);
  if (ioctl(control_.get(), SIOCSIFMTU, &request) != 0) {
    return failure("MTU " + std::to_string(octets) + " of " + name_, errno);
  }
  mtu_.was_set(wanted);
  return {};
}

Result<void> TunDevice::set_carrier(bool on) {
  int value = on ? 1 : 0;
  if (ioctl(fd_.get(), TUNSETCARRIER, &value) != 0) return failure("carrier of " + name_, errno);
  return {};
}

void TunDevice::remove() { (void)ioctl(fd_.get(), TUNSETPERSIST, 0UL); }

}  // namespace ipoib::host
