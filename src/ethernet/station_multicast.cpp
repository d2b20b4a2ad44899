#include "ethernet/station_multicast.hpp"

#include <set>

#include "ethernet/neighbour_macs.hpp"
#include "wire/group_membership.hpp"

namespace ipoib::ethernet {
namespace {

/// The source of queries: the dummy address of RFC 7600, 4.8. With 0.0.0.0 (RFC 4541, 2.1.1) Linux
/// bridges would forward no multicast to the TAP.
constexpr IpAddress kQuerier = Ipv4Address(0xc0000008);

constexpr std::uint16_t kAfterLeave =
    10;  ///< tenths of a second to answer, StationGroups::kLastMember
constexpr std::uint16_t kAtOnce = 1;

}  // namespace

/// Sending to a new group takes requests to the SA, and a station may send to random groups, so
/// this is limited.
StationMulticast::Admission StationMulticast::receive(StationBudget& station,
                                                      const IpAddress& group, ConstBytes packet,
                                                      TimePoint now) {
  const bool is_report = wire::changes_host_groups(packet);
  const bool is_multicast = std::visit([](const auto& any) { return any.is_multicast(); }, group);
  if ((is_report || !is_multicast) && !station.broadcasts.take(now)) return Admission::over_budget;
  if (is_report) on_memberships(station.mac(), wire::group_memberships(packet), now);
  if (!is_multicast || sent_to_.find(group) != nullptr || groups_.contains(group)) {
    return Admission::pass;
  }
  if (!station.groups.take(now)) return Admission::too_many_groups;
  sent_to_.set(group, {});
  return Admission::pass;
}

void StationMulticast::on_memberships(MacAddress station,
                                      const std::vector<wire::GroupMembership>& memberships,
                                      TimePoint now) {
  const auto outcome = groups_.on_memberships(station, memberships, now);
  if (outcome.left_out > 0) last_left_out_ = GroupsLeftOut{station, outcome.left_out};
  if (outcome.left.size() > kQueriesAtOnce) {
    return query(family(outcome.left[0]), std::nullopt, kAfterLeave);
  }
  for (const IpAddress& left : outcome.left) query(family(left), left, kAfterLeave);
}

void StationMulticast::query(IpFamily family, const std::optional<IpAddress>& group,
                             std::uint16_t delay, std::optional<MacAddress> to) {
  const IpAddress source = family == IpFamily::v4 ? kQuerier : IpAddress(ipv6_source_);
  messages_.query({.source = source, .group = group, .delay = delay}, NeighbourMacs::kOfOthers, to);
}

void StationMulticast::ask(MacAddress station) {
  for (const IpFamily family : {IpFamily::v4, IpFamily::v6}) {
    query(family, std::nullopt, kAtOnce, station);
  }
}

void StationMulticast::tick(TimePoint now) {
  groups_.tick(now);
  if (!groups_.take_query(now)) return;
  const std::uint16_t delay = wire::GroupQuery{}.delay;
  for (const IpFamily family : {IpFamily::v4, IpFamily::v6}) query(family, std::nullopt, delay);
}

/// Solicited-node groups come first: without them, nobody finds the address.
std::optional<std::vector<IpAddress>> StationMulticast::take_groups(const StationTable& table) {
  if (known_groups_ == groups_.version() && !serves_others_) return std::nullopt;
  known_groups_ = groups_.version();
  serves_others_ = false;
  std::set<IpAddress> all;
  solicited_left_out_ = 0;
  std::uint32_t slot = 0;
  while (const StationAddress* const entry = table.next(slot)) {
    const auto* const ipv6 = std::get_if<Ipv6Address>(&entry->address());
    if (ipv6 == nullptr || !entry->is_served()) continue;
    const IpAddress group = ipv6->solicited_node();
    if (all.size() < kSolicitedNodes) {
      all.insert(group);
    } else if (!all.contains(group)) {
      ++solicited_left_out_;
    }
  }
  const std::vector<IpAddress> reported = groups_.all();
  all.insert(reported.begin(), reported.end());
  return std::vector<IpAddress>(all.begin(), all.end());
}

}  // namespace ipoib::ethernet
