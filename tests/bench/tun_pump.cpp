// The upper bound of any tunnel between TUN devices: two of them in two network namespaces, and one
// thread per direction that passes large packets on unchanged.
//
// Usage: bench_tun_pump INTERFACE NAMESPACE NAMESPACE
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "ipoib/file_descriptor.hpp"

namespace {

using ipoib::FileDescriptor;

constexpr std::size_t kBuffer = 70'000;  // virtio header and the largest packet
constexpr unsigned kUdpSegments = 0x20 | 0x40;
constexpr unsigned kOffloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;

void check(bool done, const std::string& what) {
  if (!done) throw std::system_error(errno, std::generic_category(), what);
}

FileDescriptor open_tun(const std::string& interface, const std::string& name_space) {
  const auto path = "/run/netns/" + name_space;
  const FileDescriptor there(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  check(bool(there) && ::setns(there.get(), CLONE_NEWNET) == 0, path);
  FileDescriptor tun(::open("/dev/net/tun", O_RDWR | O_CLOEXEC));
  check(bool(tun), "/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  check(::ioctl(tun.get(), TUNSETIFF, &request) == 0, interface);
  check(::ioctl(tun.get(), TUNSETOFFLOAD, kOffloads | kUdpSegments) == 0 ||
            ::ioctl(tun.get(), TUNSETOFFLOAD, kOffloads) == 0,
        "TUNSETOFFLOAD");
  return tun;
}

/// Runs until the interface is deleted.
void pump(int from, int to) {
  std::array<std::uint8_t, kBuffer> packet;
  for (;;) {
    const auto size = ::read(from, packet.data(), packet.size());
    if (size < 0 && errno != EINTR) return;
    // Packets that the host refuses are lost.
    if (size > 0 && ::write(to, packet.data(), static_cast<std::size_t>(size)) < 0 &&
        errno == EBADFD) {
      return;
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) throw std::runtime_error("usage: bench_tun_pump INTERFACE NAMESPACE NAMESPACE");
  const FileDescriptor one = open_tun(argv[1], argv[2]);
  const FileDescriptor other = open_tun(argv[1], argv[3]);
  std::thread back(pump, other.get(), one.get());
  pump(one.get(), other.get());
  back.join();
  return 0;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "bench_tun_pump: %s\n", failure.what());
  return 1;
}
