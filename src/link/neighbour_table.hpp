// The neighbour cache: entries by IP address, their deadlines, and who goes when it is full.
//
// Every stimulus passes through apply(), which afterwards puts the entry where its new state
// belongs: into the queue of deadlines, and into one of three lists by what it would cost to lose
// it. No operation looks at all entries, but those on the whole link.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "link/cache/entry_table.hpp"
#include "link/cache/look_ahead.hpp"
#include "link/neighbour.hpp"
#include "link/path_table.hpp"

namespace ipoib::link {

class NeighbourTable {
 public:
  using Entry = Neighbour;
  using Key = IpAddress;

  explicit NeighbourTable(const NeighbourEnvironment& env);
  NeighbourTable(const NeighbourTable&) = delete;
  NeighbourTable& operator=(const NeighbourTable&) = delete;
  ~NeighbourTable();

  [[nodiscard]] Neighbour* find(const IpAddress& address) const { return entries_.find(address); }
  /// The same, with the entry that it may be.
  [[nodiscard]] Neighbour* find(const IpAddress& address, Neighbour* guess) const {
    return guess != nullptr && guess->address() == address ? guess : find(address);
  }
  /// Larger than what stays in the processor's caches anyway: looking ahead pays.
  [[nodiscard]] bool is_large() const { return entries_.size() >= kCached; }
  // As those of EntryTable.
  using Probe = cache::EntryTable<Neighbour, &Neighbour::address>::Probe;
  [[nodiscard]] Probe probe_of(const IpAddress& address) const {
    return entries_.probe_of(address);
  }
  void prefetch(const Probe& probe) const { entries_.prefetch(probe); }
  [[nodiscard]] Neighbour* guess(const Probe& probe) const { return entries_.guess(probe); }
  /// How many entries are gone: as long as it stays the same, all are where they were.
  [[nodiscard]] std::uint64_t erasures() const { return erasures_; }
  /// Makes an entry in the state New, for a stimulus that follows at once. Null when there is no
  /// room for it: all others are permanent, or have frames waiting.
  [[nodiscard]] Neighbour* create(const IpAddress& address);

  // --- Stimuli, handed on to the entry, which may be gone afterwards ---------------------------
  void packet(Neighbour& entry, Frame&& frame, TimePoint now) {
    apply(entry, entry.on_packet(std::move(frame), env_, now));
  }
  void address(Neighbour& entry, const HwAddress& hardware, Evidence evidence, TimePoint now) {
    apply(entry, entry.on_address(hardware, evidence, env_, now));
  }
  void contradicted(Neighbour& entry, TimePoint now) {
    apply(entry, entry.on_contradicted(env_, now));
  }
  void reply_owed(Neighbour& entry, Frame&& reply, TimePoint now) {
    apply(entry, entry.on_reply_owed(std::move(reply), env_, now));
  }
  void set_permanent(Neighbour& entry, neighbour_state::Route&& route, TimePoint now) {
    apply(entry, entry.on_set_permanent(std::move(route), env_, now));
  }
  void remove(Neighbour& entry, Counter why);
  /// The question for a path is answered: tells who waits for it.
  void path_answered(PathTable::Answered&& answered, TimePoint now);
  void link_down(TimePoint now);
  /// Removes all but the permanent entries; returns how many.
  std::size_t flush();
  /// Removes everything.
  void clear(Counter why);
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const { return timers_.next(); }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// Entries in the state Incomplete.
  [[nodiscard]] std::size_t unresolved() const { return unresolved_; }
  [[nodiscard]] NeighbourPage list(NeighbourCursor from, std::size_t limit, TimePoint now) const;

 private:
  using List = boost::intrusive::list<Neighbour, boost::intrusive::base_hook<NeighbourListHook>,
                                      boost::intrusive::constant_time_size<false>>;
  /// How many entries of the list of the living are looked at for one that is idle.
  static constexpr std::size_t kEvictionScan = 16;
  static constexpr std::size_t kCached = 512;

  void apply(Neighbour& entry, Fate fate);
  void place(Neighbour& entry);
  [[nodiscard]] List* list_of(NeighbourShelf shelf);
  [[nodiscard]] Neighbour* victim();
  void erase(Neighbour& entry);
  NeighbourEnvironment env_;
  cache::EntryTable<Neighbour, &Neighbour::address> entries_;
  cache::TimerQueue<Neighbour> timers_;
  List failed_;  ///< in the order of failing
  List stale_;   ///< in the order of their last use
  List living_;  ///< in no order
  std::size_t unresolved_ = 0;
  std::uint64_t erasures_ = 0;
};

using LookAhead = cache::LookAhead<NeighbourTable>;

}  // namespace ipoib::link
