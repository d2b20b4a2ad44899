#include "sa/membership_order.hpp"

#include <algorithm>

namespace ipoib::sa {

void MembershipOrder::add(const wire::SaRequest& request, Tid tid) {
  if (const auto membership = membership_of(request)) outstanding_[*membership].push_back(tid);
}

void MembershipOrder::remove(const wire::SaRequest& request, Tid tid) {
  const auto membership = membership_of(request);
  if (!membership) return;
  const auto at = outstanding_.find(*membership);
  std::erase(at->second, tid);
  if (at->second.empty()) outstanding_.erase(at);
}

void MembershipOrder::rename(const wire::SaRequest& request, Tid before, Tid after) {
  const auto membership = membership_of(request);
  if (membership) std::ranges::replace(outstanding_.at(*membership), before, after);
}

std::vector<MembershipOrder::Tid> MembershipOrder::beside(const wire::SaRequest& request) const {
  const auto membership = membership_of(request);
  if (!membership) return {};
  const auto at = outstanding_.find(*membership);
  return at == outstanding_.end() ? std::vector<Tid>() : at->second;
}

std::optional<MembershipOrder::Membership> MembershipOrder::membership_of(
    const wire::SaRequest& request) {
  const auto key = [](const wire::McMemberRecord& record) {
    return Membership(record.mgid, record.port_gid, record.join_state);
  };
  if (const auto* const join = std::get_if<wire::JoinQuery>(&request.query))
    return key(join->record);
  if (const auto* const leave = std::get_if<wire::LeaveQuery>(&request.query))
    return key(leave->record);
  return std::nullopt;
}

}  // namespace ipoib::sa
