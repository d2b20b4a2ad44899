// The groups whose datagrams a multicast router on the host needs (RFC 4391, 11).
//
// A router has to receive what any host of the link sends to a group that may be forwarded. It gets
// a list of the groups from the SA, joins each as NonMember, and follows the SA's reports of groups
// created and deleted. Where no reports arrive, it requests the list from time to time.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "link/membership.hpp"
#include "wire/notice.hpp"

namespace ipoib::link {

class RoutedGroups {
 public:
  explicit RoutedGroups(const GroupDependencies& deps) : deps_(deps) {}

  /// Whether programs of the host route multicast of the families on the interface.
  void set_families(bool ipv4, bool ipv6);
  /// The link is up, and its broadcast group has that MGID.
  void on_up(const Gid& broadcast);
  void on_down();
  /// The SA has lost its groups, or may have other ones now.
  void on_reregister();
  /// Returns false if this object has not sent the request.
  [[nodiscard]] bool on_response(const wire::SaResponse& response, TimePoint now);
  /// A group was created or deleted.
  void on_notice(const wire::Notice& notice);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const { return list_at_; }

  /// The groups to be joined, at most Limits::routed_groups; empty unless the host routes
  /// multicast.
  [[nodiscard]] const std::set<Gid>& groups() const { return groups_; }

 private:
  void start();
  void request_list();
  void take_list(const wire::McMemberTable& table);
  void add(const Gid& mgid);
  [[nodiscard]] bool is_routed(const Gid& mgid) const;

  const GroupDependencies& deps_;
  bool ipv4_ = false;
  bool ipv6_ = false;
  std::optional<Gid> broadcast_;  ///< while the link is up
  std::optional<wire::SaRequestId> request_;
  std::map<Gid, bool> reported_;  ///< since the request; true for a group that was created
  unsigned failures_ = 0;
  TimePoint list_at_ = kNever;
  std::set<Gid> groups_;
};

}  // namespace ipoib::link
