// All multicast groups of a link: those that it receives, for itself, the host, stations and a
// multicast router, and those that it only sends to.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/host_view.hpp"
#include "link/multicast_output.hpp"
#include "link/routed_groups.hpp"

namespace ipoib::link {

class Memberships {
 public:
  /// What a response of the SA was for.
  enum class Response {
    other,             ///< for no group that the link receives
    group,             ///< for one of those, or for nobody
    broadcast_joined,  ///< the link has become or remained a member of the broadcast group
  };

  /// All arguments outlive this object. The key is for tables whose keys programs choose.
  Memberships(const GroupDependencies& deps, ParkingBudget& parking, const HashKey& key);
  Memberships(const Memberships&) = delete;
  Memberships& operator=(const Memberships&) = delete;

  [[nodiscard]] GroupTable& groups() { return groups_; }
  [[nodiscard]] const Group& broadcast() const { return groups_.broadcast(); }
  [[nodiscard]] MulticastOutput& output() { return output_; }

  // --- Stimuli ---------------------------------------------------------------------------------
  /// The port has this LID, given without its path bits.
  void on_lid(Lid lid) { groups_.on_lid(lid); }
  void join_broadcast();
  /// The broadcast group is joined; attaches the queue pair to it.
  void attach_broadcast() { groups_.broadcast().attach(); }
  /// Joins those of the other groups that have not been started.
  void join_others(TimePoint now) { groups_.join_others(now); }
  /// The broadcast group has other parameters now.
  void on_new_parameters(TimePoint now);
  /// The link is up.
  void on_up() { routed_.on_up(broadcast().mgid()); }
  /// The port has lost all memberships; leaves the groups first if the port can send.
  void go_down(bool can_leave, TimePoint now);
  /// The link cannot use the broadcast group that it has joined; `why` is for the operator.
  void on_setup_failed(std::string_view why, TimePoint now);
  void on_attach_failed(const Gid& mgid, TimePoint now) { groups_.on_attach_failed(mgid, now); }
  void on_reregister();
  /// A group was created or deleted (traps 66 and 67).
  void on_notice(const wire::Notice& notice, TimePoint now);
  /// Unless the response is for the broadcast group, the queue pair is attached to a group that it
  /// is for.
  [[nodiscard]] Response on_response(const wire::SaResponse& response, TimePoint now);
  /// Takes the groups that the host has joined, and whether it routes multicast.
  void on_host_changed(const HostView& view, TimePoint now);
  /// The groups that stations behind the host listen to.
  void set_station_groups(std::vector<IpAddress> groups, TimePoint now);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const {
    return std::min(
        {groups_.next_deadline(), send_groups_.next_deadline(), routed_.next_deadline()});
  }

  // --- State -----------------------------------------------------------------------------------
  [[nodiscard]] bool all_nodes_settled() const { return groups_.all_nodes_settled(); }
  /// Whether each group was joined or refused.
  [[nodiscard]] bool is_settled() const {
    return groups_.all_settled() && send_groups_.is_settled();
  }
  /// See GroupTable::waiting_for().
  [[nodiscard]] std::string waiting_for() const { return groups_.waiting_for(); }
  [[nodiscard]] std::vector<GroupInfo> info() const;
  /// Sets the address of the IP group if it is known.
  void add_address(GroupInfo& group) const { groups_.add_address(group); }

  // --- Handover --------------------------------------------------------------------------------
  /// The groups that are joined to send to them.
  [[nodiscard]] std::vector<Gid> save() const { return send_groups_.joined(); }
  /// Joins what another link has saved, except groups of other links.
  void restore(const std::vector<Gid>& send_groups);

 private:
  void update_host_groups(TimePoint now);
  void update_routed_groups(TimePoint now) { groups_.set_routed_groups(routed_.groups(), now); }

  const GroupDependencies deps_;
  std::vector<IpAddress> host_groups_;
  std::vector<IpAddress> station_groups_;
  GroupTable groups_;
  RoutedGroups routed_;
  SendGroupTable send_groups_;
  MulticastOutput output_;
};

}  // namespace ipoib::link
