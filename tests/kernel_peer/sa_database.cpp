#include "sa_database.hpp"

#include <infiniband/umad.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ipoib/pkey_table.hpp"
#include "wire/mgid.hpp"

namespace ipoib::kernel_peer {

using wire::McMemberRecord;
using wire::PathRecord;
using wire::SaStatus;
using wire::Selector;

namespace {

constexpr std::uint8_t kRate = 3;       // 10 Gb/s
constexpr std::uint8_t kLifetime = 18;  // 4.096 us * 2^18
constexpr std::uint8_t kPortMtu = 5;    // 4096
constexpr std::uint8_t kFullMembers =
    McMemberRecord::kFullMember | McMemberRecord::kSendOnlyFullMember;
constexpr std::uint64_t kMembership =
    McMemberRecord::kMgid | McMemberRecord::kPortGid | McMemberRecord::kJoinState;
constexpr std::uint64_t kCreation = kMembership | McMemberRecord::kQKey |
                                    McMemberRecord::kTrafficClass | McMemberRecord::kPKey |
                                    McMemberRecord::kSl | McMemberRecord::kFlowLabel;

std::optional<SubnetPort> find_port(const Gid* gid, Lid lid) {
  for (const SubnetPort& port : local_ports()) {
    if (gid != nullptr ? port.gid == *gid : port.lid == lid) return port;
  }
  return std::nullopt;
}

/// Whether the values that a joining port names are those of the group.
bool matches(const McMemberRecord& group, const MemberQuery& query) {
  const McMemberRecord& wanted = query.record;
  if (query.has(McMemberRecord::kQKey) && wanted.qkey != group.qkey) return false;
  if (query.has(McMemberRecord::kPKey) && !wanted.pkey.same_partition(group.pkey)) return false;
  if (query.has(McMemberRecord::kSl) && wanted.sl != group.sl) return false;
  if (query.has(McMemberRecord::kMtuSelector | McMemberRecord::kMtu) &&
      !wire::satisfies(wanted.mtu_selector, group.mtu - wanted.mtu)) {
    return false;
  }
  return !query.has(McMemberRecord::kRateSelector | McMemberRecord::kRate) ||
         wanted.rate_selector != Selector::exactly || wanted.rate == group.rate;
}

McMemberRecord of_member(const McMemberRecord& group, const Gid& port, std::uint8_t join_state) {
  McMemberRecord record = group;
  record.port_gid = port;
  record.join_state = join_state;
  return record;
}

}  // namespace

std::vector<SubnetPort> local_ports() {
  std::array<char[UMAD_CA_NAME_LEN], UMAD_MAX_DEVICES> names;
  std::vector<SubnetPort> ports;
  const int count = umad_get_cas_names(names.data(), UMAD_MAX_DEVICES);
  for (int i = 0; i < count; ++i) {
    umad_port_t port{};
    const char* device = names[static_cast<std::size_t>(i)];
    if (umad_get_port(device, 1, &port) != 0) continue;
    SubnetPort& added = ports.emplace_back();
    added.device = device;
    added.gid = Gid(from_network(port.gid_prefix), Guid(from_network(port.port_guid)));
    added.lid = Lid(static_cast<std::uint16_t>(port.base_lid));
    for (unsigned k = 0; k < port.pkeys_size; ++k) added.pkeys.emplace_back(port.pkeys[k]);
    umad_release_port(&port);
  }
  return ports;
}

SaDatabase::SaDatabase(const SubnetSettings& settings, const Gid& own_gid)
    : settings_(settings), own_gid_(own_gid) {
  for (const PKey partition : settings.partitions) {
    McMemberRecord group;
    group.pkey = partition.as_full();
    group.mgid = wire::broadcast_gid(group.pkey);
    group.qkey = settings.qkey;
    group.mlid = free_mlid();
    group.mtu = settings.mtu;
    group.rate = kRate;
    group.lifetime = kLifetime;
    group.scope = wire::kLinkLocalScope;
    groups_[group.mgid] = {.record = group, .permanent = true, .members = {}};
  }
}

Lid SaDatabase::free_mlid() const {
  for (Lid lid = kFirstMulticastLid; is_multicast(lid);
       lid = Lid(static_cast<std::uint16_t>(lid.value() + 1))) {
    if (std::ranges::none_of(groups_, [&](auto& one) { return one.second.record.mlid == lid; })) {
      return lid;
    }
  }
  return Lid();
}

std::optional<McMemberRecord> SaDatabase::new_group(const MemberQuery& query) const {
  McMemberRecord group = of_member(query.record, Gid(), 0);
  group.mlid = free_mlid();
  group.proxy_join = false;
  group.mtu_selector = group.rate_selector = group.lifetime_selector = Selector::exactly;
  if (!query.has(McMemberRecord::kMtu)) group.mtu = settings_.mtu;
  if (!query.has(McMemberRecord::kRate)) group.rate = kRate;
  group.lifetime = kLifetime;
  if (!query.has(McMemberRecord::kScope)) group.scope = group.mgid.bytes()[1] & 0xf;
  if (group.mtu > kPortMtu || group.mlid == Lid()) return std::nullopt;
  return group;
}

SaStatus SaDatabase::join(MemberQuery& query) {
  const McMemberRecord wanted = query.record;
  if (!query.has(kMembership)) return SaStatus::insufficient_components;
  if (!wanted.mgid.is_multicast() || wanted.join_state == 0) return SaStatus::request_invalid;
  const auto port = find_port(&wanted.port_gid, Lid());
  if (!port) {
    return wanted.port_gid.prefix() == own_gid_.prefix() ? SaStatus::request_invalid
                                                         : SaStatus::invalid_gid;
  }
  if (query.has(McMemberRecord::kPKey) && !find_partition(port->pkeys, wanted.pkey)) {
    return SaStatus::request_invalid;
  }
  auto at = groups_.find(wanted.mgid);
  if (at == groups_.end()) {
    if ((wanted.join_state & kFullMembers) == 0) return SaStatus::request_invalid;
    if (!query.has(kCreation)) return SaStatus::insufficient_components;
    const auto created = new_group(query);
    if (!created) return SaStatus::request_invalid;
    at = groups_.emplace(wanted.mgid, Group{.record = *created, .members = {}}).first;
    event_ = {wanted.mgid, wire::trap::kGroupCreated};
  } else if (!matches(at->second.record, query)) {
    return SaStatus::request_invalid;
  }
  std::uint8_t& state = at->second.members[wanted.port_gid];
  state |= wanted.join_state;
  query.record = of_member(at->second.record, wanted.port_gid, state);
  return SaStatus::ok;
}

SaStatus SaDatabase::leave(MemberQuery& query) {
  const McMemberRecord wanted = query.record;
  if (!query.has(kMembership)) return SaStatus::insufficient_components;
  const auto at = groups_.find(wanted.mgid);
  if (at == groups_.end()) return SaStatus::request_invalid;
  auto& [record, permanent, members] = at->second;
  const auto member = members.find(wanted.port_gid);
  if (member == members.end() || (member->second & wanted.join_state) == 0) {
    return SaStatus::request_invalid;
  }
  const auto remaining = static_cast<std::uint8_t>(member->second & ~wanted.join_state);
  member->second = remaining;
  query.record = of_member(record, wanted.port_gid, remaining);
  if (remaining == 0) members.erase(member);
  if (!permanent &&
      std::ranges::none_of(members, [](auto& one) { return (one.second & kFullMembers) != 0; })) {
    groups_.erase(at);
    event_ = {wanted.mgid, wire::trap::kGroupDeleted};
  }
  return SaStatus::ok;
}

std::vector<McMemberRecord> SaDatabase::find_members(const MemberQuery& query) const {
  std::vector<McMemberRecord> found;
  for (const auto& [mgid, group] : groups_) {
    if (query.has(McMemberRecord::kMgid) && mgid != query.record.mgid) continue;
    if (query.has(McMemberRecord::kMlid) && group.record.mlid != query.record.mlid) continue;
    if (!query.has(McMemberRecord::kPortGid)) {
      found.push_back(group.record);
    } else if (const auto member = group.members.find(query.record.port_gid);
               member != group.members.end()) {
      found.push_back(of_member(group.record, member->first, member->second));
    }
  }
  return found;
}

SaStatus SaDatabase::find_path(wire::QueryFor<PathRecord>& query) const {
  const PathRecord& wanted = query.record;
  const bool has_sgid = query.has(PathRecord::kSgid), has_dgid = query.has(PathRecord::kDgid);
  if ((!has_sgid && !query.has(PathRecord::kSlid)) ||
      (!has_dgid && !query.has(PathRecord::kDlid))) {
    return SaStatus::insufficient_components;
  }
  const PKey pkey = query.has(PathRecord::kPKey) ? wanted.pkey : kDefaultPKey;
  const auto source = find_port(has_sgid ? &wanted.sgid : nullptr, wanted.slid);
  const auto source_key = source ? find_partition(source->pkeys, pkey) : std::nullopt;
  if (!source_key) return SaStatus::no_records;

  PathRecord path;
  path.sgid = source->gid;
  path.slid = source->lid;
  path.reversible = true;
  path.pkey = pkey;
  path.mtu = settings_.mtu;
  path.rate = kRate;
  path.lifetime = kLifetime;
  if (has_dgid && wanted.dgid.is_multicast()) {
    const auto at = groups_.find(wanted.dgid);
    if (at == groups_.end()) return SaStatus::no_records;
    const McMemberRecord& group = at->second.record;
    path.dgid = wanted.dgid;
    path.dlid = group.mlid;
    path.mtu = group.mtu;
    path.rate = group.rate;
    path.sl = group.sl;
  } else {
    const auto destination = find_port(has_dgid ? &wanted.dgid : nullptr, wanted.dlid);
    const auto key = destination ? find_partition(destination->pkeys, pkey) : std::nullopt;
    if (!key || !key->pkey.admits(source_key->pkey)) return SaStatus::no_records;
    path.dgid = destination->gid;
    path.dlid = destination->lid;
  }
  query.record = path;
  return SaStatus::ok;
}

SaStatus SaDatabase::subscribe(const wire::InformInfo& info, const Subscriber& from) {
  const auto is_same = [&](const Subscription& one) {
    return one.subscriber.lid == from.lid && one.subscriber.qpn == from.qpn &&
           one.trap == info.trap_number;
  };
  if (!info.subscribe) {
    return std::erase_if(subscriptions_, is_same) != 0 ? SaStatus::ok : SaStatus::request_invalid;
  }
  if (std::ranges::none_of(subscriptions_, is_same)) {
    subscriptions_.push_back({from, info.trap_number});
  }
  return SaStatus::ok;
}

std::vector<Subscriber> SaDatabase::subscribers(std::uint16_t trap) const {
  std::vector<Subscriber> found;
  for (const Subscription& one : subscriptions_) {
    if (one.trap == trap || one.trap == wire::InformInfo::kAnyTrap) found.push_back(one.subscriber);
  }
  return found;
}

std::optional<SaDatabase::GroupEvent> SaDatabase::take_event() {
  return std::exchange(event_, std::nullopt);
}

}  // namespace ipoib::kernel_peer
