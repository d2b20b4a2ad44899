// One entry of the neighbour cache: a state machine, docs/states.md, "Neighbour".
//
// An entry acts through its Environment: it solicits by ARP or ND, asks for paths, and appends
// sends. It knows nothing of the table that it is in: each stimulus returns whether the entry is to
// go.
#pragma once

#include <boost/intrusive/list_hook.hpp>
#include <optional>
#include <string_view>

#include "ipoib/ip.hpp"
#include "link/neighbour_environment.hpp"
#include "link/neighbour_info.hpp"
#include "link/neighbour_states.hpp"

namespace ipoib::link {

using NeighbourListHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<class NeighbourListTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

/// Where a table keeps an entry, by what it would cost to lose it.
enum class NeighbourShelf : std::uint8_t { none, failed, stale, living, unresolved, permanent };

/// Small, since there are many: what only some need lies in its state, or behind that.
class Neighbour : public cache::Timed, public NeighbourListHook {
 public:
  using Environment = NeighbourEnvironment;

  explicit Neighbour(const IpAddress& address) : address_(address) {}
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  /// The data path's way in: sends if nothing else is to be done, else leaves the frame alone.
  [[nodiscard]] bool forward(Frame& frame, std::vector<Outgoing>& sends, TimePoint now) {
    const auto* const route = plain_route();
    const PathData* const path = route == nullptr ? nullptr : route->path->ready();
    if (path == nullptr || frame.datagram_size() > path->mtu) return false;
    used_ = now;
    sends.push_back(Outgoing{path->handle, route->qpn, std::move(frame)});
    return true;
  }

  /// Has the processor fetch what forward() and sending_path() read.
  void prefetch() const { __builtin_prefetch(&state_); }
  /// That of an entry which packets come from or go to without more ado, else null.
  [[nodiscard]] const Path* sending_path() const {
    if (const auto* const route = plain_route()) return &*route->path;
    const auto* const stale = std::get_if<neighbour_state::Stale>(&state_);
    return stale != nullptr ? &*stale->route.path : nullptr;
  }

  // --- Stimuli; the rows of docs/states.md. Frames begin with the encapsulation header ---------
  [[nodiscard]] Fate on_packet(Frame&& frame, const Environment& env, TimePoint now);
  [[nodiscard]] Fate on_address(const HwAddress& hardware, Evidence evidence,
                                const Environment& env, TimePoint now);
  /// Somebody says, and not for certain, that it is elsewhere (RFC 4861, 7.2.5).
  [[nodiscard]] Fate on_contradicted(const Environment& env, TimePoint now);
  [[nodiscard]] Fate on_reply_owed(Frame&& reply, const Environment& env, TimePoint now);
  [[nodiscard]] Fate on_path_ready(const Environment& env, TimePoint now);
  [[nodiscard]] Fate on_path_failed(const Environment& env, TimePoint now);
  [[nodiscard]] Fate on_deadline(const Environment& env, TimePoint now);
  [[nodiscard]] Fate on_link_down(const Environment& env, TimePoint now);
  [[nodiscard]] Fate on_set_permanent(neighbour_state::Route&& route, const Environment& env,
                                      TimePoint now);
  /// Before it goes for another reason than its own.
  void on_removed(Counter why, const Environment& env);

  [[nodiscard]] const IpAddress& address() const { return address_; }
  [[nodiscard]] const neighbour_state::State& state() const { return state_; }
  [[nodiscard]] NeighbourState state_name() const;
  [[nodiscard]] TimePoint deadline() const;
  [[nodiscard]] TimePoint last_use() const { return used_; }
  [[nodiscard]] std::size_t parked() const;
  /// Null while there is no address.
  [[nodiscard]] const neighbour_state::Route* route() const;
  [[nodiscard]] NeighbourInfo info(TimePoint now) const;

 private:
  /// Of a neighbour that a packet is sent to without another effect.
  [[nodiscard]] const neighbour_state::Route* plain_route() const {
    using namespace neighbour_state;
    if (const auto* const reachable = std::get_if<Reachable>(&state_)) return &reachable->route;
    const auto* const permanent = std::get_if<Permanent>(&state_);
    return permanent != nullptr && permanent->wait == nullptr ? &permanent->route : nullptr;
  }
  Fate become(neighbour_state::State&& next, std::string_view why, const Environment& env);
  Fate adopt(const HwAddress& hardware, Evidence evidence, ParkedFrames&& parked,
             const Environment& env, TimePoint now);
  Fate settle(neighbour_state::Route&& route, Evidence evidence, ParkedFrames&& parked,
              const Environment& env, TimePoint now);
  Fate confirm(neighbour_state::Route&& route, const Environment& env, TimePoint now);
  Fate fail(std::string_view why, const Environment& env, TimePoint now);
  Fate unconfirm(neighbour_state::Route&& route, std::string_view why, const Environment& env,
                 TimePoint now);
  Fate make_permanent(neighbour_state::Route&& route, ParkedFrames&& parked, const Environment& env,
                      TimePoint now);
  void send(Frame&& frame, const neighbour_state::Route& route, const Environment& env,
            TimePoint now);
  void send_or_park(Frame&& frame, Purpose purpose, neighbour_state::Permanent& state,
                    const Environment& env, TimePoint now);
  Fate first_request(Frame&& frame, const Environment& env, TimePoint now);
  Fate next_request(neighbour_state::Incomplete& state, const Environment& env, TimePoint now);
  Fate next_probe(neighbour_state::Probing& state, const Environment& env, TimePoint now);

  friend class NeighbourTable;
  static constexpr TimePoint kNeverYet = TimePoint::min();

  TimePoint confirmed_ = kNeverYet;
  // From here on it is what the data path works with: one line of the processor's caches.
  alignas(64) [[no_unique_address]] neighbour_state::State
      state_;  ///< the next one lies in what it leaves free
  IpAddress address_;
  NeighbourShelf shelf_ = NeighbourShelf::none;  ///< its table's
  TimePoint used_ = kNeverYet;
};
static_assert(sizeof(Neighbour) == 128, "two lines");

}  // namespace ipoib::link
