// The groups that the host sends to without being a member, and which one a full table evicts.
//
// At most Limits::group_requests joins are outstanding; further groups wait, so that many new
// groups do not flood the SA. A group is in one of three lists, by its state.
#pragma once

#include <boost/intrusive/list.hpp>
#include <unordered_map>
#include <vector>

#include "ipoib/keyed_hash.hpp"
#include "link/send_group.hpp"

namespace ipoib::link {

class SendGroupTable {
 public:
  /// The key is for the table of groups that programs send to.
  SendGroupTable(const GroupDependencies& deps, ParkingBudget& parking, const HashKey& key)
      : deps_(deps), parking_(parking), groups_(0, KeyedHash(key)) {}
  SendGroupTable(const SendGroupTable&) = delete;
  SendGroupTable& operator=(const SendGroupTable&) = delete;

  /// Joins a group that another daemon on the port has sent to, unless that needs an eviction.
  void restore(const Gid& mgid);
  /// The groups that are joined.
  [[nodiscard]] std::vector<Gid> joined() const;
  /// Whether no join is waiting or outstanding.
  [[nodiscard]] bool is_settled() const { return requests_ == 0 && waiting_.empty(); }
  /// Takes a frame that begins with the encapsulation header. If the group does not exist and the
  /// packet may leave the link, it goes to the all-routers group (RFC 4391, 10).
  void send(const Gid& mgid, Frame&& frame, TimePoint now);
  /// Returns false if none of these groups has sent the request.
  [[nodiscard]] bool on_response(const wire::SaResponse& response, TimePoint now);
  /// The SA reports that the group was created or deleted.
  void on_notice(const Gid& mgid);
  /// The SA has lost all memberships.
  void on_reregister();
  /// The broadcast group has other parameters now.
  void on_new_parameters();
  /// Erases all groups; parked frames are counted as `why`.
  void clear(Counter why, bool leave);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const { return timers_.next(); }
  void append_info(std::vector<GroupInfo>& out) const;

 private:
  using List = boost::intrusive::list<SendGroup, boost::intrusive::base_hook<SendGroupListHook>,
                                      boost::intrusive::constant_time_size<false>>;

  [[nodiscard]] SendGroup* find_or_create(const Gid& mgid);
  [[nodiscard]] Gid all_routers(const Gid& mgid) const;
  [[nodiscard]] std::optional<IpAddress> address_of(const Gid& mgid, ConstBytes frame) const;
  void update_list(SendGroup& group);
  void start_joins();
  void send_to_routers(const Gid& missed, Frame&& frame, TimePoint now);
  template <class Stimulus>
  void erase_if(List& list, Stimulus&& stimulus);
  void erase(SendGroup& group);

  GroupDependencies deps_;
  ParkingBudget& parking_;
  FailureCount failures_;
  std::unordered_map<Gid, SendGroup, KeyedHash> groups_;
  cache::TimerQueue<SendGroup> timers_;
  List waiting_;              ///< oldest first
  List outstanding_;          ///< Joining or Confirming
  List known_;                ///< Ready or Missing, the oldest first
  std::size_t requests_ = 0;  ///< outstanding
};

}  // namespace ipoib::link
