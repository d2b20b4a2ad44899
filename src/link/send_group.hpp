// A multicast group that the host sends to without being a member: the state machine of
// docs/states.md, "Send-only group".
//
// RFC 4391, 10: a sender joins as SendOnlyNonMember, which does not create the group. If the group
// does not exist, packets that may leave the link go to the all-routers group.
#pragma once

#include <boost/intrusive/list_hook.hpp>
#include <optional>
#include <string_view>
#include <variant>

#include "ipoib/should_log.hpp"
#include "link/cache/timer_queue.hpp"
#include "link/disposition.hpp"
#include "link/membership.hpp"
#include "link/neighbour_dependencies.hpp"
#include "link/neighbour_info.hpp"
#include "link/parked_frames.hpp"

namespace ipoib::link {

namespace send_group_state {
struct Waiting {
  ParkedFrames parked;
};
struct Joining {
  wire::SaRequestId request;
  ParkedFrames parked;
};
struct Ready {
  Membership membership;
  TimePoint check_at;
};
struct Confirming {
  Membership membership;
  wire::SaRequestId request;
};
struct Missing {
  TimePoint until;
};
using State = std::variant<Waiting, Joining, Ready, Confirming, Missing>;
}  // namespace send_group_state

using SendGroupListHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<class SendGroupListTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class SendGroup : public cache::Timed, public SendGroupListHook {
 public:
  /// `failures` counts the failed joins of all send-only groups.
  SendGroup(const GroupDependencies& deps, ParkingBudget& parking, FailureCount& failures,
            const Gid& mgid)
      : deps_(deps),
        failures_(failures),
        mgid_(mgid),
        state_(send_group_state::Waiting{ParkedFrames(parking)}) {}
  SendGroup(const SendGroup&) = delete;
  SendGroup& operator=(const SendGroup&) = delete;

  // --- Stimuli; the rows of docs/states.md. Frames begin with the encapsulation header ---------
  /// Sends the frame or parks it. Returns the frame if the group does not exist.
  [[nodiscard]] Frame on_packet(Frame&& frame, TimePoint now);
  /// Fewer requests are outstanding, so the group may request its join.
  void on_turn();
  /// The SA has responded. Returns the parked frames if the group does not exist.
  [[nodiscard]] std::vector<Frame> on_response(const wire::SaResult& result, TimePoint now);
  /// The deadline has come. With `may_request` a further request may be outstanding; else the
  /// membership is checked later.
  [[nodiscard]] Disposition on_deadline(bool may_request, TimePoint now);
  /// The group was created or deleted (RFC 4392, 5: its MLID may have been reassigned), or the SA
  /// has lost its members.
  [[nodiscard]] Disposition on_outdated();
  /// The broadcast group has other parameters now, so this group will be created again with these.
  [[nodiscard]] Disposition on_new_parameters();
  /// The table is about to erase the group. Parked frames are counted as `why`.
  void on_removed(Counter why, bool leave);

  /// To call before the table erases the group in any case; for those who watch.
  void on_erased() const;

  [[nodiscard]] const Gid& mgid() const { return mgid_; }
  /// The address of the IP group in packets to it: an MGID has only 80 bits of an IPv6 group.
  [[nodiscard]] const std::optional<IpAddress>& address() const { return address_; }
  void set_address(const std::optional<IpAddress>& address) { address_ = address; }
  [[nodiscard]] const send_group_state::State& state() const { return state_; }
  [[nodiscard]] bool has_requested(wire::SaRequestId id) const;
  [[nodiscard]] bool is_outstanding() const;  ///< a request is
  [[nodiscard]] TimePoint next_deadline() const;
  [[nodiscard]] GroupInfo info() const;

 private:
  [[nodiscard]] bool is_member() const;
  [[nodiscard]] wire::SaRequestId join();
  void leave();
  [[nodiscard]] std::optional<Membership> accept_or_leave(const wire::SaResult& result);
  [[nodiscard]] TimePoint next_check(TimePoint now);
  void become(send_group_state::State&& next, std::string_view why);
  void report(bool was_member, std::string_view why) const;

  void log_failure(const wire::SaFailure& failure);

  const GroupDependencies& deps_;
  FailureCount& failures_;
  Gid mgid_;
  std::optional<IpAddress> address_;
  send_group_state::State state_;
  TimePoint used_{};
  TimePoint checked_{};
};

}  // namespace ipoib::link
