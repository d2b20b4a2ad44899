#include "linux/host_groups.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "ipoib/bytes.hpp"
#include "ipoib/number.hpp"

namespace ipoib::linux {
namespace {

FileDescriptor open_file(const char* path) {
  return FileDescriptor(::open(path, O_RDONLY | O_CLOEXEC));
}

/// Reads a file from its beginning.
Result<std::string> read_whole(int fd) {
  std::string text;
  std::array<char, 65536> chunk;
  for (;;) {
    const ssize_t got = ::pread(fd, chunk.data(), chunk.size(), static_cast<off_t>(text.size()));
    if (got < 0) {
      return Error(errno, std::string("cannot read the host's groups: ") + std::strerror(errno));
    }
    if (got == 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

constexpr int kHexadecimal = 16;

/// The kernel prints the address bytes as a number in host byte order.
std::optional<Ipv4Address> ipv4_group(std::string_view digits) {
  const auto number = parse_number<std::uint32_t>(digits, kHexadecimal);
  if (!number) return std::nullopt;
  return Ipv4Address(std::bit_cast<Ipv4Address::Bytes>(*number));
}

std::optional<Ipv6Address> ipv6_group(std::string_view digits) {
  Ipv6Address::Bytes bytes;
  if (digits.size() != 2 * bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = parse_number<std::uint8_t>(digits.substr(2 * i, 2), kHexadecimal);
    if (!byte) return std::nullopt;
    bytes[i] = *byte;
  }
  return Ipv6Address(bytes);
}

/// Whether the group is in ff01::/16, which never leaves the host (RFC 4291, 2.7).
bool is_interface_local(const Ipv6Address& group) { return (group.bytes()[1] & 0x0f) <= 1; }

}  // namespace

Result<HostGroups> HostGroups::open() {
  // The path has thread-self, because /proc/net shows the namespace of the process's main thread.
  FileDescriptor ipv4 = open_file("/proc/thread-self/net/igmp");
  if (!ipv4) {
    return Error(errno, std::string("cannot open /proc/net/igmp: ") + std::strerror(errno) +
                            "; mount /proc, or use a kernel with CONFIG_IP_MULTICAST");
  }
  return HostGroups(std::move(ipv4), open_file("/proc/thread-self/net/igmp6"));
}

Result<std::vector<IpAddress>> HostGroups::read(std::string_view interface) const {
  const auto text = read_whole(ipv4_.get());
  if (!text) return text.error();
  std::vector<IpAddress> all = groups_in_igmp(*text, interface);
  if (!ipv6_) return all;
  const auto text6 = read_whole(ipv6_.get());
  if (!text6) return text6.error();
  const auto more = groups_in_igmp6(*text6, interface);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<IpAddress> groups_in_igmp(std::string_view text, std::string_view interface) {
  std::vector<IpAddress> found;
  std::istringstream lines{std::string(text)};
  bool is_ours = false;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    std::string second;
    words >> first >> second;
    if (!line.starts_with('\t')) {
      // There is a blank between name and colon only if the name has less than ten characters.
      if (second.ends_with(':')) second.pop_back();
      is_ours = second == interface;
    } else if (const auto group = is_ours ? ipv4_group(first) : std::nullopt) {
      found.emplace_back(*group);
    }
  }
  return found;
}

std::vector<IpAddress> groups_in_igmp6(std::string_view text, std::string_view interface) {
  std::vector<IpAddress> found;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string index;
    std::string name;
    std::string group;
    words >> index >> name >> group;
    if (name != interface) continue;
    const auto address = ipv6_group(group);
    if (address && !is_interface_local(*address)) found.emplace_back(*address);
  }
  return found;
}

}  // namespace ipoib::linux
