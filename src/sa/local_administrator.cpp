#include "sa/local_administrator.hpp"

#include <algorithm>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"

namespace ipoib::sa {

using wire::McMemberRecord;
using wire::PathRecord;

namespace {

/// Of unicast, as IP's hosts send it (RFC 1700).
constexpr std::uint8_t kHopLimit = 64;

SaFailure refusal(std::string why) { return {FailureKind::refused_here, {}, std::move(why)}; }

/// An address that an IPv6 packet can have.
bool is_unicast_ipv6(const Gid& gid) {
  const bool is_ipv4 = gid.prefix() == 0 && gid.guid().value() >> 32 == 0xffff;
  return !gid.is_zero() && !gid.is_multicast() && !is_ipv4;
}

bool is_to_receive(const McMemberRecord& record) {
  constexpr auto kReceives = McMemberRecord::kFullMember | McMemberRecord::kNonMember;
  return (record.join_state & kReceives) != 0;
}

}  // namespace

void LocalAdministrator::ask(QueryId id, const Query& query) {
  answers_.push_back({id, std::visit(Overloaded{
                                         [this](const PathQuery& path) { return answer(path); },
                                         [this](const JoinQuery& join) { return answer(join); },
                                         [this](const LeaveQuery& leave) { return answer(leave); },
                                         [](const auto&) -> Result {
                                           return refusal(
                                               "a RoCE port has no subnet administrator to ask");
                                         },
                                     },
                                     query)});
}

LocalAdministrator::Result LocalAdministrator::answer(const PathQuery& query) const {
  const Gid& to = query.record.dgid;
  if (port_.gid.is_zero()) return refusal("the port has no GID to send from");
  if (!is_unicast_ipv6(to)) return refusal(to.to_string() + " is no IPv6 address to send to");
  PathRecord path;
  path.dgid = to;
  path.sgid = port_.gid;
  path.hop_limit = kHopLimit;
  path.reversible = true;
  path.numb_path = 1;
  path.pkey = query.record.pkey;
  path.sl = group_.sl;
  path.mtu = port_.mtu;
  return path;
}

LocalAdministrator::Result LocalAdministrator::answer(const JoinQuery& query) {
  const Gid& mgid = query.record.mgid;
  if (port_.gid.is_zero()) return refusal("the port has no GID to join with");
  if (!mgid.is_multicast()) return refusal(mgid.to_string() + " is no group");
  if (is_to_receive(query.record)) {
    if (auto joined = members_.join(mgid); !joined) return refusal(joined.error().message);
  }
  log_.debug("{}: {}", mgid.to_string(), is_to_receive(query.record) ? "joined" : "to be sent to");
  return record_of(query.record);
}

LocalAdministrator::Result LocalAdministrator::answer(const LeaveQuery& query) {
  if (is_to_receive(query.record)) {
    members_.leave(query.record.mgid);
    log_.debug("{}: left", query.record.mgid.to_string());
  }
  return record_of(query.record);
}

McMemberRecord LocalAdministrator::record_of(const McMemberRecord& asked) const {
  McMemberRecord record = group_;
  record.mgid = asked.mgid;
  record.port_gid = port_.gid;
  record.pkey = asked.pkey;
  record.scope = asked.scope;
  record.join_state = asked.join_state;
  record.mtu = std::min(group_.mtu, port_.mtu);
  return record;
}

}  // namespace ipoib::sa
