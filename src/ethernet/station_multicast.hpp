// Multicast of stations: what they send to groups, the groups that they listen to, and queries.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ethernet/host_messages.hpp"
#include "ethernet/recent_map.hpp"
#include "ethernet/station_groups.hpp"
#include "ethernet/station_table.hpp"

namespace ipoib::ethernet {

class StationMulticast {
 public:
  /// Groups that stations have sent to, and that are remembered.
  static constexpr std::size_t kSentTo = 4096;
  /// Solicited-node groups of addresses that are served, beside those of StationGroups.
  static constexpr std::size_t kSolicitedNodes = 256;
  /// Queries about single groups that one message causes; if it leaves more, all are asked for.
  static constexpr std::size_t kQueriesAtOnce = 16;

  /// `messages` outlives it. Queries have these sources.
  StationMulticast(const HashKey& key, HostMessages& messages, const Ipv6Address& ipv6_source)
      : messages_(messages), ipv6_source_(ipv6_source), groups_(key), sent_to_(kSentTo, key) {}

  enum class Admission : std::uint8_t { pass, over_budget, too_many_groups };

  // --- Stimuli ---------------------------------------------------------------------------------
  /// A multicast or broadcast packet of a station.
  [[nodiscard]] Admission receive(StationBudget& station, const IpAddress& group, ConstBytes packet,
                                  TimePoint now);
  /// What a report or leave message says; the station that has sent it is charged.
  void on_memberships(MacAddress station, const std::vector<wire::GroupMembership>& memberships,
                      TimePoint now);
  /// Asks one station, which says by what it answers that it has an address.
  void ask(MacAddress station);
  /// There are stations to ask.
  void start(TimePoint now) { groups_.start(now); }
  /// IPv6 addresses that are served have changed.
  void on_served() { serves_others_ = true; }
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const { return groups_.next_deadline(); }

  // --- Output ----------------------------------------------------------------------------------
  /// The groups that the link is to be a member of for the stations, if they have changed since the
  /// last call.
  [[nodiscard]] std::optional<std::vector<IpAddress>> take_groups(const StationTable& table);
  /// Groups that are left out: those of reports so far, and solicited-node groups now.
  [[nodiscard]] std::uint64_t left_out() const { return groups_.left_out() + solicited_left_out_; }
  /// The last station that has reported groups beyond its share, since the last call.
  [[nodiscard]] std::optional<GroupsLeftOut> take_left_out() {
    return std::exchange(last_left_out_, std::nullopt);
  }

 private:
  void query(IpFamily family, const std::optional<IpAddress>& group, std::uint16_t delay,
             std::optional<MacAddress> to = {});

  HostMessages& messages_;
  Ipv6Address ipv6_source_;
  StationGroups groups_;
  struct SentTo {};
  RecentMap<IpAddress, SentTo> sent_to_;
  std::uint64_t known_groups_ = 0;  ///< StationGroups::version() of the last take_groups()
  bool serves_others_ = false;      ///< solicited-node groups have changed since then
  std::optional<GroupsLeftOut> last_left_out_;
  std::uint64_t solicited_left_out_ = 0;
};

}  // namespace ipoib::ethernet
