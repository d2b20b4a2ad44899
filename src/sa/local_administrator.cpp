#include "sa/local_administrator.hpp"

#include <algorithm>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"
#include "ipoib/roce_gid.hpp"

namespace ipoib::sa {

using wire::McMemberRecord;
using wire::PathRecord;

namespace {

/// Of unicast, as IP's hosts send it (RFC 1700).
constexpr std::uint8_t kHopLimit = 64;

SaFailure refusal(std::string why) { return {FailureKind::refused_here, {}, std::move(why)}; }

bool is_to_receive(const McMemberRecord& record) {
  constexpr auto kReceives = McMemberRecord::kFullMember | McMemberRecord::kNonMember;
  return (record.join_state & kReceives) != 0;
}

}  // namespace

void LocalAdministrator::ask(QueryId id, const Query& query, TimePoint now) {
  if (const auto* const path = std::get_if<PathQuery>(&query)) return ask_path(id, *path, now);
  const auto result =
      std::visit(Overloaded{
                     [this](const JoinQuery& join) { return answer(join); },
                     [this](const LookupQuery& look) -> Result {
                       return record_of(look.record);  // nobody takes a membership away
                     },
                     [this](const LeaveQuery& leave) { return answer(leave); },
                     [](const auto&) -> Result {
                       return refusal("a RoCE port has no subnet administrator to ask");
                     },
                 },
                 query);
  answers_.push_back({id, result});
}

void LocalAdministrator::ask_path(QueryId id, const PathQuery& query, TimePoint now) {
  const Gid& to = query.record.dgid;
  const Waiting question{id, query, now + kPatience};
  if (!port_.gid.is_zero() && is_unicast_ipv6(to) && to != port_.gid) neighbours_.resolve(to);
  if (auto answer = answer_now(question, now)) {
    answers_.push_back({id, std::move(*answer)});
  } else if (waiting_.size() < kMaxWaiting) {
    waiting_.push_back(question);
  } else {
    answers_.push_back({id, SaFailure{FailureKind::overloaded, {}, {}}});
  }
}

void LocalAdministrator::on_neighbours(TimePoint now) {
  std::erase_if(waiting_, [&](const Waiting& question) {
    auto answer = answer_now(question, now);
    if (answer) answers_.push_back({question.id, std::move(*answer)});
    return answer.has_value();
  });
}

TimePoint LocalAdministrator::next_deadline() const {
  return waiting_.empty() ? kNever : waiting_.front().until;
}

/// Nothing while it has to wait.
std::optional<LocalAdministrator::Result> LocalAdministrator::answer_now(const Waiting& question,
                                                                         TimePoint now) {
  const Gid& to = question.query.record.dgid;
  if (port_.gid.is_zero()) return refusal("the port has no GID to send from");
  if (!is_unicast_ipv6(to)) return refusal(to.to_string() + " is no IPv6 address to send to");
  using State = IpNeighbourPort::State;
  const State state = to == port_.gid ? State::reachable : neighbours_.state(to);
  if (state == State::reachable) return path_record(question.query);
  if (state == State::unknown && now < question.until) return std::nullopt;
  return refusal("nobody answers for " + to.to_string() + " on the port's network device");
}

LocalAdministrator::Result LocalAdministrator::path_record(const PathQuery& query) const {
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
