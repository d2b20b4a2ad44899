#include "link/path_table.hpp"

namespace ipoib::link {

PathRef PathTable::acquire(const Gid& gid) {
  if (Path* const known = find(gid)) {
    // Takes it out of unused_; a path in waiting_ has users.
    if (known->users_ == 0 && known->PathListHook::is_linked()) known->PathListHook::unlink();
    return PathRef(*known);
  }
  const bool is_full = paths_.size() >= deps_.config.limits.paths;
  Path* made = is_full ? nullptr : paths_.emplace(gid, gid, *this);
  if (made == nullptr) {
    if (!is_full) deps_.out.counters.add(Counter::index_collisions);
    Path* const old = is_full ? longest_unused() : unused_rival(gid);
    if (old == nullptr) return {};
    deps_.out.counters.add(Counter::paths_evicted);
    paths_.erase(*old);
    made = paths_.emplace(gid, gid, *this);
  }
  return made != nullptr ? PathRef(*made) : PathRef();
}

/// An unused path among those that share the buckets of a GID.
Path* PathTable::unused_rival(const Gid& gid) const {
  Path* victim = nullptr;
  paths_.for_each_rival(gid, [&victim](Path& rival) {
    if (rival.users_ == 0 && rival.PathListHook::is_linked()) victim = &rival;
  });
  return victim;
}

/// To call after each stimulus: erases the path, or sets its timer and puts it into its list.
void PathTable::update(Path& path) {
  if (path.disposition() == Disposition::erase) return paths_.erase(path);
  timers_.arm(path, path.deadline());
  if (path.PathListHook::is_linked()) return;
  if (const auto* const state = std::get_if<Path::Waiting>(&path.state())) {
    waiting(state->purpose).push_back(path);
  } else if (path.users_ == 0 && path.deadline() != kNever) {
    unused_.push_back(path);
  }
}

void PathTable::invalidate(Path& path, std::string_view why) {
  path.invalidate(why, deps_);
  update(path);
}

void PathTable::invalidate_all(std::string_view why) {
  paths_.for_each([&](Path& path) { invalidate(path, why); });
}

void PathTable::on_source_lid(Path& path, Lid source, TimePoint now) {
  const PathData* const data = path.ready();
  const std::uint8_t lmc = requests_.source().lmc;
  const Lid base = base_lid(source, lmc);
  if (data == nullptr || base == base_lid(data->attributes.dlid, lmc)) return;
  path.on_lid_mismatch(base, deps_, now);
  update(path);
}

void PathTable::on_report(const Gid& gid, bool in_service, TimePoint now) {
  Path* const path = find(gid);
  if (path == nullptr) return;
  path->on_report(in_service, deps_, now);
  update(*path);
}

std::optional<PathTable::Resolution> PathTable::on_response(const wire::SaResponse& response,
                                                            TimePoint now) {
  Path* const path = requests_.complete(response.id);
  if (path == nullptr) return std::nullopt;
  PathWaiters waiters = path->on_response(response.result, deps_, now);
  send_waiting();
  std::optional<Resolution> resolution;
  if (path->users_ > 0) resolution = Resolution{path->usable() != nullptr, std::move(waiters)};
  update(*path);
  return resolution;
}

/// Lets waiting paths send their requests; paths that the host uses come first.
void PathTable::send_waiting() {
  for (const Purpose purpose : {Purpose::packet, Purpose::reply}) {
    List& paths = waiting(purpose);
    while (!paths.empty() && !requests_.full(purpose)) {
      Path& next = paths.front();
      paths.pop_front();
      next.on_turn(deps_);
    }
  }
}

void PathTable::tick(TimePoint now) {
  while (Path* const path = timers_.pop_due(now)) {
    path->on_deadline(deps_);
    update(*path);
  }
}

}  // namespace ipoib::link
