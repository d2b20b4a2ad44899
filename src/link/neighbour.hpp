// One entry of the neighbour cache: a state machine, docs/states.md, "Neighbour".
//
// An entry acts through its dependencies: it solicits by ARP or Neighbour Discovery, requests
// paths, and appends frames to send. It does not know its table: each stimulus returns whether the
// table keeps the entry.
#pragma once

#include <boost/intrusive/list_hook.hpp>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ipoib/ip.hpp"
#include "link/neighbour_dependencies.hpp"
#include "link/neighbour_info.hpp"
#include "link/neighbour_states.hpp"
#include "link/saved_cache.hpp"

namespace ipoib::link {

using NeighbourListHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<class NeighbourListTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

/// The order in which a full table evicts entries, from failed to active ones; it evicts no others.
/// `unused` and `pending` are stale and resolving entries that the host has not used: messages of
/// others have created them, and may evict only `failed` and `unused` ones.
enum class EvictionClass : std::uint8_t {
  none,
  failed,
  unused,
  stale,
  pending,
  active,
  unresolved,
  permanent,
};
inline constexpr std::size_t kEvictionClasses =
    static_cast<std::size_t>(EvictionClass::permanent) + 1;

/// An entry of the neighbour cache, in two cache lines; data that few entries need is allocated by
/// their state.
class Neighbour : public cache::Timed, public NeighbourListHook, public NeighbourStateTypes {
 public:
  using Dependencies = NeighbourDependencies;

  explicit Neighbour(const IpAddress& address) : address_(address) {}
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  /// The fast path of on_packet(): sends the frame and returns true if nothing else has to be done;
  /// otherwise does not touch the frame.
  [[nodiscard]] bool forward(Frame& frame, std::vector<Outgoing>& sends, TimePoint now) {
    const auto* const route = fast_path_route();
    const PathData* const path = route == nullptr ? nullptr : route->path->ready();
    // The first use changes the class of eviction.
    if (path == nullptr || used_ == kNotYet || frame.datagram_size() > path->mtu) return false;
    used_ = now;
    count_use();
    sends.push_back(Outgoing{path->handle, route->qpn, std::move(frame)});
    return true;
  }

  /// Prefetches what forward() and sending_path() read.
  void prefetch() const { __builtin_prefetch(&state_); }
  /// The path of an entry in a state of ordinary traffic, for prefetching; else null.
  [[nodiscard]] const Path* sending_path() const {
    if (const auto* const route = fast_path_route()) return &*route->path;
    const auto* const stale = std::get_if<Stale>(&state_);
    return stale != nullptr ? &*stale->route.path : nullptr;
  }

  // --- Stimuli; the rows of docs/states.md. Frames begin with the encapsulation header ---------
  [[nodiscard]] Disposition on_packet(Frame&& frame, Purpose purpose, const Dependencies& deps,
                                      TimePoint now);
  [[nodiscard]] Disposition on_address(const HwAddress& hardware, Evidence evidence,
                                       const Dependencies& deps, TimePoint now);
  /// The host wants to know the address, or to confirm it.
  [[nodiscard]] Disposition on_solicit(const Dependencies& deps, TimePoint now);
  /// An advertisement without the override flag names another address (RFC 4861, 7.2.5).
  [[nodiscard]] Disposition on_contradicted(const Dependencies& deps, TimePoint now);
  [[nodiscard]] Disposition on_reply(Frame&& reply, const Dependencies& deps, TimePoint now);
  [[nodiscard]] Disposition on_path_ready(const Dependencies& deps, TimePoint now);
  [[nodiscard]] Disposition on_path_failed(const Dependencies& deps, TimePoint now);
  [[nodiscard]] Disposition on_deadline(const Dependencies& deps, TimePoint now);
  /// The deadline of a failed gateway that another one replaces has come.
  [[nodiscard]] Disposition on_gateway_deadline(const Dependencies& deps, TimePoint now);
  [[nodiscard]] Disposition on_link_down(const Dependencies& deps, TimePoint now);
  [[nodiscard]] Disposition on_set_permanent(Route&& route, const Dependencies& deps,
                                             TimePoint now);
  /// The entry is new, and another daemon has had it; the path can be used.
  [[nodiscard]] Disposition on_restored(const SavedNeighbour& saved, Route&& route,
                                        const Dependencies& deps, TimePoint now);
  /// The table is about to erase the entry: drops its parked frames.
  void on_removed(Counter why, const Dependencies& deps);
  using ChangeKind = NeighbourChange::Kind;
  void report(ChangeKind kind, std::string_view why, const Dependencies& deps) const;

