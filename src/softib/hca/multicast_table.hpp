// Attachments of queue pairs to multicast groups (IBA 10.5.2). Packets are matched by both DGID and
// DLID, because several groups may share one LID.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/core/fabric_types.hpp"

namespace softib::hca {

class QueuePair;

class MulticastTable {
 public:
  /// Attaching again has no effect. Errors: EINVAL if `group` or `lid` is not multicast; ENOMEM
  /// beyond kMaxAttachedGroups or kMaxAttachedQps.
  [[nodiscard]] ipoib::Result<void> attach(QueuePair& qp, const Gid& group, Lid lid);
  /// Detaches a queue pair. Fails with EINVAL if it is not attached.
  [[nodiscard]] ipoib::Result<void> detach(QueuePair& qp, const Gid& group, Lid lid);
  void detach_all(QueuePair& qp);
  /// The groups of which a queue pair is a member.
  [[nodiscard]] std::vector<Gid> groups() const;
  [[nodiscard]] std::span<QueuePair* const> attached(const Gid& group, Lid lid) const;

 private:
  struct Key {
    Gid group;
    Lid lid;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept {
      return std::hash<Gid>{}(key.group) ^ key.lid.value();
    }
  };
  std::unordered_map<Key, std::vector<QueuePair*>, KeyHash> groups_;
};

}  // namespace softib::hca
