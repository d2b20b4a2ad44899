#include "link/neighbour_table.hpp"

#include "ipoib/overloaded.hpp"

namespace ipoib::link {

namespace {

/// The level of a gateway whose entry has this class.
Reachability::Level level_of_class(EvictionClass eviction_class) {
  switch (eviction_class) {
    case EvictionClass::none:
    case EvictionClass::unresolved:
      return Reachability::Level::unknown;
    case EvictionClass::failed:
      return Reachability::Level::failed;
    case EvictionClass::unused:
    case EvictionClass::stale:
    case EvictionClass::pending:
    case EvictionClass::active:
    case EvictionClass::permanent:
      break;
  }
  return Reachability::Level::resolved;
}

}  // namespace

NeighbourTable::NeighbourTable(const NeighbourDependencies& deps, const HashKey& key)
    : deps_(deps), entries_(deps.config.limits.neighbours, key) {}

NeighbourTable::~NeighbourTable() { clear(Counter::drop_link_down); }

Neighbour* NeighbourTable::create(const IpAddress& address, Purpose purpose) {
  const bool is_full = entries_.size() >= deps_.config.limits.neighbours;
  Neighbour* made = is_full ? nullptr : entries_.emplace(address, address);
  if (made == nullptr) {
    if (!is_full) deps_.out.counters.add(Counter::index_collisions);
    Neighbour* const old = is_full ? choose_victim(purpose) : choose_rival(address, purpose);
    if (old == nullptr) return nullptr;
    deps_.out.counters.add(Counter::neighbours_evicted);
    remove(*old, Counter::drop_neighbour_removed, "evicted");
    made = entries_.emplace(address, address);
    if (made == nullptr) return nullptr;  // in a full table its place in the index may be full
  }
  deps_.out.counters.add(Counter::neighbours_created);
  ++counts_[static_cast<std::size_t>(made->eviction_class_)];
  ++deps_.statistics.in(made->state_name());
  return made;
}

Reachability::Level NeighbourTable::level_of(const IpAddress& neighbour) const {
  const Neighbour* const entry = find(neighbour);
  return entry == nullptr ? Level::unknown : level_of_class(entry->eviction_class_);
}

Neighbour* NeighbourTable::choose_victim(Purpose purpose) {
  for (const EvictionClass each : {EvictionClass::failed, EvictionClass::unused,
                                   EvictionClass::stale, EvictionClass::pending}) {
    if (purpose == Purpose::reply && each > EvictionClass::unused) return nullptr;
    if (List& list = list_of(each); !list.empty()) return &list.front();
  }
  return choose_active();
}

/// The least recently used of the next kEvictionScan active entries without parked frames.
Neighbour* NeighbourTable::choose_active() {
  List& active = list_of(EvictionClass::active);
  Neighbour* least_recent = nullptr;
  Neighbour* first_seen = nullptr;
  for (std::size_t i = 0; i < kEvictionScan && !active.empty(); ++i) {
    Neighbour& seen = active.front();
    if (&seen == first_seen) break;
    if (first_seen == nullptr) first_seen = &seen;
    active.pop_front();
    active.push_back(seen);
    if (seen.parked() > 0) continue;
    if (least_recent == nullptr || seen.last_use() < least_recent->last_use()) least_recent = &seen;
  }
  return least_recent;
}

/// The first to evict among the few entries that share the buckets of an address.
Neighbour* NeighbourTable::choose_rival(const IpAddress& address, Purpose purpose) const {
  const EvictionClass last =
      purpose == Purpose::packet ? EvictionClass::active : EvictionClass::unused;
  Neighbour* best = nullptr;
  entries_.for_each_rival(address, [&best, last](Neighbour& rival) {
    const bool has_packets = rival.eviction_class_ == EvictionClass::active && rival.parked() > 0;
    if (rival.eviction_class_ > last || has_packets) return;
    const auto rank = [](const Neighbour& entry) {
      return std::pair(entry.eviction_class_, entry.last_use());
    };
    if (best == nullptr || rank(rival) < rank(*best)) best = &rival;
  });
  return best;
}

void NeighbourTable::apply(Neighbour& entry, Disposition disposition, std::string_view why_erased) {
  if (disposition == Disposition::erase) {
    erase(entry, why_erased);
    return;
  }
  timers_.arm(entry, entry.deadline());
  reclassify(entry);
}

void NeighbourTable::reclassify(Neighbour& entry) {
  const EvictionClass next = entry.current_eviction_class();
  if (next == entry.eviction_class_) return;
  --counts_[static_cast<std::size_t>(entry.eviction_class_)];
  ++counts_[static_cast<std::size_t>(next)];
  const bool is_new_level = level_of_class(entry.eviction_class_) != level_of_class(next);
  if (is_new_level && is_watched(entry)) ++level_changes_;
  if (entry.NeighbourListHook::is_linked()) entry.NeighbourListHook::unlink();
  entry.eviction_class_ = next;
  list_of(next).push_back(entry);
}

void NeighbourTable::erase(Neighbour& entry, std::string_view why) {
  entry.report(NeighbourChange::Kind::removed, why, deps_);
  --deps_.statistics.in(entry.state_name());
  --counts_[static_cast<std::size_t>(entry.eviction_class_)];
  if (level_of_class(entry.eviction_class_) != Level::unknown && is_watched(entry)) {
    ++level_changes_;
  }
  ++erasures_;
  entries_.erase(entry);
}

void NeighbourTable::restore(Neighbour& entry, const SavedNeighbour& saved, PathRef&& path,
                             TimePoint now) {
  apply(entry, entry.on_restored(saved, Route(saved.hardware, std::move(path)), deps_, now));
}

void NeighbourTable::remove(Neighbour& entry, Counter why, std::string_view text) {
  entry.on_removed(why, deps_);
  erase(entry, text);
}

void NeighbourTable::path_resolved(PathTable::Resolution&& resolution, TimePoint now) {
  PathWaiters waiters = std::move(resolution.waiters);
  while (!waiters.empty()) {
    Neighbour& entry = static_cast<WaitForPath&>(waiters.front()).entry;
    waiters.pop_front();
    apply(entry,
          resolution.usable ? entry.on_path_ready(deps_, now) : entry.on_path_failed(deps_, now));
  }
}

void NeighbourTable::link_down(TimePoint now) {
  entries_.for_each(
      [&](Neighbour& entry) { apply(entry, entry.on_link_down(deps_, now), "link down"); });
}

std::size_t NeighbourTable::flush() {
  const std::size_t before = entries_.size();
  entries_.for_each([&](Neighbour& entry) {
    if (entry.eviction_class_ != EvictionClass::permanent)
      remove(entry, Counter::drop_neighbour_removed, "deleted by the operator");
  });
  return before - entries_.size();
}

void NeighbourTable::clear(Counter why) {
  entries_.for_each([&](Neighbour& entry) { remove(entry, why, "the link ends"); });
}

void NeighbourTable::tick(TimePoint now) {
  while (Neighbour* const entry = timers_.pop_due(now)) {
    const bool is_failed = entry->eviction_class_ == EvictionClass::failed;
    apply(*entry, is_failed && is_watched(*entry) ? entry->on_gateway_deadline(deps_, now)
                                                  : entry->on_deadline(deps_, now));
  }
}

std::vector<NeighbourInfo> NeighbourTable::list(std::optional<std::uint32_t>& slot,
                                                std::size_t limit, TimePoint now) const {
  std::vector<NeighbourInfo> entries;
  while (entries.size() < limit) {
    const Neighbour* const entry = entries_.next(*slot);
    if (entry == nullptr) {
      slot.reset();
      break;
    }
    entries.push_back(entry->info(now));
  }
  return entries;
}

std::vector<SavedNeighbour> NeighbourTable::save(std::optional<std::uint32_t>& slot,
                                                 std::size_t limit, TimePoint now) const {
  std::vector<SavedNeighbour> entries;
  for (std::size_t visited = 0; visited < limit; ++visited) {
    const Neighbour* const entry = entries_.next(*slot);
    if (entry == nullptr) {
      slot.reset();
      break;
    }
    if (const auto saved = entry->saved(now)) entries.push_back(*saved);
  }
  return entries;
}

}  // namespace ipoib::link
