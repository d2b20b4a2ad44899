// The stations behind the TAP: their addresses with timers, and a budget for each station, which is
// known by its MAC.
//
// Strangers choose both kinds of keys. So both tables have a fixed size and a keyed hash with a
// bounded number of steps; an entry that is served is never evicted, and whoever fills the table
// evicts only unconfirmed entries.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ethernet/counters.hpp"
#include "ethernet/station_address.hpp"
#include "ethernet/station_budget.hpp"
#include "ethernet/station_page.hpp"
#include "link/cache/entry_table.hpp"

namespace ipoib::ethernet {

class StationTable {
 public:
  static constexpr std::size_t kAddressesPerStation = 32;
  /// The number of addresses in all for each station that may be known.
  static constexpr std::size_t kAddressesShare = 4;
  /// Slots for MACs that are not limited: that of the host.
  static constexpr std::size_t kSharedMacs = 1;

  /// `limit` is the maximum number of stations, at least 1.
  StationTable(std::size_t limit, const HashKey& key);
  StationTable(const StationTable&) = delete;
  StationTable& operator=(const StationTable&) = delete;

  // --- Stimuli ---------------------------------------------------------------------------------
  /// Returns the budget of a station that has sent a frame; null if there is no room for another
  /// station. The result is valid until the next call.
  [[nodiscard]] StationBudget* station(MacAddress mac);
  /// The station has sent a packet with this source address. Returns the address's entry, or null
  /// if it was not learnt; valid as long as version() is the same.
  StationAddress* on_seen(StationBudget& station, const IpAddress& address, TimePoint now);
  /// The station says that it has the address.
  StationAddress* on_claimed(StationBudget& station, const IpAddress& address, TimePoint now);
  /// An interface of the host with the station's MAC has the address.
  StationAddress* on_owned(StationBudget& station, const IpAddress& address, TimePoint now);
  /// Calls on_owned() if there is an entry with this MAC.
  void on_owned(MacAddress mac, const IpAddress& address, TimePoint now);
  /// Serves an address as another daemon has done; not if it is known here, or there is no room.
  void restore(const SavedStation& saved, TimePoint now);
  /// A host of the fabric says that it has the address. Returns whether a station keeps it, at
  /// least for now.
  bool on_fabric(const IpAddress& address, const HwAddress& host, TimePoint now);
  /// A request of the fabric for the address is passed on. Returns the MAC that it goes to; nullopt
  /// if it goes to all.
  [[nodiscard]] std::optional<MacAddress> on_asked(const IpAddress& address, TimePoint now);
  /// A packet goes to the address of an entry that is_silent().
  void on_packet(StationAddress& entry, TimePoint now);
  void set_router(StationAddress& entry, bool is_router) { entry.set_router(is_router, out_); }
  /// The host has the address.
  void remove(const IpAddress& address);
  /// Removes the address if the station with this MAC has it.
  void remove(MacAddress mac, const IpAddress& address);
  /// A host of the fabric has an address of the station with this MAC.
  void on_moved_out(MacAddress mac);
  /// Sets the MAC of the host, which many stations may have, too. So it has no limit of addresses,
  /// and takes no station's room.
  void set_shared(MacAddress mac) { shared_ = mac; }
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const { return timers_.next(); }

  // --- State -----------------------------------------------------------------------------------
  [[nodiscard]] StationAddress* find(const IpAddress& address) const {
    return addresses_.find(address);
  }
  /// Changes whenever an entry changes its state or MAC, or is erased.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  /// The output so far. The caller takes it out.
  [[nodiscard]] StationOutput& out() { return out_; }
  [[nodiscard]] StationCounters& counters() { return counters_; }
  [[nodiscard]] const StationCounters& counters() const { return counters_; }
  /// The first address in `slot` or later, or null; sets `slot` to the one after it.
  [[nodiscard]] const StationAddress* next(std::uint32_t& slot) const {
    return addresses_.next(slot);
  }
  /// The number of all events so far, by kind.
  [[nodiscard]] const std::array<std::uint64_t, kStationEvents>& event_counts() const {
    return out_.event_counts;
  }
  [[nodiscard]] std::size_t size() const { return addresses_.size(); }
  /// The number of stations, without the host.
  [[nodiscard]] std::size_t stations() const;
  [[nodiscard]] bool has_heard_any() const { return stations_.size() > 0; }
  [[nodiscard]] bool has(MacAddress station) const { return stations_.find(station) != nullptr; }
  /// Whether the station has an address here, or seems to have one. False once one of its addresses
  /// has moved to the fabric: the station may have moved with the others, too.
  [[nodiscard]] bool has_addresses(MacAddress station) const {
    const StationBudget* const known = stations_.find(station);
    return known != nullptr && known->addresses > 0 && !known->has_moved;
  }
  /// At most `limit` addresses, from the slot `from` on.
  [[nodiscard]] StationPage list(std::uint32_t from, std::size_t limit, TimePoint now) const;
  /// The addresses that are served.
  [[nodiscard]] std::vector<SavedStation> save(TimePoint now) const;

 private:
  using Addresses = link::cache::EntryTable<StationAddress, &StationAddress::address>;
  using AddressList =
      boost::intrusive::list<StationAddress, boost::intrusive::base_hook<StationListHook>,
                             boost::intrusive::constant_time_size<false>>;
  using StationList =
      boost::intrusive::list<StationBudget, boost::intrusive::base_hook<StationBudgetHook>,
                             boost::intrusive::constant_time_size<false>>;

  template <class Stimulus>
  StationAddress* learn(StationBudget& station, const IpAddress& address, TimePoint now,
                        bool is_claim, Stimulus stimulus);
  [[nodiscard]] bool make_room();
  [[nodiscard]] StationAddress* create(StationBudget& station, const IpAddress& address);
  /// Calls a stimulus of an entry, and carries out what follows. Returns null if that has removed
  /// the entry.
  template <class Stimulus>
  StationAddress* call(StationAddress& entry, Stimulus stimulus);
  [[nodiscard]] bool change_station(const StationAddress& entry, MacAddress before);
  void leave(MacAddress station);
  void erase(StationAddress& entry);

  StationTimes times_;
  MacAddress shared_;
  std::size_t limit_;
  link::cache::EntryTable<StationBudget, &StationBudget::mac> stations_;
  Addresses addresses_;
  link::cache::TimerQueue<StationAddress> timers_;
  AddressList unserved_;     ///< the one that may be evicted first is in front
  StationList without_any_;  ///< stations without an address; the one heard longest ago in front
  StationOutput out_;
  StationCounters counters_;
  std::uint64_t version_ = 0;
};

}  // namespace ipoib::ethernet
