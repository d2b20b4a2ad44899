#include "softib/fabric/cm_locks.hpp"

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

bool has_listener(const SubnetFolder& folder, NodeIndex node, ipoib::wire::ServiceId service) {
  return is_locked_in(folder, node, kServicesName, offset_of(service));
}

bool has_cm_agent(const SubnetFolder& folder, NodeIndex node) {
  constexpr auto kOffset = agent_lock_offset(
      ipoib::wire::kCmClassVersion, ipoib::wire::mgmt_class::kCommMgt, ipoib::wire::method::kSend);
  return is_locked_in(folder, node, kAgentsName, kOffset);
}

}  // namespace softib::fabric
