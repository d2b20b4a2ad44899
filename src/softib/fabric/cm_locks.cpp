#include "softib/fabric/cm_locks.hpp"

#include <functional>
#include <limits>

#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::fabric {

namespace {

/// Offsets have one bit less than service IDs. If two share a byte, a request for the one that
/// nobody listens on is not refused, but has no answer.
std::int64_t offset_of(ipoib::wire::ServiceId service) {
  constexpr std::uint64_t kOffsetBits = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(service.value() & kOffsetBits);
}

/// | join state | hash of the MGID |
std::int64_t offset_of(const Gid& mgid, std::uint8_t join_state) {
  const std::uint64_t hash = std::hash<Gid>()(mgid) & 0xffff'ffff'ffff;
  return std::int64_t{join_state} << 48 | static_cast<std::int64_t>(hash);
}

bool is_locked_in(const SubnetFolder& folder, NodeIndex node, const char* name,
                  std::int64_t offset) {
  const auto at = folder.open_node(node);
  if (!at) return false;
  const auto file = open_shared(at->get(), name, IfMissing::fail);
  return file && is_locked(file->get(), offset);
}

}  // namespace

bool lock_service(int services, ipoib::wire::ServiceId service) {
  return try_lock_shared(services, offset_of(service));
}

void unlock_service(int services, ipoib::wire::ServiceId service) {
  unlock(services, offset_of(service));
}

bool lock_group(int groups, const Gid& mgid, std::uint8_t join_state) {
  return try_lock_shared(groups, offset_of(mgid, join_state));
}

/// Who can lock it exclusively is the last one.
bool unlock_group(int groups, const Gid& mgid, std::uint8_t join_state) {
  const auto offset = offset_of(mgid, join_state);
  const bool is_last = try_lock(groups, offset);
  unlock(groups, offset);
  return is_last;
}

bool has_listener(const SubnetFolder& folder, NodeIndex node, ipoib::wire::ServiceId service) {
  return is_locked_in(folder, node, kServicesName, offset_of(service));
}

bool has_member(const SubnetFolder& folder, NodeIndex node, const Gid& mgid,
                std::uint8_t join_state) {
  return is_locked_in(folder, node, kGroupsName, offset_of(mgid, join_state));
}

bool has_cm_agent(const SubnetFolder& folder, NodeIndex node) {
  constexpr auto kOffset = agent_lock_offset(
      ipoib::wire::kCmClassVersion, ipoib::wire::mgmt_class::kCommMgt, ipoib::wire::method::kSend);
  return is_locked_in(folder, node, kAgentsName, kOffset);
}

}  // namespace softib::fabric
