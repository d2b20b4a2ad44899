// Order of the checks of a join: components, PortGID, partitions of port and requester; whether a
// new group may be created, or the request agrees with an existing one; the port's capabilities;
// who may change the membership.
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

/// Checks for the required components and valid values.
SaStatus check_components(const SaRequest& request, const McMemberRecord& wanted) {
  if (!request.has(kJoinComponents)) return SaStatus::insufficient_components;
  if (request.has(kMtuComponents) && !is_mtu(wanted.mtu)) return SaStatus::request_invalid;
  if (request.has(kRateComponents) && !is_rate(wanted.rate)) return SaStatus::request_invalid;
  if (wanted.port_gid.prefix() != Gid::kLinkLocalPrefix) return SaStatus::invalid_gid;
  return SaStatus::ok;
}

/// Whether the given components are equal to the group's.
bool agrees(const SaRequest& request, const McMemberRecord& wanted, const McMemberRecord& group) {
  if (request.has(McMemberRecord::kQKey) && wanted.qkey != group.qkey) return false;
  if (request.has(McMemberRecord::kPKey) && !wanted.pkey.admits(group.pkey)) return false;
  const bool same_class = wanted.traffic_class == group.traffic_class;
  if (request.has(McMemberRecord::kTrafficClass) && !same_class) return false;
  if (request.has(McMemberRecord::kSl) && wanted.sl != group.sl) return false;
  const bool same_flow = wanted.flow_label == group.flow_label;
  if (request.has(McMemberRecord::kFlowLabel) && !same_flow) return false;
  return !request.has(McMemberRecord::kHopLimit) || wanted.hop_limit == group.hop_limit;
}

bool selectors_agree(const SaRequest& request, const McMemberRecord& wanted,
                     const McMemberRecord& group) {
  if (request.has(McMemberRecord::kMtuSelector) &&
      !mtu_satisfies(wanted.mtu_selector, wanted.mtu, group.mtu)) {
    return false;
  }
  return !request.has(McMemberRecord::kRateSelector) ||
         rate_satisfies(wanted.rate_selector, wanted.rate, group.rate);
}

/// The MTU of a new group; 0 if none satisfies the request.
std::uint8_t new_mtu(const SaRequest& request, const McMemberRecord& wanted, std::uint8_t port) {
  if (!request.has(kMtuComponents)) return port;
  if (wanted.mtu_selector == Selector::exactly) return wanted.mtu;
  if (mtu_satisfies(wanted.mtu_selector, wanted.mtu, port)) return port;
  const bool is_less = wanted.mtu_selector == Selector::less;
  return is_less ? static_cast<std::uint8_t>(wanted.mtu - 1) : std::uint8_t{0};
}

std::uint8_t new_rate(const SaRequest& request, const McMemberRecord& wanted, std::uint8_t port) {
  if (!request.has(kRateComponents)) return port;
  if (wanted.rate_selector == Selector::exactly) return wanted.rate;
  if (rate_satisfies(wanted.rate_selector, wanted.rate, port)) return port;
  return wanted.rate_selector == Selector::less ? slower_rate(wanted.rate) : std::uint8_t{0};
}

/// "The multicast GID is invalid if ... it uses reserved flags, or the SA's signature 0xA01B with
/// link-local scope" (IBA 15.2.5.17.2, o15-0.1.5). MGIDs of IPoIB are not checked.
bool is_valid_mgid(const Gid& mgid) {
  if (!mgid.is_multicast()) return false;
  if (ipoib::wire::is_ipoib_mgid(mgid)) return true;
  const auto& bytes = mgid.bytes();
  const bool reserved_flags = (bytes[1] & 0xe0) != 0;
  const bool sa_signature = bytes[2] == 0xa0 && bytes[3] == 0x1b;
  return !reserved_flags && !(sa_signature && (bytes[1] & 0x0f) == ipoib::wire::kLinkLocalScope);
}

