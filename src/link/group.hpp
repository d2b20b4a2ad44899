// A multicast group that the host is a member of: the state machine of docs/states.md, "Group".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "link/broadcast_group.hpp"
#include "link/cache/timer_queue.hpp"
#include "link/group_states.hpp"
#include "link/neighbour_info.hpp"

namespace ipoib::link {

class Group : public cache::Timed {
 public:
  /// `mgid` is not used for the broadcast group, which is searched in the scopes of the settings.
  Group(const GroupDependencies& deps, GroupRole role, const Gid& mgid = {});
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // --- Stimuli; the rows of docs/states.md -----------------------------------------------------
  void start();
  /// If the broadcast group does not exist in any scope, it is created in the first one with these
  /// parameters; nullopt: it is not created. Other groups get those of the broadcast group.
  void set_creation(const std::optional<wire::McMemberRecord>& creation) { creation_ = creation; }
  /// Returns true if the host has become or remained a member; the caller then calls attach().
  [[nodiscard]] bool on_response(const wire::SaResponse& response, TimePoint now);
  void on_reregister();
  /// The SA reports that the group, see may_be(), was created or deleted.
  void on_notice(const Gid& mgid);
  /// The broadcast group has other parameters now, see GroupDependencies.
  void on_new_parameters(TimePoint now);
  /// Another port has sent a datagram to the group, so this port is still a member. Returns whether
  /// next_deadline() may have become earlier, because the group was silent before.
  bool on_heard(TimePoint now) { return silence_.on_heard(now); }
  /// How long the broadcast group may be silent before it is checked, if it has been heard; with
  /// jitter, from the next check on.
  void set_silence(Duration silence) { silence_.set_pause(silence); }
  /// The port has lost all memberships.
  void on_lost();
  void leave();
  /// The link cannot use the group that it has joined; `why` is for the operator.
  void on_setup_failed(std::string_view why, TimePoint now);
  /// AttachGroup failed; the queue pair is not attached.
  void on_attach_failed(TimePoint now);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;

  /// Attaches the queue pair to the group's current MLID and detaches it from the previous one.
  void attach();
  /// Sends a datagram to the group, or drops and counts it if the host is no member.
  void send(Frame&& frame, Output& out) const;

  [[nodiscard]] GroupRole role() const { return role_; }
  /// The MGID; that of the broadcast group has the scope in which it was found.
  [[nodiscard]] const Gid& mgid() const { return mgid_; }
  /// Whether this may be the group with that MGID. The broadcast group, unless it is joined, may
  /// have any of the scopes of the settings.
  [[nodiscard]] bool may_be(const Gid& mgid) const;
  [[nodiscard]] bool is_absent() const;
  /// Whether there has been a response to the first join since start().
  [[nodiscard]] bool is_settled() const;
  [[nodiscard]] const wire::McMemberRecord* record() const;  ///< null unless a member
  [[nodiscard]] bool has_requested(wire::SaRequestId id) const;
  [[nodiscard]] GroupInfo info() const;
  [[nodiscard]] std::string waiting_for() const;  ///< for the operator; empty for a member

 private:
  [[nodiscard]] const Membership* membership() const;
  [[nodiscard]] wire::SaRequestId join(bool creating);
  [[nodiscard]] bool joined(const wire::McMemberRecord& record, TimePoint now);
  [[nodiscard]] bool found(const wire::McMemberRecord& record);
  void give_up(TimePoint now, unsigned failures, std::string_view what, std::string why);
  [[nodiscard]] bool try_next_scope(group_state::Joining& joining);
  [[nodiscard]] bool try_next_scope(group_state::Confirming& confirming);
  void move_to_scope(std::size_t scope, TimePoint now);
  void stop_search();
  void set_scope(std::size_t scope);
  [[nodiscard]] std::size_t scope() const;
  [[nodiscard]] const std::optional<wire::McMemberRecord>& creation() const;
  void failed(const wire::SaFailure& failure, TimePoint now);
  void note_failed_join(const wire::SaFailure& failure, unsigned failures);
  void log_failure(std::string_view operation, const wire::SaFailure& failure);
  /// The text of a failure, with what to do if the broadcast group is missing.
  [[nodiscard]] std::string reason_of(const wire::SaFailure& failure) const;
  [[nodiscard]] unsigned failures() const;
  [[nodiscard]] std::uint8_t join_state() const;
  void confirm(Membership& held, unsigned failures, std::string_view why);
  void lose(std::string_view why);
  void log_loss();
  void detach();
  void emit_leave();
  void become(group_state::State&& next, std::string_view why);
  void report(bool was_member, bool was_joining, std::string_view why) const;

  GroupDependencies deps_;
  GroupRole role_;
  Gid mgid_;
  std::optional<BroadcastSearch> search_;         ///< of the broadcast group
  std::optional<wire::McMemberRecord> creation_;  ///< of the broadcast group
  group_state::State state_;
  std::optional<Lid> attached_;
  SilenceCheck silence_;
  unsigned failed_attachments_ = 0;  ///< since the last successful check
  unsigned failed_setups_ = 0;       ///< in a row
  TimePoint setup_failed_{};
};

}  // namespace ipoib::link
