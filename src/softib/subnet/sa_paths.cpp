#include "softib/subnet/sa_paths.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "softib/subnet/node_attributes.hpp"
#include "softib/subnet/rates.hpp"
#include "wire/path_record.hpp"

namespace softib::subnet {

namespace {

using ipoib::wire::PathRecord;
using ipoib::wire::SaStatus;
using ipoib::wire::Selector;

struct Query {
  const SaRequest& request;
  const PathRecord& wanted;

  [[nodiscard]] bool has(std::uint64_t components) const { return request.has(components); }
};

/// The MTU of a path that supports up to `have`; nullopt if it does not satisfy the query. A "less
/// than" selector is satisfied with a smaller MTU.
std::optional<std::uint8_t> choose_mtu(const Query& query, std::uint8_t have) {
  if (!query.has(PathRecord::kMtuSelector | PathRecord::kMtu)) return have;
  const std::uint8_t wanted = query.wanted.mtu;
  if (query.wanted.mtu_selector == Selector::less && have >= wanted) {
    return wanted > 1 ? std::optional<std::uint8_t>(wanted - 1) : std::nullopt;
  }
  if (query.wanted.mtu_selector == Selector::exactly) {
    return have >= wanted ? std::optional(wanted) : std::nullopt;
  }
  return mtu_satisfies(query.wanted.mtu_selector, wanted, have) ? std::optional(have)
                                                                : std::nullopt;
}

std::optional<std::uint8_t> choose_rate(const Query& query, std::uint8_t have) {
  if (!query.has(PathRecord::kRateSelector | PathRecord::kRate)) return have;
  const std::uint8_t wanted = query.wanted.rate;
  if (query.wanted.rate_selector == Selector::less && compare_rates(have, wanted) >= 0) {
    const std::uint8_t slower = slower_rate(wanted);
    return slower != 0 ? std::optional(slower) : std::nullopt;
  }
  return rate_satisfies(query.wanted.rate_selector, wanted, have) ? std::optional(have)
                                                                  : std::nullopt;
}

std::optional<std::uint8_t> choose_lifetime(const Query& query, std::uint8_t have) {
  if (!query.has(PathRecord::kLifetimeSelector | PathRecord::kLifetime)) return have;
  const std::uint8_t wanted = query.wanted.lifetime;
  if (query.wanted.lifetime_selector == Selector::less && have >= wanted) {
    return wanted > 1 ? std::optional<std::uint8_t>(wanted - 1) : std::nullopt;
  }
  if (query.wanted.lifetime_selector == Selector::exactly) {
    return have >= wanted ? std::optional(wanted) : std::nullopt;
  }
  return ipoib::wire::satisfies(query.wanted.lifetime_selector, have - wanted) ? std::optional(have)
                                                                               : std::nullopt;
}

std::uint8_t slower_of(std::uint8_t a, std::uint8_t b) { return compare_rates(a, b) < 0 ? a : b; }

/// What the cables of the path between two ports carry.
struct Capacity {
  std::uint8_t mtu;   ///< IBA code
  std::uint8_t rate;  ///< IBA code
};

/// Returns nullopt if there is no path.
std::optional<Capacity> capacity(const Node& from, const Node& to, const Switches& switches) {
  Capacity least{std::min(from.port.mtu, to.port.mtu),
                 slower_of(port_rate(from.port), port_rate(to.port))};
  if (&from == &to) return least;
  const auto way = follow(switches, from.switch_index.value_or(from.attachment.switch_index),
                          to.port.lid, false, [&](SwitchIndex at, SwitchPort exit) {
                            const ExternalPort& cable = switches[at].ports[exit];
                            PortAttributes port;
                            port.width = cable.width;
                            port.speed = cable.speed;
                            least.mtu = std::min(least.mtu, cable.mtu);
                            least.rate = slower_of(least.rate, port_rate(port));
                          });
  const bool arrives = way.end == (to.switch_index ? RouteEnd::switch_ : RouteEnd::node);
  return arrives ? std::optional(least) : std::nullopt;
}

/// The values common to all paths between two ports; nullopt if they do not satisfy the query.
std::optional<PathRecord> route(const Query& query, const Node& from, const Node& to,
                                const Switches& switches) {
  const bool is_loopback = &from == &to;
  const auto least = capacity(from, to, switches);
  if (!least) return std::nullopt;
  const auto mtu = choose_mtu(query, least->mtu);
  const auto rate = choose_rate(query, least->rate);
  // "For loopback paths, PacketLifeTime shall be zero" (IBA 15.2.5.16).
  const auto lifetime = choose_lifetime(query, is_loopback ? std::uint8_t{0} : kSubnetTimeout);
  const PKey only = query.has(PathRecord::kPKey) ? query.wanted.pkey : PKey();
  const PKey shared = shared_pkey(from, to, only);
  const bool wants_invalid_pkey = query.has(PathRecord::kPKey) && !only.is_valid();
  if (!mtu || !rate || !lifetime || !shared.is_valid() || wants_invalid_pkey) return std::nullopt;

  PathRecord record;
  record.sgid = from.port.gid();
  record.dgid = to.port.gid();
  record.reversible = true;
  record.pkey = only.is_valid() ? only : shared;
  record.sl = query.has(PathRecord::kSl) ? query.wanted.sl : ServiceLevel(0);
  record.mtu = *mtu;
  record.rate = *rate;
  record.lifetime = *lifetime;
  return record;
}

/// One end of the requested paths, given by GID, LID, both or neither.
struct End {
  bool by_gid;
  bool by_lid;
  Gid gid;
  Lid lid;

