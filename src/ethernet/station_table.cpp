#include "ethernet/station_table.hpp"

#include <algorithm>

namespace ipoib::ethernet {

using Disposition = StationAddress::Disposition;

StationTable::StationTable(std::size_t limit, const HashKey& key)
    : limit_(limit),
      stations_(limit + kSharedMacs, key),
      addresses_(limit * kAddressesShare, key) {}

StationBudget* StationTable::station(MacAddress mac) {
  StationBudget* known = stations_.find(mac);
  if (known == nullptr && (mac == shared_ || make_room())) known = stations_.emplace(mac, mac);
  if (known == nullptr) {
    ++counters_.drop_station_limit;
    return nullptr;
  }
  known->has_moved = false;
  if (known->addresses == 0) {
    known->unlink();
    without_any_.push_back(*known);
  }
  return known;
}

/// If there are as many stations as may be, the one without an address that was heard longest ago
/// makes room. Returns false if all have addresses.
bool StationTable::make_room() {
  if (stations() < limit_) return true;
  const auto found = std::ranges::find_if(
      without_any_, [this](const StationBudget& one) { return one.mac() != shared_; });
  if (found == without_any_.end()) return false;
  stations_.erase(*found);
  return true;
}

std::size_t StationTable::stations() const {
  return stations_.size() - (has(shared_) ? kSharedMacs : 0);
}

void StationTable::on_moved_out(MacAddress mac) {
  if (StationBudget* const known = stations_.find(mac)) known->has_moved = true;
}

template <class Stimulus>
StationAddress* StationTable::learn(StationBudget& station, const IpAddress& address, TimePoint now,
                                    bool is_claim, Stimulus stimulus) {
  StationAddress* entry = addresses_.find(address);
  const bool is_new = entry == nullptr || (is_claim && entry->mac() != station.mac());
  if (is_new && !station.claims.take(now)) {
    ++counters_.address_limit;
    return entry;
  }
  if (entry == nullptr) entry = create(station, address);
  if (entry == nullptr) return nullptr;
  return call(*entry, stimulus);
}

StationAddress* StationTable::on_seen(StationBudget& station, const IpAddress& address,
                                      TimePoint now) {
  return learn(station, address, now, false, [&, mac = station.mac()](StationAddress& entry) {
    return entry.on_seen(mac, out_, now);
  });
}

StationAddress* StationTable::on_claimed(StationBudget& station, const IpAddress& address,
                                         TimePoint now) {
  return learn(station, address, now, true, [&, mac = station.mac()](StationAddress& entry) {
    return entry.on_claimed(mac, out_, now);
  });
}

StationAddress* StationTable::on_owned(StationBudget& station, const IpAddress& address,
                                       TimePoint now) {
  return learn(station, address, now, true, [&, mac = station.mac()](StationAddress& entry) {
    return entry.on_owned(mac, out_, now);
  });
}

void StationTable::on_owned(MacAddress mac, const IpAddress& address, TimePoint now) {
  StationAddress* const entry = addresses_.find(address);
  if (entry == nullptr || entry->mac() != mac || entry->is_served()) return;
  call(*entry, [&](StationAddress& e) { return e.on_owned(mac, out_, now); });
}

void StationTable::restore(const SavedStation& saved, TimePoint now) {
  StationBudget* const of = station(saved.mac);
  if (of == nullptr || addresses_.find(saved.address) != nullptr) return;
  StationAddress* const entry = create(*of, saved.address);
  if (entry == nullptr) return;
  call(*entry,
       [&](StationAddress& e) { return e.on_restored(saved.is_router, out_, now - saved.idle); });
}

bool StationTable::on_fabric(const IpAddress& address, const HwAddress& host, TimePoint now) {
  StationAddress* const entry = addresses_.find(address);
  if (entry == nullptr) return false;
  const auto* const after =
      call(*entry, [&](StationAddress& e) { return e.on_fabric(host, out_, now); });
  return after != nullptr && after->is_served();
}

void StationTable::on_packet(StationAddress& entry, TimePoint now) {
  call(entry, [now](StationAddress& e) { return e.on_packet(now); });
}

std::optional<MacAddress> StationTable::on_asked(const IpAddress& address, TimePoint now) {
  StationAddress* const entry = addresses_.find(address);
  if (entry == nullptr || entry->state_name() != StationState::reachable) return std::nullopt;
  call(*entry, [&](StationAddress& e) { return e.on_asked(now); });
  return entry->mac();
}

void StationTable::remove(const IpAddress& address) {
  StationAddress* const entry = addresses_.find(address);
  if (entry == nullptr) return;
  entry->on_removed(out_);
  erase(*entry);
}

void StationTable::remove(MacAddress mac, const IpAddress& address) {
  const StationAddress* const entry = addresses_.find(address);
  if (entry != nullptr && entry->mac() == mac) remove(address);
}

void StationTable::tick(TimePoint now) {
  while (StationAddress* const entry = timers_.pop_due(now)) {
    call(*entry, [&](StationAddress& e) { return e.on_deadline(out_, now); });
  }
}

/// If the table is full, the unserved address that was changed longest ago makes room.
StationAddress* StationTable::create(StationBudget& station, const IpAddress& address) {
  const auto make = [&] { return addresses_.emplace(address, address, station.mac(), times_); };
  const std::size_t limit = station.mac() == shared_ ? limit_ : kAddressesPerStation;
  StationAddress* made = station.addresses < limit ? make() : nullptr;
  if (made == nullptr && station.addresses < limit && !unserved_.empty()) {
    ++counters_.evicted;
    erase(unserved_.front());
    made = make();
  }
  if (made == nullptr) {
    ++counters_.address_limit;
    return nullptr;
  }
  if (station.addresses++ == 0) station.unlink();
  return made;
}

template <class Stimulus>
StationAddress* StationTable::call(StationAddress& entry, Stimulus stimulus) {
  const MacAddress mac = entry.mac();
  const auto state = entry.state().index();
  auto disposition = stimulus(entry);
  if (entry.mac() != mac && !change_station(entry, mac)) {
    entry.on_removed(out_);
    disposition = Disposition::erase;
  }
  if (disposition == Disposition::erase) {
    erase(entry);
    return nullptr;
  }
  if (entry.deadline() != entry.armed_for()) timers_.arm(entry, entry.deadline());
  if (entry.state().index() == state && entry.mac() == mac) return &entry;
  ++version_;
  entry.StationListHook::unlink();
  if (!entry.is_served()) unserved_.push_back(entry);
  return &entry;
}

/// Returns false if the station that has the address now has been forgotten.
bool StationTable::change_station(const StationAddress& entry, MacAddress before) {
  leave(before);
  StationBudget* const now_of = stations_.find(entry.mac());
  if (now_of == nullptr) return false;
  if (now_of->addresses++ == 0) now_of->unlink();
  return true;
}

void StationTable::leave(MacAddress station) {
  StationBudget* const known = stations_.find(station);
  if (known != nullptr && --known->addresses == 0) without_any_.push_back(*known);
}

void StationTable::erase(StationAddress& entry) {
  ++version_;
  leave(entry.mac());
  addresses_.erase(entry);
}

StationPage StationTable::list(std::uint32_t from, std::size_t limit, TimePoint now) const {
  StationPage page;
  std::uint32_t slot = from;
  while (page.stations.size() < limit) {
    const StationAddress* const entry = addresses_.next(slot);
    if (entry == nullptr) return page;
    page.stations.push_back(
        {entry->address(), entry->mac(), entry->state_name(), now - entry->heard()});
  }
  page.next = slot;
  return page;
}

std::vector<SavedStation> StationTable::save(TimePoint now) const {
  std::vector<SavedStation> saved;
  std::uint32_t slot = 0;
  while (const StationAddress* const entry = addresses_.next(slot)) {
    if (!entry->is_served()) continue;
    saved.push_back({entry->address(), entry->mac(), entry->is_router(), now - entry->heard()});
  }
  return saved;
}

}  // namespace ipoib::ethernet
