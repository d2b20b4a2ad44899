// The membership of one multicast group: a state machine, docs/states.md, "Group".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "ipoib/log_fwd.hpp"
#include "ipoib/random.hpp"
#include "link/config.hpp"
#include "link/events.hpp"
#include "link/neighbour_info.hpp"
#include "link/output.hpp"

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
/// What a member knows.
struct Membership {
  wire::McMemberRecord record;
  AddressHandlePtr handle;
};
struct Member {
  Membership membership;
  TimePoint confirm_at;
  unsigned refusals = 0;
};
struct Confirming {
  Membership membership;
  QuestionId question;
  bool creating = false;
  unsigned refusals = 0;
};
using State = std::variant<Absent, Joining, Pausing, Member, Confirming>;
}  // namespace group_state

class Group {
 public:
  /// What groups work with; outlives them.
  struct Environment {
    const Config& config;
    const Gid& port;  ///< who joins
    AddressHandleFactory& handles;
    Output& out;
    QuestionIds& ids;
    Random& random;
    Logger& log;
  };

  /// The name is for the log.
  Group(const Environment& env, std::string_view name, const Gid& mgid)
      : env_(env), name_(name), mgid_(mgid) {}

  // --- Stimuli; the rows of docs/states.md -----------------------------------------------------
  /// Joins. With `creation`, a group that does not exist is created with its Q_Key, MTU, rate, SL,
  /// flow label, hop limit and traffic class.
  void start(const std::optional<wire::McMemberRecord>& creation);
  /// True when it is a member by that answer, newly or still: then attach() is due.
  [[nodiscard]] bool on_answer(QuestionId id, const JoinAnswer& answer, TimePoint now);
  void on_reregister();
  /// The port has lost all memberships.
  void on_lost();
  void leave();
  /// Its owner could not use it: as if it had been refused.
  void on_setup_failed(TimePoint now);
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
  [[nodiscard]] const group_state::Membership* membership() const;
  [[nodiscard]] QuestionId ask(bool creating);
  [[nodiscard]] std::optional<group_state::Membership> accept(const wire::McMemberRecord& record);
  [[nodiscard]] bool joined(const wire::McMemberRecord& record, TimePoint now);
  void refused(const Refusal& refusal, TimePoint now);
  void detach();
  void emit_leave();
  void become(group_state::State&& next, std::string_view why);

  Environment env_;
  std::string_view name_;
  Gid mgid_;
  group_state::State state_;
  std::optional<wire::McMemberRecord> creation_;
  std::optional<Lid> attached_;
};

}  // namespace ipoib::link
