// All paths of a link, by GID. They are shared by the neighbours on one port, and stay for a while
// after the last user, so that a failed path is not requested again at once.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "link/cache/entry_table.hpp"
#include "link/path_ref.hpp"
#include "link/path_requests.hpp"

namespace ipoib::link {

class PathTable {
 public:
  using Condition = Path::Condition;
  /// The parts of the link that the table uses; all outlive it.
  struct Dependencies {
    const Config& config;
    AddressHandleFactory& handles;
    Output& out;
    RequestIds& ids;
    Random& random;
    Logger& log;
  };
  struct Resolution {
    bool usable;
    PathWaiters waiters;  ///< the caller informs them
  };

  PathTable(const Dependencies& deps, const HashKey& key)
      : requests_({deps.config, deps.out, deps.ids, deps.log}),
        deps_{deps.config, deps.handles, deps.out, deps.random, deps.log, requests_},
        paths_(deps.config.limits.paths, key) {}
  PathTable(const PathTable&) = delete;
  PathTable& operator=(const PathTable&) = delete;
  ~PathTable() = default;

  /// The port that paths begin at, and its LMC. The other ports of the subnet are assumed to have
  /// the same LMC: a path record names only one of a port's LIDs.
  void set_source(const PathSource& source) { requests_.set_source(source); }
  [[nodiscard]] const PathSource& source() const { return requests_.source(); }
  [[nodiscard]] std::uint8_t source_lmc() const { return source().lmc; }
  /// Finds or creates the path to a GID. Returns a null reference if the table, or the GID's
  /// buckets in its index, are full of paths in use.
  [[nodiscard]] PathRef acquire(const Gid& gid);

  // --- Stimuli, passed on to the path ----------------------------------------------------------
  Condition use(Path& path, TimePoint now, Purpose purpose = Purpose::packet) {
    const Condition condition = path.on_use(purpose, deps_, now);
    // In any other condition neither the path's timer nor its list has changed.
    if (condition == Condition::pending) update(path), send_waiting();
    return condition;
  }
  void invalidate(Path& path, std::string_view why);
  void invalidate_all(std::string_view why);
  /// See Path::on_restored().
  [[nodiscard]] bool restore(Path& path, const SavedPath& saved) {
    return path.on_restored(saved, deps_);
  }
  /// The path's port has sent from `source`. Each LID that is not the port's invalidates the path
  /// once, and the SA is asked no more often than PathTimes::mismatch_interval allows.
  void on_source_lid(Path& path, Lid source, TimePoint now);
  /// The SA has reported that the GID came into service (trap 64), or went out of it (trap 65).
  void on_in_service(const Gid& gid, TimePoint now) { on_report(gid, true, now); }
  void on_out_of_service(const Gid& gid, TimePoint now) { on_report(gid, false, now); }
  /// Returns nullopt if nobody uses the path, or if the request is not outstanding.
  [[nodiscard]] std::optional<Resolution> on_response(const wire::SaResponse& response,
                                                      TimePoint now);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const { return timers_.next(); }

  [[nodiscard]] std::size_t size() const { return paths_.size(); }
  [[nodiscard]] std::size_t outstanding() const { return requests_.outstanding(); }
  [[nodiscard]] Path* find(const Gid& gid) { return paths_.find(gid); }

 private:
  friend class PathRef;
  using List = boost::intrusive::list<Path, boost::intrusive::base_hook<PathListHook>,
                                      boost::intrusive::constant_time_size<false>>;

  [[nodiscard]] Path* longest_unused() { return unused_.empty() ? nullptr : &unused_.front(); }
  [[nodiscard]] Path* unused_rival(const Gid& gid) const;
  void on_report(const Gid& gid, bool in_service, TimePoint now);
  void update(Path& path);
  void send_waiting();
  [[nodiscard]] List& waiting(Purpose purpose) {
    return waiting_[static_cast<std::size_t>(purpose)];
  }

  PathRequests requests_;
  Path::Dependencies deps_;
  cache::EntryTable<Path, &Path::gid> paths_;
  std::array<List, 2> waiting_;  ///< in the state Waiting, by purpose, first come first served
  List unused_;                  ///< without users, in Ready or Failed; the longest unused first
  cache::TimerQueue<Path> timers_;
};

}  // namespace ipoib::link
