// The path to one GID: a state machine, docs/states.md, "Path". Its table asks the questions.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>

#include "ipoib/address.hpp"
#include "ipoib/time.hpp"
#include "link/path_states.hpp"
#include "link/cache/timer_queue.hpp"

namespace ipoib::link {

class PathTable;

/// Its place in one of the table's two lists: of the paths whose turn to be asked for comes, or of
/// those that nobody uses.
using PathListHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<class PathListTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class Path : public cache::Timed, public PathListHook {
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
  /// Adds one to those who wait, while there is a question to wait for: Waiting and Asking.
  void await(PathWaiter& waiter);
  /// When its port was last reported out of service.
  [[nodiscard]] TimePoint last_gone() const {
    return doubts_ != nullptr ? doubts_->last_gone : TimePoint::min();
  }
  /// Has the processor fetch what ready() reads.
  void prefetch() const {
    __builtin_prefetch(&state_);
    __builtin_prefetch(&users_);
  }
  /// And what its user counts up.
  void prefetch_handle() const {
    if (const PathData* const data = ready()) __builtin_prefetch(data->handle.get());
  }

 private:
  friend class PathTable;
  friend class PathRef;

  /// Of most paths there is never any.
  struct Doubts {
    Lid excused_lid;         ///< a LID, not one of its port's, that has been asked about already
    TimePoint next_doubt{};  ///< no question for another source LID before
    TimePoint last_gone = TimePoint::min();
  };
  [[nodiscard]] Doubts& doubts() {
    if (doubts_ == nullptr) doubts_ = std::make_unique<Doubts>();
    return *doubts_;
  }

  Gid gid_;
  [[no_unique_address]] path_state::State state_;  ///< the next one lies in what it leaves free
  std::uint32_t users_ = 0;
  PathTable& table_;
  std::unique_ptr<Doubts> doubts_;
};

}  // namespace ipoib::link