  [[nodiscard]] bool is(const Node& node) const {
    return (!by_gid || node.port.gid() == gid) && (!by_lid || node.port.has(lid));
  }
};

/// The LIDs of one end of a path.
struct Lids {
  Lid first;
  unsigned count;

  Lids(const End& end, const Node& node)
      : first(end.by_lid ? end.lid : node.port.lid), count(end.by_lid ? 1U : 1U << node.port.lmc) {}
  [[nodiscard]] Lid operator[](unsigned i) const {
    return Lid(static_cast<std::uint16_t>(first.value() + i));
  }
};

/// Adds at most `limit` paths of one route. Paths that differ in both LIDs come first, like OpenSM.
void add_paths(PathRecord record, const Lids& from, const Lids& to, std::size_t limit,
               RecordTable& found) {
  const auto add = [&](unsigned i, unsigned j) {
    if (limit == 0) return;
    --limit;
    record.slid = from[i];
    record.dlid = to[j];
    found.add(record);
  };
  const unsigned disjoint = std::min(from.count, to.count);
  for (unsigned i = 0; i < disjoint; ++i) add(i, i);
  for (unsigned i = 0; i < from.count && limit != 0; ++i) {
    for (unsigned j = 0; j < to.count; ++j) {
      if (i != j) add(i, j);
    }
  }
}

/// The ports at one end that are visible to the requester. Avoids a search of all ports if the
/// query has a GID or LID, as almost all have.
std::vector<const Node*> find_ends(const Query& query, const End& end,
                                   const SubnetManager& manager) {
  std::vector<const Node*> found;
  const auto add = [&](const Node* node) {
    const bool is_up = node != nullptr && node->port.state != PortState::down;
    if (!is_up || !end.is(*node)) return;
    if (shared_pkey(query.request.from, *node).is_valid()) found.push_back(node);
  };
  if (end.by_gid || end.by_lid) {
    const auto index = end.by_gid ? manager.find(end.gid.guid()) : manager.node_at(end.lid);
    const Switch* const at =
        end.by_gid ? manager.switches().find(end.gid.guid()) : manager.switch_at(end.lid);
    add(index ? manager.node(*index) : at != nullptr ? &at->node : nullptr);
  } else {
    for (const Node* node : manager.end_ports()) add(node);
  }
  return found;
}

SaResponse unicast_paths(const Query& query, const SubnetManager& manager) {
  const PathRecord& wanted = query.wanted;
  RecordTable found(PathRecord::kSize);
  // SubnAdmGet() returns one path and ignores NumbPath, which applies to each pair of ports.
  const bool is_table = query.request.is_table();
  std::size_t limit = is_table ? std::numeric_limits<std::size_t>::max() : 1;
  if (is_table && query.has(PathRecord::kNumbPath)) limit = wanted.numb_path;
  const End source{query.has(PathRecord::kSgid), query.has(PathRecord::kSlid), wanted.sgid,
                   wanted.slid};
  const End target{query.has(PathRecord::kDgid), query.has(PathRecord::kDlid), wanted.dgid,
                   wanted.dlid};
  const auto targets = find_ends(query, target, manager);
  for (const Node* from : find_ends(query, source, manager)) {
    for (const Node* to : targets) {
      const auto record = route(query, *from, *to, manager.switches());
      if (record) add_paths(*record, Lids(source, *from), Lids(target, *to), limit, found);
      if (found.is_full() || (record && !is_table)) return found;
    }
  }
  return found;
}

/// SGID and SLID, if given, must belong to a member; other components must be equal to the group's.
bool group_matches(const Query& query, const SubnetManager& manager, const McGroup& group) {
  const auto& record = group.record;
  const PathRecord& wanted = query.wanted;
  if (query.has(PathRecord::kDlid) && wanted.dlid != record.mlid) return false;
  if (query.has(PathRecord::kSgid)) {
    const auto node = manager.find(wanted.sgid.guid());
    if (!node || !group.members.contains(*node)) return false;
  }
  if (query.has(PathRecord::kSlid)) {
    const auto node = manager.node_at(wanted.slid);
    if (!node || !group.members.contains(*node)) return false;
  }
  if (query.has(PathRecord::kPKey) && wanted.pkey != record.pkey) return false;
  if (query.has(PathRecord::kSl) && wanted.sl != record.sl) return false;
  if (query.has(PathRecord::kFlowLabel) && wanted.flow_label != record.flow_label) return false;
  if (query.has(PathRecord::kHopLimit) && wanted.hop_limit != record.hop_limit) return false;
  return !query.has(PathRecord::kTrafficClass) || wanted.traffic_class == record.traffic_class;
}

SaResponse multicast_path(const Query& query, const SubnetManager& manager,
                          const MulticastGroups& groups) {
  RecordTable found(PathRecord::kSize);
  const McGroup* group = groups.find(query.wanted.dgid);
  if (group == nullptr || !group_matches(query, manager, *group)) return found;
  PathRecord record = query.wanted;
  record.dlid = group->record.mlid;
  record.flow_label = group->record.flow_label;
  record.hop_limit = group->record.hop_limit;
  record.traffic_class = group->record.traffic_class;
  record.reversible = false;
  record.numb_path = 1;
  record.pkey = group->record.pkey;
  record.qos_class = 0;
  record.sl = group->record.sl;
  record.mtu_selector = record.rate_selector = record.lifetime_selector = Selector::exactly;
  record.mtu = group->record.mtu;
  record.rate = group->record.rate;
  record.lifetime = group->record.lifetime;
  found.add(record);
  return found;
}

}  // namespace

SaResponse query_paths(const SaRequest& request, const SubnetManager& manager,
                       const MulticastGroups& groups) {
  const auto wanted = PathRecord::parse(request.record);
  if (!wanted) return SaStatus::request_invalid;
  const Query query{request, *wanted};
  const bool bad_rate =
      query.has(PathRecord::kRateSelector | PathRecord::kRate) && !is_rate(wanted->rate);
  const bool bad_mtu =
      query.has(PathRecord::kMtuSelector | PathRecord::kMtu) && !is_mtu(wanted->mtu);
  if (bad_rate || bad_mtu) return SaStatus::request_invalid;
  if (query.has(PathRecord::kDgid) && wanted->dgid.is_multicast()) {
    return multicast_path(query, manager, groups);
  }
  // GID and LID of an end must belong to the same port (IBA 15.2.5.16).
  const auto disagree = [&](std::uint64_t components, const Gid& gid, Lid lid) {
    if (!query.has(components)) return false;
    const auto by_gid = manager.find(gid.guid());
    const auto by_lid = manager.node_at(lid);
    return by_gid && by_lid && *by_gid != *by_lid;
  };
  if (disagree(PathRecord::kSgid | PathRecord::kSlid, wanted->sgid, wanted->slid) ||
      disagree(PathRecord::kDgid | PathRecord::kDlid, wanted->dgid, wanted->dlid)) {
    return SaStatus::request_invalid;
  }
  return unicast_paths(query, manager);
}

}  // namespace softib::subnet
