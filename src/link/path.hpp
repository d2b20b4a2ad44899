// The path to one GID: a state machine, docs/states.md, "Path". Its table asks the questions.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "ipoib/address.hpp"
#include "ipoib/time.hpp"
#include "ipoib/ud_port.hpp"
#include "link/events.hpp"
#include "link/timer_queue.hpp"

namespace ipoib::link {

class PathTable;

/// The way itself, as the SA gave it.
struct PathData {
  AddressHandlePtr handle;
  AddressVector vector;   ///< what the handle was made from
  std::uint32_t mtu = 0;  ///< of the InfiniBand payload, octets
};

namespace path_state {
struct Idle {};
struct Waiting {
  unsigned refusals = 0;
};
struct Asking {
  QuestionId question;
  unsigned refusals = 0;
};
struct Ready {
  PathData data;
  TimePoint refresh_at;
};
struct Suspect {
  PathData data;
  TimePoint not_before{};
  unsigned refusals = 0;
};
struct Refreshing {
  PathData data;
  QuestionId question;
  unsigned refusals = 0;
};
struct Failed {
  TimePoint silent_until;
  unsigned refusals = 0;
};
using State = std::variant<Idle, Waiting, Asking, Ready, Suspect, Refreshing, Failed>;
}  // namespace path_state

/// Who waits for a path to be answered; leaves the list when it dies.
using PathWaiter =
    boost::intrusive::list_base_hook<boost::intrusive::tag<class PathWaiterTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
using PathWaiters = boost::intrusive::list<PathWaiter, boost::intrusive::base_hook<PathWaiter>,
                                           boost::intrusive::constant_time_size<false>>;
/// Its place in one of the table's two lists: of the paths whose turn to be asked for comes, or of
/// those that nobody uses.
using PathListHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<class PathListTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class Path : public Timed, public PathListHook {
 public:
  Path(const Gid& gid, PathTable& table) : gid_(gid), table_(table) {}
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  [[nodiscard]] const Gid& gid() const { return gid_; }
  [[nodiscard]] const path_state::State& state() const { return state_; }
  /// For the data path: what to send by if there is nothing else to do, else null.
  [[nodiscard]] const PathData* ready() const {
    const auto* ready = std::get_if<path_state::Ready>(&state_);
    return ready != nullptr ? &ready->data : nullptr;
  }
  /// What to send by if there is anything, else null.
  [[nodiscard]] const PathData* usable() const;
  [[nodiscard]] PathWaiters& waiters() { return waiters_; }
  /// When its port was last reported out of service.
  [[nodiscard]] TimePoint last_gone() const { return last_gone_; }

 private:
  friend class PathTable;
  friend class PathRef;

  Gid gid_;
  PathTable& table_;
  path_state::State state_;
  PathWaiters waiters_;
  std::uint32_t users_ = 0;
  Lid excused_lid_;         ///< a LID, not one of its port's, that has been asked about already
  TimePoint next_doubt_{};  ///< no question for another source LID before
  TimePoint last_gone_ = TimePoint::min();
};

}  // namespace ipoib::link
