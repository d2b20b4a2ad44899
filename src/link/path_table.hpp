// All paths of a link, by GID: asks the SA for them, bounded, and remembers refusals.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "ipoib/log_fwd.hpp"
#include "ipoib/random.hpp"
#include "link/config.hpp"
#include "link/cache/entry_table.hpp"
#include "link/events.hpp"
#include "link/output.hpp"
#include "link/path_ref.hpp"

namespace ipoib::link {

class PathTable {
 public:
  /// What paths work with; outlives the table.
  struct Environment {
    const Config& config;
    AddressHandleFactory& handles;
    Output& out;
    QuestionIds& ids;
    Random& random;
    Logger& log;
  };
  enum class Condition { usable, asked, refused };
  struct Answered {
    bool usable;
    PathWaiters waiters;  ///< who is to be told
  };

  explicit PathTable(const Environment& env) : env_(env), paths_(env.config.limits.paths) {}
  PathTable(const PathTable&) = delete;
  PathTable& operator=(const PathTable&) = delete;
  ~PathTable() = default;

  /// The port that paths begin at, and its LMC, which is taken for that of the subnet's other
  /// ports: what a record shows of a peer's LIDs is one of them.
  void set_source(const PortGid& port, std::uint8_t lmc) {
    source_ = port;
    lmc_ = lmc;
  }
  /// The path to a GID, made if need be; nothing when the table is full of paths in use.
  [[nodiscard]] PathRef acquire(const Gid& gid);

  // --- Stimuli; the rows of docs/states.md -----------------------------------------------------
  /// Somebody has something to send by it.
  Condition use(Path& path, TimePoint now);
  /// The path may have changed: its next use from `not_before` on asks again.
  void doubt(Path& path, std::string_view why, TimePoint not_before = {});
  void doubt_all(std::string_view why);
  /// Its port sent from `source`: each LID that is not its own is a doubt, once. However often
  /// the LID changes, the SA is asked no more often than PathTimes::doubt allows.
  void on_source_lid(Path& path, Lid source, TimePoint now);
  /// The SA has reported that the GID came into service (trap 64), or went out of it (trap 65): its
  /// path is asked for anew, and no other one.
  void on_in_service(const Gid& gid, TimePoint now);
  void on_out_of_service(const Gid& gid, TimePoint now);
  /// What came of it for those who wait for the path; nothing when it matters to nobody.
  [[nodiscard]] std::optional<Answered> on_answer(QuestionId id, const PathAnswer& answer,
                                                  TimePoint now);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const { return timers_.next(); }

  [[nodiscard]] std::size_t size() const { return paths_.size(); }
  [[nodiscard]] std::size_t outstanding() const { return outstanding_.size(); }
  [[nodiscard]] Path* find(const Gid& gid) { return paths_.find(gid); }

 private:
  friend class PathRef;
  using List = boost::intrusive::list<Path, boost::intrusive::base_hook<PathListHook>,
                                      boost::intrusive::constant_time_size<false>>;

  void on_unused(Path& path);
  [[nodiscard]] bool busy() const {
    return outstanding_.size() >= env_.config.limits.path_questions;
  }
  [[nodiscard]] QuestionId ask(Path& path);
  void on_report(Path& path, std::string_view why, TimePoint now);
  void ask_anew(QuestionId& question, Path& path);
  void ask_next();
  void become(Path& path, path_state::State&& next, std::string_view why);
  void erase(Path& path);
  [[nodiscard]] std::optional<PathData> accept(Path& path, const wire::PathRecord& record);
  void answered(Path& path, const wire::PathRecord& record, TimePoint now);
  void refused(Path& path, const Refusal& refusal, TimePoint now);
  void note_refusal(const Path& path, unsigned refusals, const std::string& why, TimePoint now);

  Environment env_;
  PortGid source_;
  std::uint8_t lmc_ = 0;
  cache::EntryTable<Path, &Path::gid> paths_;
  std::unordered_map<QuestionId, Path*> outstanding_;
  List waiting_;  ///< state Waiting, in the order of their turn
  List unused_;   ///< nobody uses them, the longest unused first
  cache::TimerQueue<Path> timers_;
  TimePoint quiet_until_{};  ///< no refusal is logged before
};

}  // namespace ipoib::link
