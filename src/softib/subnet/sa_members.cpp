// The order of the checks of a join: components, PortGID, partitions of port and requester; then
// for a new group whether it may be made, for an old one whether the request agrees with it; then
// what the port can do, and last whose membership it is.
#include "softib/subnet/sa_members.hpp"

#include <algorithm>
#include <optional>

#include "softib/subnet/node_attributes.hpp"
#include "softib/subnet/rates.hpp"
#include "wire/mgid.hpp"

namespace softib::subnet {

namespace {

using ipoib::wire::McMemberRecord;
using ipoib::wire::SaStatus;
using ipoib::wire::Selector;

constexpr std::uint64_t kJoinComponents =
    McMemberRecord::kMgid | McMemberRecord::kPortGid | McMemberRecord::kJoinState;
constexpr std::uint64_t kCreateComponents = kJoinComponents | McMemberRecord::kQKey |
                                            McMemberRecord::kTrafficClass | McMemberRecord::kPKey |
                                            McMemberRecord::kFlowLabel | McMemberRecord::kSl;
constexpr std::uint64_t kMtuComponents = McMemberRecord::kMtuSelector | McMemberRecord::kMtu;
constexpr std::uint64_t kRateComponents = McMemberRecord::kRateSelector | McMemberRecord::kRate;
constexpr std::uint8_t kAllStates = 0x0f;

/// Components without which the request is nothing, and values that do not exist.
SaStatus check_components(const SaRequest& request, const McMemberRecord& asked) {
  if (!request.has(kJoinComponents)) return SaStatus::insufficient_components;
  if (request.has(kMtuComponents) && !is_mtu(asked.mtu)) return SaStatus::request_invalid;
  if (request.has(kRateComponents) && !is_rate(asked.rate)) return SaStatus::request_invalid;
  if (asked.port_gid.prefix() != Gid::kLinkLocalPrefix) return SaStatus::invalid_gid;
  return SaStatus::ok;
}

/// The components that have to be those of the group, if they are given.
bool agrees(const SaRequest& request, const McMemberRecord& asked, const McMemberRecord& group) {
  if (request.has(McMemberRecord::kQKey) && asked.qkey != group.qkey) return false;
  if (request.has(McMemberRecord::kPKey) && !asked.pkey.admits(group.pkey)) return false;
  const bool same_class = asked.traffic_class == group.traffic_class;
  if (request.has(McMemberRecord::kTrafficClass) && !same_class) return false;
  if (request.has(McMemberRecord::kSl) && asked.sl != group.sl) return false;
  const bool same_flow = asked.flow_label == group.flow_label;
  if (request.has(McMemberRecord::kFlowLabel) && !same_flow) return false;
  return !request.has(McMemberRecord::kHopLimit) || asked.hop_limit == group.hop_limit;
}

bool selectors_agree(const SaRequest& request, const McMemberRecord& asked,
                     const McMemberRecord& group) {
  if (request.has(McMemberRecord::kMtuSelector) &&
      !mtu_satisfies(asked.mtu_selector, asked.mtu, group.mtu)) {
    return false;
  }
  return !request.has(McMemberRecord::kRateSelector) ||
         rate_satisfies(asked.rate_selector, asked.rate, group.rate);
}

/// The MTU that a new group gets; 0 when there is none as asked.
std::uint8_t new_mtu(const SaRequest& request, const McMemberRecord& asked, std::uint8_t port) {
  if (!request.has(kMtuComponents)) return port;
  switch (asked.mtu_selector) {
    case Selector::greater:
      return asked.mtu < port ? port : 0;
    case Selector::less:
      return asked.mtu > port ? port : static_cast<std::uint8_t>(asked.mtu - 1);
    case Selector::exactly:
      return asked.mtu;
    case Selector::largest:
      return port;
  }
  return 0;
}

std::uint8_t new_rate(const SaRequest& request, const McMemberRecord& asked, std::uint8_t port) {
  if (!request.has(kRateComponents)) return port;
  switch (asked.rate_selector) {
    case Selector::greater:
      return compare_rates(asked.rate, port) < 0 ? port : 0;
    case Selector::less:
      return compare_rates(asked.rate, port) > 0 ? port : slower_rate(asked.rate);
    case Selector::exactly:
      return asked.rate;
    case Selector::largest:
      return port;
  }
  return 0;
}

/// "The multicast GID is invalid if ... it uses reserved flags, or the SA's signature 0xA01B with
/// link-local scope" (IBA 15.2.5.17.2, o15-0.1.5). IPoIB's own MGIDs are taken as they are.
bool is_valid_mgid(const Gid& mgid) {
  if (!mgid.is_multicast()) return false;
  if (ipoib::wire::is_ipoib_mgid(mgid)) return true;
  const auto& octets = mgid.bytes();
  const bool reserved_flags = (octets[1] & 0xe0) != 0;
  const bool sa_signature = octets[2] == 0xa0 && octets[3] == 0x1b;
  return !reserved_flags && !(sa_signature && (octets[1] & 0x0f) == ipoib::wire::kLinkLocalScope);
}

/// A link's groups hang on its broadcast group (RFC 4391, 4): same P_Key, scope and parameters.
bool fits_broadcast_group(const SaRequest& request, const McMemberRecord& asked,
                          const MulticastGroups& groups) {
  if (!ipoib::wire::is_ipoib_mgid(asked.mgid)) return true;
  Gid::Bytes octets = asked.mgid.bytes();
  ipoib::store_be(octets.data() + 2, ipoib::wire::kIpv4Signature);
  std::fill(octets.begin() + 6, octets.begin() + 12, std::uint8_t{0});
  std::fill(octets.begin() + 12, octets.end(), std::uint8_t{0xff});
  const Gid broadcast(octets);
  if (broadcast == asked.mgid) return true;
  const McGroup* group = groups.find(broadcast);
  return group != nullptr && agrees(request, asked, group->record);
}

/// An MGID that the SA makes up: | FF | 1 scope | A01B | subnet prefix 64 | - | number |.
std::optional<Gid> unused_mgid(const SaRequest& request, const McMemberRecord& asked,
                               const MulticastGroups& groups) {
  const std::uint8_t scope =
      request.has(McMemberRecord::kScope) ? asked.scope : ipoib::wire::kLinkLocalScope;
  for (std::uint32_t number = 0; number <= kMaxGroups; ++number) {
    Gid::Bytes octets{0xff, static_cast<std::uint8_t>(0x10 | scope), 0xa0, 0x1b};
    ipoib::store_be(octets.data() + 4, Gid::kLinkLocalPrefix);
    ipoib::store_be(octets.data() + 12, number);
    if (groups.find(Gid(octets)) == nullptr) return Gid(octets);
  }
  return std::nullopt;
}

/// What a new group would be like; a status if it may not be made.
struct Draft {
  SaStatus status = SaStatus::ok;
  McMemberRecord record;
};

Draft draft_group(const SaRequest& request, const McMemberRecord& asked, const Node& port,
                  const MulticastGroups& groups) {
  if ((asked.join_state & kFullMemberStates) == 0) return {SaStatus::request_invalid, {}};
  if (!request.has(kCreateComponents)) return {SaStatus::insufficient_components, {}};
  Draft draft;
  draft.record = asked;
  if (asked.mgid.is_zero()) {
    const auto mgid = unused_mgid(request, asked, groups);
    if (!mgid) return {SaStatus::no_resources, {}};
    draft.record.mgid = *mgid;
  } else if (!is_valid_mgid(asked.mgid) || !fits_broadcast_group(request, asked, groups)) {
    return {SaStatus::request_invalid, {}};
  }
  draft.record.mtu = new_mtu(request, asked, port.port.mtu);
  draft.record.rate = new_rate(request, asked, port_rate(port.port));
  if (!is_mtu(draft.record.mtu) || !is_rate(draft.record.rate)) {
    return {SaStatus::request_invalid, {}};
  }
  if (!request.has(McMemberRecord::kLifetime)) draft.record.lifetime = kSubnetTimeout;
  draft.record.mtu_selector = draft.record.rate_selector = draft.record.lifetime_selector =
      Selector::exactly;
  draft.record.scope = draft.record.mgid.bytes()[1] & 0x0f;
  return draft;
}

/// What the port and the request have to be for this group, new or old.
SaStatus check_port(const SaRequest& request, const McMemberRecord& asked, const Node& port,
                    const McMemberRecord& group) {
  const bool can =
      port.port.mtu >= group.mtu && compare_rates(port_rate(port.port), group.rate) >= 0;
  if (!selectors_agree(request, asked, group) || !can) return SaStatus::request_invalid;
  if (asked.join_state == 0) return SaStatus::request_invalid;
  if (!find_pkey(port.port, group.pkey).is_valid()) return SaStatus::request_invalid;
  return SaStatus::ok;
}

/// A membership that its own port made is that port's to change; one made by proxy belongs to
/// everybody in the partition (IBA 15.2.5.17.4, o15-0.2.1).
bool may_modify(const SaRequest& request, const McGroup& group, NodeIndex port) {
  const auto member = group.members.find(port);
  if (member == group.members.end()) return true;
  if (!member->second.proxy) return request.requester == port;
  return find_pkey(request.from.port, group.record.pkey).is_valid();
}

McMemberRecord member_record(const McGroup& group, const Gid& port_gid, const McMember& member) {
  McMemberRecord record = group.record;
  record.port_gid = port_gid;
  record.join_state = member.join_state;
  record.proxy_join = member.proxy;
  return record;
}

SaResponse one(const McMemberRecord& record) {
  RecordTable table(McMemberRecord::kSize);
  table.add(record);
  return table;
}

}  // namespace

SaResponse join_group(const SaRequest& request, const SubnetManager& manager,
                      MulticastGroups& groups) {
  const auto asked = McMemberRecord::parse(request.record);
  if (!asked) return SaStatus::request_invalid;
  if (const auto status = check_components(request, *asked); status != SaStatus::ok) return status;
  const auto index = manager.find(asked->port_gid.guid());
  const Node* port = manager.node(index);
  if (port == nullptr || port->port.state == PortState::down) return SaStatus::request_invalid;
  const bool is_proxy = *index != request.requester;
  if (!shared_pkey(request.from, *port).is_valid()) return SaStatus::request_invalid;
  const bool has_pkey = request.has(McMemberRecord::kPKey);
  if (has_pkey && !asked->pkey.is_valid()) return SaStatus::request_invalid;

  McGroup* group = groups.find(asked->mgid);
  Draft draft;
  if (group != nullptr) {
    if (!agrees(request, *asked, group->record)) return SaStatus::request_invalid;
    draft.record = group->record;
  } else {
    draft = draft_group(request, *asked, *port, groups);
    if (draft.status != SaStatus::ok) return draft.status;
  }
  const auto status = check_port(request, *asked, *port, draft.record);
  if (status != SaStatus::ok) return status;
  if (group != nullptr && !may_modify(request, *group, *index)) return SaStatus::request_invalid;
  if (group == nullptr) group = groups.create(draft.record, false);
  if (group == nullptr) return SaStatus::no_resources;

  const std::uint8_t states = groups.join(*group, *index, asked->join_state, is_proxy);
  return one(member_record(*group, asked->port_gid, {states, asked->proxy_join}));
}

SaResponse leave_group(const SaRequest& request, const SubnetManager& manager,
                       MulticastGroups& groups) {
  const auto asked = McMemberRecord::parse(request.record);
  if (!asked) return SaStatus::request_invalid;
  if (const auto status = check_components(request, *asked); status != SaStatus::ok) return status;
  const auto index = manager.find(asked->port_gid.guid());
  McGroup* group = groups.find(asked->mgid);
  if (!index || group == nullptr) return SaStatus::request_invalid;
  // "At least one bit in common, and none that is not set in the stored record" (o15-0.1.14).
  const auto member = group->members.find(*index);
  const bool holds = member != group->members.end() && asked->join_state != 0 &&
                     (asked->join_state & ~member->second.join_state & kAllStates) == 0;
  if (!holds || !may_modify(request, *group, *index)) return SaStatus::request_invalid;
  McMemberRecord left = *asked;
  left.scope = group->record.scope;
  left.join_state = groups.leave(*group, *index, asked->join_state);
  return one(left);
}

SaResponse query_members(const SaRequest& request, const SubnetManager& manager,
                         const MulticastGroups& groups) {
  const auto asked = McMemberRecord::parse(request.record);
  if (!asked) return SaStatus::request_invalid;
  RecordTable found(McMemberRecord::kSize);
  const auto consider = [&](const McGroup& group, const Gid& port_gid, const McMember& member) {
    McMemberRecord record = member_record(group, port_gid, member);
    const auto differs = [&](std::uint64_t component, auto wanted, auto have) {
      return request.has(component) && wanted != have;
    };
    if (differs(McMemberRecord::kScope, asked->scope, record.scope)) return;
    if (differs(McMemberRecord::kJoinState, asked->join_state, record.join_state)) return;
    if (differs(McMemberRecord::kProxyJoin, asked->proxy_join, record.proxy_join)) return;
    if (!request.is_trusted()) record = member_record(group, Gid(), McMember{});
    found.add(record);
  };
  for (const auto& place : groups.all()) {
    if (!place) continue;
    const McGroup& group = *place;
    if (request.has(McMemberRecord::kMgid) && asked->mgid != group.record.mgid) continue;
    if (request.has(McMemberRecord::kMlid) && asked->mlid != group.record.mlid) continue;
    if (!find_pkey(request.from.port, group.record.pkey).is_valid()) continue;
    if (!agrees(request, *asked, group.record)) continue;
    if (!selectors_agree(request, *asked, group.record)) continue;
    if (request.has(McMemberRecord::kPortGid)) {
      const auto index = manager.find(asked->port_gid.guid());
      const auto member = index ? group.members.find(*index) : group.members.end();
      if (member == group.members.end()) continue;
      consider(group, manager.node(*index)->port.gid(), member->second);
    } else if (request.is_trusted()) {
      for (const auto& [index, member] : group.members) {
        consider(group, manager.node(index)->port.gid(), member);
      }
    } else {
      // The group itself: as OpenSM keeps it, with the state of a full member.
      consider(group, Gid(), McMember{McMemberRecord::kFullMember, false});
    }
  }
  return found;
}

McMemberRecord broadcast_group(const Partition& partition, std::uint8_t subnet_mtu) {
  McMemberRecord record;
  record.mgid = ipoib::wire::broadcast_gid(partition.pkey.as_full());
  record.qkey = Partition::kDefaultQKey;
  record.mtu = partition.mtu != 0 ? partition.mtu : subnet_mtu;
  record.pkey = partition.pkey.as_full();
  record.rate = partition.rate;
  record.lifetime = kSubnetTimeout;
  record.scope = ipoib::wire::kLinkLocalScope;
  return record;
}

}  // namespace softib::subnet
