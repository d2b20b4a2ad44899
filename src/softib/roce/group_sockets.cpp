#include "softib/roce/group_sockets.hpp"

#include <algorithm>
#include <vector>

#include "softib/roce/udp_socket.hpp"

namespace softib::roce {

using ipoib::Result;

Result<void> GroupSockets::replace(std::span<const Gid> groups, unsigned interface) {
  const bool stays = interface == interface_;
  interface_ = interface;
  // Closing a socket leaves its group.
  std::erase_if(sockets_, [&](const auto& each) {
    const bool goes = !stays || std::ranges::find(groups, each.first) == groups.end();
    if (goes) set_.remove(each.second);
    return goes;
  });
  Result<void> result;
  for (const auto& group : groups) {
    if (sockets_.contains(group)) continue;
    if (auto joined = join(group); !joined && result) result = joined;
  }
  return result;
}

void GroupSockets::move_to(unsigned interface) {
  std::vector<Gid> groups;
  groups.reserve(sockets_.size());
  for (const auto& each : sockets_) groups.push_back(each.first);
  (void)replace(groups, interface);
}

Result<void> GroupSockets::join(const Gid& group) {
  auto socket = open_group_socket(group, interface_);
  if (!socket) return socket.error();
  auto& added = sockets_[group] = {group, std::move(*socket)};
  auto result = set_.add(added);
  if (!result) sockets_.erase(group);
  return result;
}

}  // namespace softib::roce
