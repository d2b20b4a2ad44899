// The groups that the host sends to without being in them; who goes when there are too many.
//
// At most Limits::group_requests joins are outstanding; further groups wait, so that many new
// groups do not flood the SA. A group is in one of three lists, by its state.
#pragma once

#include <boost/intrusive/list.hpp>
#include <unordered_map>
#include <vector>

#include "link/send_group.hpp"

namespace ipoib::link {

class SendGroupTable {
 public:
  SendGroupTable(const GroupDependencies& env, ParkingBudget& parking)
      : env_(env), parking_(parking) {}
  SendGroupTable(const SendGroupTable&) = delete;
  SendGroupTable& operator=(const SendGroupTable&) = delete;

  /// Takes a frame that begins with the encapsulation header. `routable`: where there is no such
  /// group, it goes to the group of all routers (RFC 4391, 10).
  void send(const Gid& mgid, Frame&& frame, bool routable, TimePoint now);
  /// Returns false if none of these groups has sent the request.
  [[nodiscard]] bool on_response(const wire::SaResponse& response, TimePoint now);
  /// The subnet administrator says that this group was made or deleted.
  void on_notice(const Gid& mgid);
  /// It has forgotten who is a member.
  void on_reregister();
  /// Forgets all; what was parked counts as `why`.
  void clear(Counter why, bool leave);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const { return timers_.next(); }
  void append_info(std::vector<GroupInfo>& out) const;

 private:
  using List = boost::intrusive::list<SendGroup, boost::intrusive::base_hook<SendGroupListHook>,
                                      boost::intrusive::constant_time_size<false>>;

  [[nodiscard]] SendGroup* find_or_create(const Gid& mgid, bool routable);
  [[nodiscard]] Gid all_routers(const Gid& mgid) const;
  void place(SendGroup& group);
  void give_turns();
  void send_to_routers(const Gid& missed, bool routable, Frame&& frame, TimePoint now);
  void erase(SendGroup& group);

  GroupDependencies env_;
  ParkingBudget& parking_;
  std::unordered_map<Gid, SendGroup> groups_;
  cache::TimerQueue<SendGroup> timers_;
  List waiting_;  ///< in the order of their turn
  List asking_;
  List known_;  ///< ready or missing, in the order of being known
  std::size_t outstanding_ = 0;
};

}  // namespace ipoib::link
