// Finds the interfaces of ipoibd. Those that are served are in the kernel's list of Unix sockets
// (proc(5), /proc/net/unix):
//
//   Num       RefCount Protocol Flags    Type St Inode Path
//   00000000: 00000002 00000000 00010000 0001 01 31337 @ipoibd/ib0
//
// The list is that of the reader's network namespace, like abstract sockets and interfaces. It also
// contains accepted connections, under the same name, but without the listening flag.
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>
#include <sstream>

#include "control/connection.hpp"
#include "ipoib/file_descriptor.hpp"

namespace ipoib::control {

namespace {

constexpr std::uint32_t kListens = 1U << 16;  // __SO_ACCEPTCON of linux/net.h

/// A valid and printable interface name: any user may bind any socket name.
bool is_interface_name(std::string_view name) {
  return !name.empty() && name.size() < IFNAMSIZ &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return std::isgraph(static_cast<unsigned char>(c)) != 0 && c != '/';
         });
}

bool is_infiniband_tun(int socket, const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(socket, SIOCGIFHWADDR, &request) != 0) return false;
  if (request.ifr_hwaddr.sa_family != ARPHRD_INFINIBAND) return false;
  ethtool_drvinfo driver{};
  driver.cmd = ETHTOOL_GDRVINFO;
  request.ifr_data = reinterpret_cast<char*>(&driver);
  return ioctl(socket, SIOCETHTOOL, &request) == 0 && std::string_view(driver.driver) == "tun";
}

}  // namespace

std::set<std::string> interfaces_in(std::string_view proc_net_unix) {
  const std::string prefix = "@" + std::string(kSocketPrefix);
  std::set<std::string> names;
  std::istringstream lines{std::string(proc_net_unix)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, references, protocol, flags, type, state, inode, path;
    words >> number >> references >> protocol >> flags >> type >> state >> inode >> path;
    if (!words || path.compare(0, prefix.size(), prefix) != 0) continue;
    std::uint32_t bits = 0;
    std::from_chars(flags.data(), flags.data() + flags.size(), bits, 16);
    std::string name = path.substr(prefix.size());
    if ((bits & kListens) != 0 && is_interface_name(name)) names.insert(std::move(name));
  }
  return names;
}

std::set<std::string> tun_interfaces() {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  struct Free {
    void operator()(struct if_nameindex* all) const { if_freenameindex(all); }
  };
  const std::unique_ptr<struct if_nameindex, Free> all(::if_nameindex());
  std::set<std::string> names;
  if (!socket || !all) return names;
  for (const auto* each = all.get(); each->if_index != 0; ++each) {
    if (is_infiniband_tun(socket.get(), each->if_name)) names.insert(each->if_name);
  }
  return names;
}

}  // namespace ipoib::control
