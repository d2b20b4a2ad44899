// The path to one GID: a state machine, docs/states.md, "Path". Its table calls the stimuli.
#pragma once

#include <boost/intrusive/list.hpp>
#include <memory>
#include <optional>
#include <string_view>

#include "ipoib/address.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/random.hpp"
#include "ipoib/time.hpp"
#include "link/cache/timer_queue.hpp"
#include "link/config.hpp"
#include "link/disposition.hpp"
#include "link/output.hpp"
#include "link/path_states.hpp"

namespace ipoib::link {

class PathRequests;
class PathTable;

/// Links a path into one of the table's two lists: those that wait for their first request, or
/// those without users.
using PathListHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<class PathListTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class Path : public cache::Timed, public PathListHook, public PathStateTypes {
 public:
  /// The parts of the link that paths use; all outlive the paths.
  struct Dependencies {
    const Config& config;
    AddressHandleFactory& handles;
    Output& out;
    Random& random;
    Logger& log;
    PathRequests& requests;
  };
  enum class Condition { usable, pending, failed };

  Path(const Gid& gid, PathTable& table) : gid_(gid), table_(table) {}
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  [[nodiscard]] const Gid& gid() const { return gid_; }
  [[nodiscard]] const State& state() const { return state_; }
  /// The data of a path whose use has no other effect, else null; for the fast path.
  [[nodiscard]] const PathData* ready() const {
    const auto* ready = std::get_if<Ready>(&state_);
    return ready != nullptr ? &ready->data : nullptr;
  }
  /// The data of a path that can be used, else null.
  [[nodiscard]] const PathData* usable() const;
  [[nodiscard]] TimePoint deadline() const;
  /// Whether the table keeps the path, which it does while there are users.
  [[nodiscard]] Disposition disposition() const;
  /// When the path's port was last reported out of service.
  [[nodiscard]] TimePoint last_out_of_service() const {
    return history_ != nullptr ? history_->out_of_service : TimePoint::min();
  }
  /// Prefetches what ready() reads.
  void prefetch() const {
    __builtin_prefetch(&state_);
    __builtin_prefetch(&users_);
  }
  void prefetch_handle() const {
    if (const PathData* const data = ready()) __builtin_prefetch(data->handle.get());
  }

  // --- Stimuli; the rows of docs/states.md -----------------------------------------------------
  /// A user has a frame to send.
  [[nodiscard]] Condition on_use(Purpose purpose, const Dependencies& deps, TimePoint now);
  void on_turn(const Dependencies& deps);  ///< a path in Waiting may send its request
  void await(PathWaiter& waiter);          ///< in Waiting and Requesting only
  /// The path may have changed: its first use from `not_before` on requests it again.
  void invalidate(std::string_view why, const Dependencies& deps, TimePoint not_before = {});
  /// The path's port sends from a LID that is not the path's.
  void on_lid_mismatch(Lid source, const Dependencies& deps, TimePoint now);
  /// The SA has reported that the port came into service, or went out of it.
  void on_report(bool in_service, const Dependencies& deps, TimePoint now);
  /// Returns those who waited for the response.
  [[nodiscard]] PathWaiters on_response(const wire::SaResult& result, const Dependencies& deps,
                                        TimePoint now);
  void on_deadline(const Dependencies& deps);
  /// Another daemon has used it with these data. Returns whether it can be used.
  [[nodiscard]] bool on_restored(const SavedPath& saved, const Dependencies& deps);

 private:
  friend class PathTable;
  friend class PathRef;

  /// Observations of the peer's port. Most paths have none.
  struct History {
    Lid ignored_lid;            ///< a mismatch that the SA has been asked about already
    TimePoint next_mismatch{};  ///< when another mismatch may cause a request
    TimePoint out_of_service = TimePoint::min();
  };
  [[nodiscard]] History& history() {
    if (history_ == nullptr) history_ = std::make_unique<History>();
    return *history_;
  }
  void become(State&& next, std::string_view why, const Dependencies& deps);
  void become_failed(TimePoint retry_at, unsigned failures, std::string_view why,
                     const Dependencies& deps);
  Condition first_request(unsigned failures, Purpose purpose, const Dependencies& deps);
  [[nodiscard]] std::optional<PathData> accept(const wire::PathRecord& record,
                                               const Dependencies& deps) const;
  void on_record(const wire::PathRecord& record, const Dependencies& deps, TimePoint now);
  void on_failure(const wire::SaFailure& failure, const Dependencies& deps, TimePoint now);

  Gid gid_;
  [[no_unique_address]] State state_;  ///< users_ lies in its tail padding
  std::uint32_t users_ = 0;
  PathTable& table_;
  std::unique_ptr<History> history_;
};

}  // namespace ipoib::link
