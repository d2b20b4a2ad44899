// Finds the interfaces of ipoibd: served ones by their sockets, those that a daemon has left behind
// by the kind of their device.
#include <dirent.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>

#include "control/connection.hpp"
#include "control/socket_folder.hpp"
#include "ipoib/file_descriptor.hpp"
#include "ipoib/unix_path.hpp"

namespace ipoib::control {

namespace {

ifreq request_for(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

bool is_infiniband_tun(int socket, const std::string& name) {
  ifreq request = request_for(name);
  if (ioctl(socket, SIOCGIFHWADDR, &request) != 0) return false;
  if (request.ifr_hwaddr.sa_family != ARPHRD_INFINIBAND) return false;
  ethtool_drvinfo driver{};
  driver.cmd = ETHTOOL_GDRVINFO;
  request.ifr_data = reinterpret_cast<char*>(&driver);
  return ioctl(socket, SIOCETHTOOL, &request) == 0 && std::string_view(driver.driver) == "tun";
}

/// Whether the interface has a carrier. IFF_RUNNING does not say: it may be set for a second after
/// the carrier was lost.
bool has_carrier(int socket, const std::string& name) {
  ifreq request = request_for(name);
  ethtool_value carrier{};
  carrier.cmd = ETHTOOL_GLINK;
  request.ifr_data = reinterpret_cast<char*>(&carrier);
  return ioctl(socket, SIOCETHTOOL, &request) == 0 && carrier.data != 0;
}

/// The error with which a datagram socket cannot connect to a stream socket (unix(7)). It shows
/// first whether this process may connect, and then whether a process has the socket open, without
/// a connection that it would have to accept.
int connect_error(const std::string& path) {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto to = UnixPath::of(path);
  if (!to) return ENOENT;
  if (!socket) return errno;
  return ::connect(socket.get(), to->address(), UnixPath::size()) == 0 ? 0 : errno;
}

/// Whether a process serves the sockets of the folder; true if this process may connect to neither.
bool is_served(const std::string& folder) {
  const int control = connect_error(folder + "/" + kControlSocket);
  if (control == EACCES || control == EPERM) {
    return connect_error(folder + "/" + kReadSocket) != ECONNREFUSED;
  }
  return control != ENOENT && control != ENOTDIR && control != ECONNREFUSED;
}

}  // namespace

bool is_interface_name(std::string_view name) {
  return !name.empty() && name.size() < IFNAMSIZ && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return std::isgraph(static_cast<unsigned char>(c)) != 0 && c != '/';
         });
}

Result<std::set<std::string>> served_interfaces() {
  const auto own = own_network_namespace();
  if (!own) return own.error();
  struct Close {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  std::set<std::string> names;
  for (const auto& run_folder : run_folders()) {
    const std::string path = run_folder + "/" + namespace_folder(*own);
    const std::unique_ptr<DIR, Close> folder(::opendir(path.c_str()));
    if (!folder && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
      return Error{errno, path + ": " + std::strerror(errno)};
    }
    if (!folder) continue;
    while (const auto* const entry = ::readdir(folder.get())) {
      const std::string name = entry->d_name;
      if (is_interface_name(name) && is_served(path + "/" + name)) {
        names.insert(name);
      }
    }
  }
  return names;
}

std::map<std::string, bool> tun_interfaces() {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  struct Free {
    void operator()(struct if_nameindex* all) const { if_freenameindex(all); }
  };
  const std::unique_ptr<struct if_nameindex, Free> all(::if_nameindex());
  std::map<std::string, bool> out;
  if (!socket || !all) return out;
  for (const auto* each = all.get(); each->if_index != 0; ++each) {
    const std::string name = each->if_name;
    if (is_infiniband_tun(socket.get(), name)) out.emplace(name, has_carrier(socket.get(), name));
  }
  return out;
}

}  // namespace ipoib::control
