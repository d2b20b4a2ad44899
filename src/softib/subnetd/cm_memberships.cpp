#include "softib/subnetd/cm_memberships.hpp"

#include "softib/core/mad_route.hpp"
#include "wire/mc_member_record.hpp"

namespace softib::subnetd {

namespace wire = ipoib::wire;

void CmMemberships::note(NodeIndex node, const MadPacket& response) {
  const auto header = wire::SaHeader::parse(response.mad);
  if (!header || header->mad.management_class != wire::mgmt_class::kSubnAdm ||
      header->mad.method != wire::method::kGetResp || header->mad.status != 0 ||
      header->mad.attribute_id != wire::attribute::kMcMemberRecord) {
    return;
  }
  const auto route = MadRoute::of(header->mad.transaction_id);
  if (route.agent != MadRoute::kOwnAgent || count_ == kMaxNotedGroups) return;
  const auto record = ConstBytes(response.mad).subspan(wire::kSaHeaderSize);
  const auto joined = wire::McMemberRecord::parse(record);
  if (!joined) return;
  if (groups_[{node, route.slot, route.epoch}].insert(joined->mgid).second) ++count_;
}

std::set<Gid> CmMemberships::take(const endpoint::RemoteProcess& process) {
  const auto found = groups_.extract(process);
  if (found.empty()) return {};
  count_ -= found.mapped().size();
  return std::move(found.mapped());
}

}  // namespace softib::subnetd
