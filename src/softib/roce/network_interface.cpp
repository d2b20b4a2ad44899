#include "softib/roce/network_interface.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "ipoib/ip.hpp"
#include "softib/roce/socket_address.hpp"
#include "wire/sa_records.hpp"

namespace softib::roce {
namespace {

using ipoib::Error;
using ipoib::FileDescriptor;
using ipoib::Result;

/// Headers of the longest packet: IPv6, UDP, BTH, an atomic request, and the ICRC (as rdma_rxe has
/// it).
constexpr unsigned kMostHeaders = 80;

struct Interfaces {
  Interfaces() {
    if (::getifaddrs(&first) == 0) return;
    error = errno;
    first = nullptr;
  }
  Interfaces(const Interfaces&) = delete;
  Interfaces& operator=(const Interfaces&) = delete;
  ~Interfaces() {
    if (first != nullptr) ::freeifaddrs(first);
  }
  ifaddrs* first = nullptr;
  int error = 0;  ///< why they cannot be listed
};

/// The address of an entry; zero if it is none of IP.
Gid gid_of_entry(const ifaddrs& entry) {
  const auto* const address = entry.ifa_addr;
  if (address == nullptr) return {};
  SocketAddress at;
  if (address->sa_family == AF_INET) {
    std::memcpy(&at.storage, address, sizeof(sockaddr_in));
  } else if (address->sa_family == AF_INET6) {
    std::memcpy(&at.storage, address, sizeof(sockaddr_in6));
  } else {
    return {};
  }
  return at.gid();
}

/// 0: IPv4, 1: global IPv6, 2: link-local.
int order_of(const Gid& gid) {
  if (is_ipv4(gid)) return 0;
  return gid.prefix() == Gid::kLinkLocalPrefix ? 2 : 1;
}

std::uint64_t mac_of(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || entry.ifa_addr->sa_family != AF_PACKET) return 0;
  sockaddr_ll link;
  std::memcpy(&link, entry.ifa_addr, sizeof link);
  std::uint64_t mac = 0;
  for (unsigned i = 0; i < link.sll_halen && i < 6; ++i) mac = mac << 8 | link.sll_addr[i];
  return mac;
}

unsigned mtu_of(const std::string& name) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), sizeof request.ifr_name - 1);
  if (!socket || ::ioctl(socket.get(), SIOCGIFMTU, &request) != 0) return 0;
  return static_cast<unsigned>(request.ifr_mtu);
}

/// The interface that has an address; empty if none has it.
std::string interface_with(const Interfaces& all, const Gid& gid) {
  for (const auto* each = all.first; each != nullptr; each = each->ifa_next) {
    if (gid_of_entry(*each) == gid) return each->ifa_name;
  }
  return {};
}

std::string names_of(const Interfaces& all) {
  std::string names;
  for (const auto* each = all.first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_PACKET) continue;
    names += (names.empty() ? "" : ", ") + std::string(each->ifa_name);
  }
  return names;
}

}  // namespace

Result<NetworkInterface> read_interface(const std::string& name_or_address) {
  const Interfaces all;
  if (all.error != 0) {
    return Error{all.error,
                 std::string("cannot list the network interfaces: ") + std::strerror(all.error)};
  }
  NetworkInterface found;
  found.name = name_or_address;
  const auto address = ipoib::parse_ip_address(name_or_address);
  if (address) found.name = interface_with(all, ip_gid(*address));
  found.index = found.name.empty() ? 0 : ::if_nametoindex(found.name.c_str());
  if (found.index == 0) {
    return Error{ENODEV, (address ? "no network interface has the address " + name_or_address
                                  : "there is no network interface '" + name_or_address + "'") +
                             "; there are " + names_of(all)};
  }
  found.mtu = mtu_of(found.name);
  for (const auto* each = all.first; each != nullptr; each = each->ifa_next) {
    if (found.name != each->ifa_name) continue;
    found.has_carrier |= (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_RUNNING) != 0;
    if (const auto mac = mac_of(*each); mac != 0) found.mac = mac;
    const auto gid = gid_of_entry(*each);
    if (gid.is_zero() || (address && gid != ip_gid(*address))) continue;
    if (std::ranges::find(found.gids, gid) == found.gids.end()) found.gids.push_back(gid);
  }
  std::ranges::stable_sort(found.gids, {}, order_of);
  if (found.gids.size() > kMaxGids) found.gids.resize(kMaxGids);
  return found;
}

std::string default_interface() {
  std::ifstream routes("/proc/net/route");
  std::string line;
  std::getline(routes, line);
  while (std::getline(routes, line)) {
    std::istringstream fields(line);
    std::string name;
    std::string destination;
    fields >> name >> destination;
    if (destination == "00000000") return name;
  }
  return {};
}

std::uint8_t mtu_code_of(unsigned bytes) {
  constexpr std::uint8_t kLargest = 5;
  for (std::uint8_t code = kLargest; code > 0; --code) {
    if (ipoib::wire::mtu_bytes(code) + kMostHeaders <= bytes) return code;
  }
  return 0;
}

void apply(const NetworkInterface& interface, PortAttributes& port) {
  port.link_layer = LinkLayer::ethernet;
  port.lid = port.sm_lid = Lid();
  port.max_mtu = 5;
  const auto mtu = mtu_code_of(interface.mtu);
  port.mtu = std::max<std::uint8_t>(mtu, 1);
  port.network_interface = interface.index;
  port.gids = {};
  std::ranges::copy(interface.gids, port.gids.begin());
  port.pkeys = {};
  port.pkeys[0] = ipoib::kDefaultPKey;
  const bool is_usable = interface.has_carrier && mtu != 0 && !port.failed;
  port.set_state(is_usable ? PortState::active : PortState::down);
}

Result<FileDescriptor> watch_interfaces() {
  FileDescriptor socket(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl at{};
  at.nl_family = AF_NETLINK;
  at.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    return Error{errno,
                 std::string("cannot watch the network interfaces: ") + std::strerror(errno)};
  }
  return socket;
}

void drain(const FileDescriptor& watch) {
  std::array<char, 8192> message;
  // ENOBUFS means that messages were lost: the state is read anyway.
  while (::recv(watch.get(), message.data(), message.size(), MSG_DONTWAIT) > 0 ||
         errno == ENOBUFS || errno == EINTR) {
  }
}

}  // namespace softib::roce
