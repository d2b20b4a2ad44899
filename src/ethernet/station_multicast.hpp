// Multicast of stations: their packets to groups, the groups that they listen to, and queries.
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
  /// The number of groups that stations have sent to and that are remembered.
  static constexpr std::size_t kSentTo = 4096;
  /// Solicited-node groups of addresses that are served, beside those of StationGroups.
  static constexpr std::size_t kSolicitedNodes = 256;
  /// Queries about single groups that one message causes; if it leaves more groups, one query is
  /// about all.
  static constexpr std::size_t kQueriesAtOnce = 16;

  /// `messages` outlives this object. Queries have these sources.
  StationMulticast(const HashKey& key, HostMessages& messages, const Ipv6Address& ipv6_source)
      : messages_(messages), ipv6_source_(ipv6_source), groups_(key), sent_to_(kSentTo, key) {}

  enum class Admission : std::uint8_t { pass, over_budget, too_many_groups };

  // --- Stimuli ---------------------------------------------------------------------------------
  /// A station has sent a multicast or broadcast packet.
  [[nodiscard]] Admission receive(StationBudget& station, const IpAddress& group, ConstBytes packet,
                                  TimePoint now);
  /// A station has sent a report or leave message with this content, and is charged for it.
  void on_memberships(MacAddress station, const std::vector<wire::GroupMembership>& memberships,
                      TimePoint now);
  /// Asks one station, whose answer shows one of its addresses.
  void ask(MacAddress station);
  /// There are stations to ask.
  void start(TimePoint now) { groups_.start(now); }
  /// The set of served IPv6 addresses has changed.
  void on_served() { serves_others_ = true; }
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const { return groups_.next_deadline(); }

  /// The groups of reports, for the next daemon: its restore() takes them for reports.
  [[nodiscard]] std::vector<SavedGroup> save() const { return groups_.save(); }
  void restore(const SavedGroup& saved, TimePoint now) {
    on_memberships(saved.station, {{saved.group, true}}, now);
  }

  // --- Output ----------------------------------------------------------------------------------
  /// The groups that the link is to be a member of for the stations, if they have changed since the
  /// last call.
  [[nodiscard]] std::optional<std::vector<IpAddress>> take_groups(const StationTable& table);
  /// The number of groups that are left out: those of reports so far, and solicited-node groups
  /// now.
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
