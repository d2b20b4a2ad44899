// Finds the served interfaces in the kernel's list of Unix sockets (proc(5), /proc/net/unix):
//
//   Num       RefCount Protocol Flags    Type St Inode Path
//   00000000: 00000002 00000000 00010000 0001 01 31337 @ipoibd/ib0
//
// The list is that of the reader's network namespace, like abstract sockets and interfaces. It also
// contains accepted connections, under the same name, but without the listening flag.
#include <net/if.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <sstream>

#include "control/connection.hpp"

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

}  // namespace

std::vector<std::string> interfaces_in(std::string_view proc_net_unix) {
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
  return {names.begin(), names.end()};
}

}  // namespace ipoib::control