/// An IPoIB group requires the link's broadcast group, with the same parameters (RFC 4391, 4).
bool fits_broadcast_group(const SaRequest& request, const McMemberRecord& wanted,
                          const MulticastGroups& groups) {
  if (!ipoib::wire::is_ipoib_mgid(wanted.mgid)) return true;
  Gid::Bytes bytes = wanted.mgid.bytes();
  ipoib::store_be(bytes.data() + 2, ipoib::wire::kIpv4Signature);
  std::fill(bytes.begin() + 6, bytes.begin() + 12, std::uint8_t{0});
  std::fill(bytes.begin() + 12, bytes.end(), std::uint8_t{0xff});
  const Gid broadcast(bytes);
  if (broadcast == wanted.mgid) return true;
  const McGroup* group = groups.find(broadcast);
  return group != nullptr && agrees(request, wanted, group->record);
}

/// Chooses an MGID: | FF | 1 scope | A01B | subnet prefix 64 | - | number |.
std::optional<Gid> choose_mgid(const SaRequest& request, const McMemberRecord& wanted,
                               const MulticastGroups& groups) {
  const std::uint8_t scope =
      request.has(McMemberRecord::kScope) ? wanted.scope : ipoib::wire::kLinkLocalScope;
  for (std::uint32_t number = 0; number <= kMaxGroups; ++number) {
    Gid::Bytes bytes{0xff, static_cast<std::uint8_t>(0x10 | scope), 0xa0, 0x1b};
    ipoib::store_be(bytes.data() + 4, Gid::kLinkLocalPrefix);
    ipoib::store_be(bytes.data() + 12, number);
    if (groups.find(Gid(bytes)) == nullptr) return Gid(bytes);
  }
  return std::nullopt;
}

/// The record of a new group, or the error status.
struct Draft {
  SaStatus status = SaStatus::ok;
  McMemberRecord record;
};

Draft draft_group(const SaRequest& request, const McMemberRecord& wanted, const Node& port,
                  const MulticastGroups& groups) {
  if ((wanted.join_state & kFullMemberStates) == 0) return {SaStatus::request_invalid, {}};
  if (!request.has(kCreateComponents)) return {SaStatus::insufficient_components, {}};
  Draft draft;
  draft.record = wanted;
  if (wanted.mgid.is_zero()) {
    const auto mgid = choose_mgid(request, wanted, groups);
    if (!mgid) return {SaStatus::no_resources, {}};
    draft.record.mgid = *mgid;
  } else if (!is_valid_mgid(wanted.mgid) || !fits_broadcast_group(request, wanted, groups)) {
    return {SaStatus::request_invalid, {}};
  }
  draft.record.mtu = new_mtu(request, wanted, port.port.mtu);
  draft.record.rate = new_rate(request, wanted, port_rate(port.port));
  if (!is_mtu(draft.record.mtu) || !is_rate(draft.record.rate)) {
    return {SaStatus::request_invalid, {}};
  }
  if (!request.has(McMemberRecord::kLifetime)) draft.record.lifetime = kSubnetTimeout;
  draft.record.mtu_selector = draft.record.rate_selector = draft.record.lifetime_selector =
      Selector::exactly;
  draft.record.scope = draft.record.mgid.bytes()[1] & 0x0f;
  return draft;
}

/// Checks the port and the request against the parameters of the group.
SaStatus check_port(const SaRequest& request, const McMemberRecord& wanted, const Node& port,
                    const McMemberRecord& group) {
  const bool is_capable =
      port.port.mtu >= group.mtu && compare_rates(port_rate(port.port), group.rate) >= 0;
  if (!selectors_agree(request, wanted, group) || !is_capable) return SaStatus::request_invalid;
  if (wanted.join_state == 0) return SaStatus::request_invalid;
  if (!find_pkey(port.port, group.pkey).is_valid()) return SaStatus::request_invalid;
  return SaStatus::ok;
}

/// Only the port itself may change a membership that it created. Any port in the partition may
/// change one created by proxy (IBA 15.2.5.17.4, o15-0.2.1).
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

SaResponse single(const McMemberRecord& record) {
  RecordTable table(McMemberRecord::kSize);
  table.add(record);
  return table;
}

}  // namespace

