// A multicast group that the host is a member of: the state machine of docs/states.md, "Group".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "link/cache/timer_queue.hpp"
#include "link/membership.hpp"
#include "link/neighbour_info.hpp"

namespace ipoib::link {

namespace group_state {
struct Absent {};
struct Joining {
  wire::SaRequestId request;
  bool creating = false;
  unsigned failures = 0;
};
struct Pausing {
  TimePoint until;
  unsigned failures = 0;
  std::string why;
};
struct Member {
  Membership membership;
  TimePoint confirm_at;
  unsigned failures = 0;
};
struct LookingUp {
  Membership membership;
  wire::SaRequestId request;
};
struct Confirming {
  Membership membership;
  wire::SaRequestId request;
  bool creating = false;
  unsigned failures = 0;
};
using State = std::variant<Absent, Joining, Pausing, Member, LookingUp, Confirming>;
}  // namespace group_state

class Group : public cache::Timed {
 public:
  /// `name` is for the log. If `creation` has a value when a join finds no group, the group is
  /// created with its Q_Key, MTU, rate, SL, flow label, hop limit and traffic class. Both outlive
  /// the group.
  Group(const GroupDependencies& deps, std::string_view name, const Gid& mgid,
        const std::optional<wire::McMemberRecord>& creation)
      : deps_(deps), name_(name), mgid_(mgid), creation_(creation) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // --- Stimuli; the rows of docs/states.md -----------------------------------------------------
  void start();
  /// Returns true if the host has become or remained a member; the caller then calls attach().
  [[nodiscard]] bool on_response(const wire::SaResponse& response, TimePoint now);
  void on_reregister();
  /// The SA reports that the group was created or deleted.
  void on_notice();
  /// The port has lost all memberships.
  void on_lost();
  void leave();
  /// The queue pair could not be configured for the group.
  void on_setup_failed(TimePoint now);
  /// AttachGroup failed; the queue pair is not attached.
  void on_attach_failed(TimePoint now);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;

  /// Attaches the queue pair to the group's current MLID and detaches it from the previous one.
  void attach();
  /// Sends a datagram to the group, or drops and counts it if the host is no member.
  void send(Frame&& frame, Output& out) const;

  [[nodiscard]] const Gid& mgid() const { return mgid_; }
  [[nodiscard]] const wire::McMemberRecord* record() const;  ///< null unless a member
  [[nodiscard]] bool has_requested(wire::SaRequestId id) const;
  [[nodiscard]] GroupInfo info() const;
  [[nodiscard]] std::string waiting_for() const;  ///< for the operator; empty for a member

 private:
  [[nodiscard]] const Membership* membership() const;
  [[nodiscard]] wire::SaRequestId join(bool creating);
  [[nodiscard]] bool joined(const wire::McMemberRecord& record, TimePoint now);
  [[nodiscard]] bool shows_loss(const wire::McMemberRecord& record) const;
  void failed(const wire::SaFailure& failure, TimePoint now);
  void confirm(Membership& held, unsigned failures, std::string_view why);
  void log_loss();
  void detach();
  void emit_leave();
  void become(group_state::State&& next, std::string_view why);

  GroupDependencies deps_;
  std::string_view name_;
  Gid mgid_;
  const std::optional<wire::McMemberRecord>& creation_;
  group_state::State state_;
  std::optional<Lid> attached_;
  unsigned failed_attachments_ = 0;  ///< since the port came up
  unsigned failed_setups_ = 0;       ///< in a row
  TimePoint setup_failed_{};
};

}  // namespace ipoib::link
