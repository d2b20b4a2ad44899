// The neighbour cache: entries by IP address, their timers, and which entry a full table evicts.
//
// Every stimulus ends in apply(), which arms the timer for the entry's new deadline and moves the
// entry to the list of its eviction class. Only link_down(), flush() and clear() visit all entries.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "link/cache/entry_table.hpp"
#include "link/cache/look_ahead.hpp"
#include "link/neighbour.hpp"
#include "link/next_hops.hpp"
#include "link/path_table.hpp"

namespace ipoib::link {

class NeighbourTable final : public Reachability {
 public:
  using Entry = Neighbour;
  using Key = IpAddress;

  NeighbourTable(const NeighbourDependencies& deps, const HashKey& key);
  NeighbourTable(const NeighbourTable&) = delete;
  NeighbourTable& operator=(const NeighbourTable&) = delete;
  ~NeighbourTable() override;

  [[nodiscard]] Neighbour* find(const IpAddress& address) const { return entries_.find(address); }
  /// Finds an entry; `guess` is the entry that it probably is, or null.
  [[nodiscard]] Neighbour* find(const IpAddress& address, Neighbour* guess) const {
    return guess != nullptr && guess->address() == address ? guess : find(address);
  }
  /// Whether the table is too large for the processor's caches, so that LookAhead saves time.
  [[nodiscard]] bool is_large() const { return entries_.size() >= kCached; }
  using Hint = cache::Hints::Probe;
  [[nodiscard]] Hint hint_of(const IpAddress& key) const { return entries_.hint_of(key); }
  void prefetch(const Hint& hint) const { entries_.prefetch(hint); }
  [[nodiscard]] Neighbour* guess(const Hint& hint) const { return entries_.guess(hint); }
  /// Counts erased entries: pointers to entries are valid while it stays the same.
  [[nodiscard]] std::uint64_t erasures() const { return erasures_; }
  [[nodiscard]] Level level_of(const IpAddress& neighbour) const override;
  void watch(std::set<IpAddress> gateways) override { gateways_ = std::move(gateways); }
  [[nodiscard]] std::uint64_t level_changes() const override { return level_changes_; }
  /// Creates an entry in the state New; the caller must call a stimulus next. Returns null if the
  /// table is full of entries that stay: permanent and parking ones, and for a reply all that the
  /// host has used.
  [[nodiscard]] Neighbour* create(const IpAddress& address, Purpose purpose);

  // --- Stimuli, passed on to the entry, which may be erased by them ----------------------------
  void packet(Neighbour& entry, Frame&& frame, TimePoint now, Purpose purpose = Purpose::packet) {
    apply(entry, entry.on_packet(std::move(frame), purpose, deps_, now));
  }
  void address(Neighbour& entry, const HwAddress& hardware, Evidence evidence, TimePoint now) {
    apply(entry, entry.on_address(hardware, evidence, deps_, now));
  }
  void solicit(Neighbour& entry, TimePoint now) { apply(entry, entry.on_solicit(deps_, now)); }
  void contradicted(Neighbour& entry, TimePoint now) {
    apply(entry, entry.on_contradicted(deps_, now));
  }
  void send_reply(Neighbour& entry, Frame&& reply, TimePoint now) {
    apply(entry, entry.on_reply(std::move(reply), deps_, now));
  }
  void set_permanent(Neighbour& entry, Route&& route, TimePoint now) {
    apply(entry, entry.on_set_permanent(std::move(route), deps_, now));
  }
  void restore(Neighbour& entry, const SavedNeighbour& saved, PathRef&& path, TimePoint now);
  void remove(Neighbour& entry, Counter why, std::string_view text);  ///< `text` says why
  /// A path request is complete: informs the entries that wait for it.
  void path_resolved(PathTable::Resolution&& resolution, TimePoint now);
  void link_down(TimePoint now);
  std::size_t flush();      ///< removes all but the permanent entries; returns how many
  void clear(Counter why);  ///< removes everything
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const { return timers_.next(); }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t count(EvictionClass of) const {
    return counts_[static_cast<std::size_t>(of)];
  }
  /// Both methods go on from `slot`, which they set to the next one, or to nullopt.
  [[nodiscard]] std::vector<NeighbourInfo> list(std::optional<std::uint32_t>& slot,
                                                std::size_t limit, TimePoint now) const;
  [[nodiscard]] std::vector<SavedNeighbour> save(std::optional<std::uint32_t>& slot,
                                                 std::size_t limit, TimePoint now) const;

 private:
  using List = boost::intrusive::list<Neighbour, boost::intrusive::base_hook<NeighbourListHook>,
                                      boost::intrusive::constant_time_size<false>>;
  /// Active entries that an eviction compares.
  static constexpr std::size_t kEvictionScan = 16;
  static constexpr std::size_t kCached = 512;  ///< entries that stay in the caches

  void apply(Neighbour& entry, Disposition disposition, std::string_view why_erased = "unused");
  void reclassify(Neighbour& entry);
  [[nodiscard]] bool is_watched(const Neighbour& entry) const {
    return gateways_.contains(entry.address());
  }
  [[nodiscard]] List& list_of(EvictionClass of) { return lists_[static_cast<std::size_t>(of)]; }
  [[nodiscard]] Neighbour* choose_victim(Purpose purpose);
  [[nodiscard]] Neighbour* choose_active();
  [[nodiscard]] Neighbour* choose_rival(const IpAddress& address, Purpose purpose) const;
  void erase(Neighbour& entry, std::string_view why);
  NeighbourDependencies deps_;
  cache::EntryTable<Neighbour, &Neighbour::address> entries_;
  cache::TimerQueue<Neighbour> timers_;
  /// Entries by class. Active ones have no order; in other classes the longest member comes first.
  std::array<List, kEvictionClasses> lists_;
  std::array<std::size_t, kEvictionClasses> counts_{};
  std::uint64_t erasures_ = 0;
  std::set<IpAddress> gateways_;  ///< watched for NextHops
  std::uint64_t level_changes_ = 0;
};

using LookAhead = cache::LookAhead<NeighbourTable>;

}  // namespace ipoib::link
