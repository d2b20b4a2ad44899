#include "sa/local_sa.hpp"

#include <algorithm>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"
#include "ipoib/roce_gid.hpp"

namespace ipoib::sa {

using wire::McMemberRecord;
using wire::PathRecord;
using wire::SaFailure;

namespace {

/// The default of IP hosts for unicast (RFC 1700).
constexpr std::uint8_t kHopLimit = 64;

SaFailure local_failure(std::string why) {
  return SaFailure(SaFailure::Kind::local, std::move(why));
}

bool receives(const McMemberRecord& record) {
  constexpr auto kReceives = McMemberRecord::kFullMember | McMemberRecord::kNonMember;
  return (record.join_state & kReceives) != 0;
}

}  // namespace

void LocalSa::request(const wire::SaRequest& request, TimePoint now) {
  const auto& [id, query] = request;
  if (const auto* path = std::get_if<wire::PathQuery>(&query)) return request_path(id, *path, now);
  const auto result =
      std::visit(Overloaded{
                     [this](const wire::JoinQuery& wanted) { return join(wanted.record); },
                     [this](const wire::LookupQuery& wanted) -> Result {
                       return group_record(wanted.record);  // nobody removes a member
                     },
                     [this](const wire::LeaveQuery& wanted) { return leave(wanted.record); },
                     [](const auto&) -> Result {
                       return local_failure("a RoCE port has no subnet administrator");
                     },
                 },
                 query);
  responses_.push_back({id, result});
}

void LocalSa::request_path(wire::SaRequestId id, const wire::PathQuery& query, TimePoint now) {
  const Gid& to = query.record.dgid;
  const WaitingPath path{id, query, now + kNeighbourTimeout};
  if (!port_.gid.is_zero() && is_unicast_ipv6(to) && to != port_.gid) neighbours_.resolve(to);
  if (auto result = try_path(path, now)) {
    responses_.push_back({id, std::move(*result)});
  } else if (waiting_.size() < kMaxWaiting) {
    waiting_.push_back(path);
  } else {
    responses_.push_back({id, SaFailure(SaFailure::Kind::overloaded)});
  }
}

void LocalSa::on_neighbours(TimePoint now) {
  std::erase_if(waiting_, [&](const WaitingPath& path) {
    auto result = try_path(path, now);
    if (result) responses_.push_back({path.id, std::move(*result)});
    return result.has_value();
  });
}

TimePoint LocalSa::next_deadline() const {
  return waiting_.empty() ? kNever : waiting_.front().deadline;
}

/// Returns nullopt while the neighbour is unresolved.
std::optional<LocalSa::Result> LocalSa::try_path(const WaitingPath& path, TimePoint now) {
  const Gid& to = path.query.record.dgid;
  if (port_.gid.is_zero()) return local_failure("the port has no GID to send from");
  if (!is_unicast_ipv6(to)) return local_failure(to.to_string() + " is no unicast IPv6 address");
  using State = IpNeighbourPort::State;
  const State state = to == port_.gid ? State::reachable : neighbours_.state(to);
  if (state == State::reachable) return path_record(path.query);
  if (state == State::unknown && now < path.deadline) return std::nullopt;
  return local_failure("the kernel cannot resolve " + to.to_string() +
                       " on the port's network device");
}

LocalSa::Result LocalSa::path_record(const wire::PathQuery& query) const {
  PathRecord path;
  path.dgid = query.record.dgid;
  path.sgid = port_.gid;
  path.hop_limit = kHopLimit;
  path.reversible = true;
  path.numb_path = 1;
  path.pkey = query.record.pkey;
  path.sl = group_.sl;
  path.mtu = port_.mtu;
  return path;
}

LocalSa::Result LocalSa::join(const McMemberRecord& wanted) {
  const Gid& mgid = wanted.mgid;
  if (port_.gid.is_zero()) return local_failure("the port has no GID to join with");
  if (!mgid.is_multicast()) return local_failure(mgid.to_string() + " is no multicast group");
  if (receives(wanted)) {
    if (auto joined = members_.join(mgid); !joined) return local_failure(joined.error().message);
  }
  log_.debug("{}: {}", mgid.to_string(), receives(wanted) ? "joined" : "joined send-only");
  return group_record(wanted);
}

LocalSa::Result LocalSa::leave(const McMemberRecord& wanted) {
  if (receives(wanted)) {
    members_.leave(wanted.mgid);
    log_.debug("{}: left", wanted.mgid.to_string());
  }
  return group_record(wanted);
}

McMemberRecord LocalSa::group_record(const McMemberRecord& wanted) const {
  McMemberRecord record = group_;
  record.mgid = wanted.mgid;
  record.port_gid = port_.gid;
  record.pkey = wanted.pkey;
  record.scope = wanted.scope;
  record.join_state = wanted.join_state;
  record.mtu = std::min(group_.mtu, port_.mtu);
  return record;
}

}  // namespace ipoib::sa
