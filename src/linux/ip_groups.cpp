#include "linux/ip_groups.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ipoib::linux {

namespace {

ipv6_mreq request(const Gid& mgid, std::uint32_t interface_index) {
  ipv6_mreq out{};
  std::ranges::copy(mgid.bytes(), out.ipv6mr_multiaddr.s6_addr);
  out.ipv6mr_interface = interface_index;
  return out;
}

Error refused(const Gid& mgid, int error) {
  const char* const remedy =
      error == ENODEV
          ? "; ipoibd has to run in the network namespace of the port's network device (--netns "
            "moves the interfaces), and that device needs IPv6"
          : "";
  return {error, "cannot join " + mgid.to_string() +
                     " on the port's network device: " + std::strerror(error) + remedy};
}

}  // namespace

void IpGroups::use(std::uint32_t interface_index) {
  if (std::exchange(interface_index_, interface_index) != interface_index) groups_.clear();
}

std::shared_ptr<IpGroups::Socket> IpGroups::socket_with_room() const {
  for (const auto& [mgid, socket] : groups_) {
    if (socket->groups < kPerSocket) return socket;
  }
  return std::make_shared<Socket>(
      Socket{FileDescriptor(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0))});
}

Result<void> IpGroups::join(const Gid& mgid) {
  if (groups_.contains(mgid)) return {};
  if (groups_.size() >= kMaxGroups) return refused(mgid, ENOBUFS);
  auto socket = socket_with_room();
  if (!socket->descriptor) return refused(mgid, errno);
  const auto wanted = request(mgid, interface_index_);
  if (::setsockopt(socket->descriptor.get(), IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &wanted,
                   sizeof(wanted)) != 0) {
    return refused(mgid, errno);
  }
  ++socket->groups;
  groups_.emplace(mgid, std::move(socket));
  return {};
}

void IpGroups::leave(const Gid& mgid) {
  const auto at = groups_.find(mgid);
  if (at == groups_.end()) return;
  const auto wanted = request(mgid, interface_index_);
  // This fails if the device is gone, and the membership with it.
  (void)::setsockopt(at->second->descriptor.get(), IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP, &wanted,
                     sizeof(wanted));
  --at->second->groups;
  groups_.erase(at);
}

}  // namespace ipoib::linux
