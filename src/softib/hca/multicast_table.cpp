#include "softib/hca/multicast_table.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "softib/core/ip_gid.hpp"
#include "softib/hca/queue_pair.hpp"

namespace softib::hca {

using ipoib::Error;

ipoib::Result<void> MulticastTable::attach(QueuePair& qp, const Gid& group, Lid lid) {
  if (!is_ip_multicast(group) || !ipoib::is_multicast(lid)) {
    return Error{EINVAL,
                 "a queue pair can only be attached to a multicast GID with a multicast LID"};
  }
  const Key key{group, lid};
  auto found = groups_.find(key);
  if (found == groups_.end()) {
    if (groups_.size() == kMaxAttachedGroups) {
      return Error{ENOMEM, "queue pairs are attached to " + std::to_string(kMaxAttachedGroups) +
                               " multicast groups, the maximum of a process: detach some"};
    }
    found = groups_.emplace(key, std::vector<QueuePair*>{}).first;
  }
  auto& qps = found->second;
  if (std::find(qps.begin(), qps.end(), &qp) != qps.end()) return {};
  if (qps.size() == kMaxAttachedQps) {
    return Error{ENOMEM, "the multicast group has " + std::to_string(kMaxAttachedQps) +
                             " queue pairs of this process, the maximum: detach some"};
  }
  qps.push_back(&qp);
  ++qp.attachments;
  return {};
}

ipoib::Result<void> MulticastTable::detach(QueuePair& qp, const Gid& group, Lid lid) {
  const auto found = groups_.find({group, lid});
  if (found == groups_.end() || std::erase(found->second, &qp) == 0) {
    return Error{EINVAL, "the queue pair is not attached to this group"};
  }
  assert(qp.attachments != 0);
  --qp.attachments;
  if (found->second.empty()) groups_.erase(found);
  return {};
}

void MulticastTable::detach_all(QueuePair& qp) {
  for (auto& [key, qps] : groups_) std::erase(qps, &qp);
  std::erase_if(groups_, [](const auto& group) { return group.second.empty(); });
  qp.attachments = 0;
}

std::vector<Gid> MulticastTable::groups() const {
  std::vector<Gid> groups;
  groups.reserve(groups_.size());
  for (const auto& each : groups_) groups.push_back(each.first.group);
  return groups;
}

std::span<QueuePair* const> MulticastTable::attached(const Gid& group, Lid lid) const {
  const auto found = groups_.find({group, lid});
  if (found == groups_.end()) return {};
  return found->second;
}

}  // namespace softib::hca
