// A multicast group that the host is in: a state machine, docs/states.md, "Group".
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
  QuestionId question;
  bool creating = false;
  unsigned refusals = 0;
};
struct Pausing {
  TimePoint until;
  unsigned refusals = 0;
  std::string why;
};
struct Member {
  Membership membership;
  TimePoint confirm_at;
  unsigned refusals = 0;
};
struct Looking {
  Membership membership;
  QuestionId question;
};
struct Confirming {
  Membership membership;
  QuestionId question;
  bool creating = false;
  unsigned refusals = 0;
};
using State = std::variant<Absent, Joining, Pausing, Member, Looking, Confirming>;
}  // namespace group_state

class Group : public cache::Timed {
 public:
  using Environment = MembershipEnvironment;

  /// The name is for the log. While there is a `creation`, a group that does not exist is created
  /// with its Q_Key, MTU, rate, SL, flow label, hop limit and traffic class, as they are then. It
  /// outlives the group.
  Group(const Environment& env, std::string_view name, const Gid& mgid,
        const std::optional<wire::McMemberRecord>& creation)
      : env_(env), name_(name), mgid_(mgid), creation_(creation) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // --- Stimuli; the rows of docs/states.md -----------------------------------------------------
  void start();
  /// True when it is a member by that answer, newly or still: then attach() is due.
  [[nodiscard]] bool on_answer(QuestionId id, const JoinAnswer& answer, TimePoint now);
  void on_reregister();
  /// The subnet administrator says that the group was made or deleted.
  void on_notice();
  /// The port has lost all memberships.
  void on_lost();
  void leave();
  /// Its owner could not use it: as if it had been refused.
  void on_setup_failed(TimePoint now);
  /// The HCA has not attached the queue pair, and did not detach it either.
  void on_attach_failed(TimePoint now);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const;

  /// Attaches the queue pair where the group is now, and detaches it from where it was.
  void attach();
  /// Sends a datagram to all members, if it is one of them; else counts that.
  void send(Frame&& frame, Output& out) const;

  [[nodiscard]] const Gid& mgid() const { return mgid_; }
  [[nodiscard]] const wire::McMemberRecord* record() const;  ///< null unless a member
  [[nodiscard]] bool asks(QuestionId id) const;
  [[nodiscard]] GroupInfo info() const;
  [[nodiscard]] std::string waiting_for() const;  ///< for a person; empty for a member

 private:
  [[nodiscard]] const Membership* membership() const;
  [[nodiscard]] QuestionId ask(bool creating);
  [[nodiscard]] bool joined(const wire::McMemberRecord& record, TimePoint now);
  [[nodiscard]] bool is_lost_by(const wire::McMemberRecord& record) const;
  void refused(const Refusal& refusal, TimePoint now);
  void confirm(Membership& held, unsigned refusals, std::string_view why);
  void note_loss();
  void detach();
  void emit_leave();
  void become(group_state::State&& next, std::string_view why);

  Environment env_;
  std::string_view name_;
  Gid mgid_;
  const std::optional<wire::McMemberRecord>& creation_;
  group_state::State state_;
  std::optional<Lid> attached_;
  unsigned failed_attachments_ = 0;  ///< since the port came up
};

}  // namespace ipoib::link