SaResponse join_group(const SaRequest& request, const SubnetManager& manager,
                      MulticastGroups& groups) {
  const auto wanted = McMemberRecord::parse(request.record);
  if (!wanted) return SaStatus::request_invalid;
  if (const auto status = check_components(request, *wanted); status != SaStatus::ok) return status;
  const auto index = manager.find(wanted->port_gid.guid());
  const Node* port = manager.node(index);
  if (port == nullptr || port->port.state == PortState::down) return SaStatus::request_invalid;
  const bool is_proxy = *index != request.requester;
  if (!shared_pkey(request.from, *port).is_valid()) return SaStatus::request_invalid;
  const bool has_pkey = request.has(McMemberRecord::kPKey);
  if (has_pkey && !wanted->pkey.is_valid()) return SaStatus::request_invalid;

  McGroup* group = groups.find(wanted->mgid);
  Draft draft;
  if (group != nullptr) {
    if (!agrees(request, *wanted, group->record)) return SaStatus::request_invalid;
    draft.record = group->record;
  } else {
    draft = draft_group(request, *wanted, *port, groups);
    if (draft.status != SaStatus::ok) return draft.status;
  }
  const auto status = check_port(request, *wanted, *port, draft.record);
  if (status != SaStatus::ok) return status;
  if (group != nullptr && !may_modify(request, *group, *index)) return SaStatus::request_invalid;
  if (group == nullptr) group = groups.create(draft.record, request.requester);
  if (group == nullptr) return SaStatus::no_resources;

  const std::uint8_t states = groups.join(*group, *index, wanted->join_state, is_proxy);
  return single(member_record(*group, wanted->port_gid, {states, wanted->proxy_join}));
}

SaResponse leave_group(const SaRequest& request, const SubnetManager& manager,
                       MulticastGroups& groups) {
  const auto wanted = McMemberRecord::parse(request.record);
  if (!wanted) return SaStatus::request_invalid;
  if (const auto status = check_components(request, *wanted); status != SaStatus::ok) return status;
  const auto index = manager.find(wanted->port_gid.guid());
  McGroup* group = groups.find(wanted->mgid);
  if (!index || group == nullptr) return SaStatus::request_invalid;
  // "At least one bit in common, and none that is not set in the stored record" (o15-0.1.14).
  const auto member = group->members.find(*index);
  const bool is_member = member != group->members.end() && wanted->join_state != 0 &&
                         (wanted->join_state & ~member->second.join_state & kAllStates) == 0;
  if (!is_member || !may_modify(request, *group, *index)) return SaStatus::request_invalid;
  McMemberRecord response = *wanted;
  response.scope = group->record.scope;
  response.join_state = groups.leave(*group, *index, wanted->join_state);
  return single(response);
}

SaResponse query_members(const SaRequest& request, const SubnetManager& manager,
                         const MulticastGroups& groups) {
  const auto wanted = McMemberRecord::parse(request.record);
  if (!wanted) return SaStatus::request_invalid;
  RecordTable found(McMemberRecord::kSize);
  const auto add = [&](const McGroup& group, const Gid& port_gid, const McMember& member) {
    McMemberRecord record = member_record(group, port_gid, member);
    const auto differs = [&](std::uint64_t component, auto expected, auto actual) {
      return request.has(component) && expected != actual;
    };
    if (differs(McMemberRecord::kScope, wanted->scope, record.scope)) return;
    if (differs(McMemberRecord::kJoinState, wanted->join_state, record.join_state)) return;
    if (differs(McMemberRecord::kProxyJoin, wanted->proxy_join, record.proxy_join)) return;
    if (!request.is_trusted()) record = member_record(group, Gid(), McMember{});
    found.add(record);
  };
  for (const auto& slot : groups.all()) {
    if (!slot) continue;
    const McGroup& group = *slot;
    if (request.has(McMemberRecord::kMgid) && wanted->mgid != group.record.mgid) continue;
    if (request.has(McMemberRecord::kMlid) && wanted->mlid != group.record.mlid) continue;
    if (!find_pkey(request.from.port, group.record.pkey).is_valid()) continue;
    if (!agrees(request, *wanted, group.record)) continue;
    if (!selectors_agree(request, *wanted, group.record)) continue;
    if (request.has(McMemberRecord::kPortGid)) {
      const auto index = manager.find(wanted->port_gid.guid());
      const auto member = index ? group.members.find(*index) : group.members.end();
      if (member == group.members.end()) continue;
      add(group, manager.node(*index)->port.gid(), member->second);
    } else if (request.is_trusted()) {
      for (const auto& [index, member] : group.members) {
        add(group, manager.node(index)->port.gid(), member);
      }
    } else {
      // The group itself, with the join state of a full member, like OpenSM.
      add(group, Gid(), McMember{McMemberRecord::kFullMember, false});
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
