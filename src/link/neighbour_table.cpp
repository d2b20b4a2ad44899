#include "link/neighbour_table.hpp"

#include "ipoib/overloaded.hpp"

namespace ipoib::link {
namespace {

NeighbourShelf shelf_for(const neighbour_state::State& state) {
  using namespace neighbour_state;
  return std::visit(Overloaded{
                        [](const New&) { return NeighbourShelf::none; },
                        [](const Incomplete&) { return NeighbourShelf::unresolved; },
                        [](const Resolving&) { return NeighbourShelf::living; },
                        [](const Reachable&) { return NeighbourShelf::living; },
                        [](const Stale&) { return NeighbourShelf::stale; },
                        [](const Delay&) { return NeighbourShelf::living; },
                        [](const Probing&) { return NeighbourShelf::living; },
                        [](const Failed&) { return NeighbourShelf::failed; },
                        [](const Permanent&) { return NeighbourShelf::permanent; },
                    },
                    state);
}

}  // namespace

NeighbourTable::NeighbourTable(const NeighbourEnvironment& env)
    : env_(env), entries_(env.config.limits.neighbours) {}

NeighbourTable::~NeighbourTable() { clear(Counter::drop_link_down); }

Neighbour* NeighbourTable::create(const IpAddress& address) {
  if (entries_.size() >= env_.config.limits.neighbours) {
    Neighbour* const old = victim();
    if (old == nullptr) return nullptr;
    env_.out.counters.add(Counter::neighbours_evicted);
    remove(*old, Counter::drop_neighbour_removed);
  }
  env_.out.counters.add(Counter::neighbours_created);
  return &entries_.emplace(address, address);
}

/// Failed ones first, then those idle for longest, then one of the living that is idle for long.
Neighbour* NeighbourTable::victim() {
  if (!failed_.empty()) return &failed_.front();
  if (!stale_.empty()) return &stale_.front();
  Neighbour* idlest = nullptr;
  Neighbour* first_seen = nullptr;
  for (std::size_t i = 0; i < kEvictionScan && !living_.empty(); ++i) {
    Neighbour& seen = living_.front();
    if (&seen == first_seen) break;
    if (first_seen == nullptr) first_seen = &seen;
    living_.pop_front();
    living_.push_back(seen);
    if (seen.parked() > 0) continue;
    if (idlest == nullptr || seen.last_use() < idlest->last_use()) idlest = &seen;
  }
  return idlest;
}

void NeighbourTable::apply(Neighbour& entry, Fate fate) {
  if (fate == Fate::erase) {
    erase(entry);
    return;
  }
  timers_.arm(entry, entry.deadline());
  place(entry);
}

void NeighbourTable::place(Neighbour& entry) {
  const NeighbourShelf shelf = shelf_for(entry.state_);
  if (shelf == entry.shelf_) return;
  if (entry.shelf_ == NeighbourShelf::unresolved) --unresolved_;
  if (shelf == NeighbourShelf::unresolved) ++unresolved_;
  if (entry.NeighbourListHook::is_linked()) entry.NeighbourListHook::unlink();
  entry.shelf_ = shelf;
  if (List* const list = list_of(shelf)) list->push_back(entry);
}

NeighbourTable::List* NeighbourTable::list_of(NeighbourShelf shelf) {
  switch (shelf) {
    case NeighbourShelf::failed:
      return &failed_;
    case NeighbourShelf::stale:
      return &stale_;
    case NeighbourShelf::living:
      return &living_;
    case NeighbourShelf::none:
    case NeighbourShelf::unresolved:
    case NeighbourShelf::permanent:
      return nullptr;
  }
  return nullptr;
}

void NeighbourTable::erase(Neighbour& entry) {
  if (entry.shelf_ == NeighbourShelf::unresolved) --unresolved_;
  ++erasures_;
  entries_.erase(entry);
}

void NeighbourTable::remove(Neighbour& entry, Counter why) {
  entry.on_removed(why, env_);
  erase(entry);
}

void NeighbourTable::path_answered(PathTable::Answered&& answered, TimePoint now) {
  PathWaiters waiters = std::move(answered.waiters);
  while (!waiters.empty()) {
    Neighbour& entry = static_cast<neighbour_state::Wait&>(waiters.front()).entry;
    waiters.pop_front();
    apply(entry,
          answered.usable ? entry.on_path_ready(env_, now) : entry.on_path_failed(env_, now));
  }
}

void NeighbourTable::link_down(TimePoint now) {
  entries_.for_each([&](Neighbour& entry) { apply(entry, entry.on_link_down(env_, now)); });
}

std::size_t NeighbourTable::flush() {
  const std::size_t before = entries_.size();
  entries_.for_each([&](Neighbour& entry) {
    if (entry.shelf_ != NeighbourShelf::permanent) remove(entry, Counter::drop_neighbour_removed);
  });
  return before - entries_.size();
}

void NeighbourTable::clear(Counter why) {
  entries_.for_each([&](Neighbour& entry) { remove(entry, why); });
}

void NeighbourTable::tick(TimePoint now) {
  while (Neighbour* const entry = timers_.pop_due(now)) {
    apply(*entry, entry->on_deadline(env_, now));
  }
}

NeighbourPage NeighbourTable::list(NeighbourCursor from, std::size_t limit, TimePoint now) const {
  NeighbourPage page;
  std::uint32_t place = from.place;
  while (page.entries.size() < limit) {
    const Neighbour* const entry = entries_.next(place);
    if (entry == nullptr) return page;
    page.entries.push_back(entry->info(now));
  }
  page.next = NeighbourCursor{place};
  return page;
}

}  // namespace ipoib::link