  [[nodiscard]] const IpAddress& address() const { return address_; }
  [[nodiscard]] const State& state() const { return state_; }
  [[nodiscard]] NeighbourState state_name() const;
  [[nodiscard]] EvictionClass current_eviction_class() const;
  [[nodiscard]] TimePoint deadline() const;
  [[nodiscard]] TimePoint last_use() const { return used_; }
  /// Whether it has an address that was learnt less than the lock time ago. Confirmations do not
  /// prolong that, or a stranger could keep a false address.
  [[nodiscard]] bool is_locked(Duration lock_time, TimePoint now) const {
    return route() != nullptr && now < learnt_ + lock_time;
  }
  [[nodiscard]] std::size_t parked() const;
  /// Null in the states without a hardware address.
  [[nodiscard]] const Route* route() const;
  [[nodiscard]] NeighbourInfo info(TimePoint now) const;
  /// The entry as on_restored() takes it; nullopt without a usable path.
  [[nodiscard]] std::optional<SavedNeighbour> saved(TimePoint now) const;

 private:
  /// The route, if sending a packet does not change the state.
  [[nodiscard]] const Route* fast_path_route() const {
    if (const auto* const reachable = std::get_if<Reachable>(&state_)) return &reachable->route;
    const auto* const permanent = std::get_if<Permanent>(&state_);
    return permanent != nullptr && permanent->wait == nullptr ? &permanent->route : nullptr;
  }
  [[nodiscard]] ParkedFrames* parked_frames() const;
  Disposition become(State&& next, std::string_view why, const Dependencies& deps);
  Disposition adopt(const HwAddress& hardware, Evidence evidence, ParkedFrames&& parked,
                    const Dependencies& deps, TimePoint now);
  Disposition become_resolved(Route&& route, Evidence evidence, ParkedFrames&& parked,
                              const Dependencies& deps, TimePoint now);
  Disposition become_reachable(Route&& route, const Dependencies& deps, TimePoint now);
  Disposition become_stale(Route&& route, std::string_view why, const Dependencies& deps,
                           TimePoint now);
  Disposition become_failed(std::string_view why, const Dependencies& deps, TimePoint now);
  void send(Frame&& frame, Purpose purpose, const Route& route, const Dependencies& deps,
            TimePoint now);
  void send_or_park(Frame&& frame, Purpose purpose, Permanent& state, const Dependencies& deps,
                    TimePoint now);
  Disposition first_request(std::unique_ptr<ParkedFrames> parked, const Dependencies& deps,
                            TimePoint now);
  Disposition probe(Route&& route, std::string_view why, const Dependencies& deps, TimePoint now);
  Disposition next_request(Incomplete& state, const Dependencies& deps, TimePoint now);
  Disposition next_probe(Probing& state, const Dependencies& deps, TimePoint now);

  friend class NeighbourTable;
  static constexpr TimePoint kNotYet = TimePoint::min();

  /// Increments a count of 64 bits, of which only half fits into the data path's cache line.
  void count_use() {
    if (++uses_low_ == 0) ++uses_high_;
  }

  TimePoint confirmed_ = kNotYet;
  TimePoint learnt_ = kNotYet;  ///< when the address was adopted
  std::uint32_t uses_high_ = 0;
  // The members from here on are what the data path uses: one cache line.
  alignas(64) [[no_unique_address]] State state_;  ///< address_ lies in its tail padding
  IpAddress address_;
  EvictionClass eviction_class_ = EvictionClass::none;  ///< for which the table has listed it
  std::uint32_t uses_low_ = 0;  ///< packets of the host to this neighbour; a large packet is one
  TimePoint used_ = kNotYet;
};
static_assert(sizeof(Neighbour) == 128, "two cache lines");

}  // namespace ipoib::link
