// An IP address behind the TAP, which a station has or seems to have: its state machine
// (docs/states.md, "Station address").
//
// A station is a virtual machine, a container or another host behind a bridge of which the TAP is a
// port. Its addresses are learnt from what it sends. The link serves an address as long as its
// station has it: it announces it, and answers for it.
//   - What a station says by ARP or Neighbour Discovery is a claim. Before the address is served,
//     the fabric is asked whether it is in use there.
//   - A source address of IP packets may be that of a host behind the station, if it is a router.
//     So the station is asked whether it has the address.
//   - If another station, or a host of the fabric, claims a served address, the one that has it is
//     asked. It keeps the address if it answers: the conflict is reported, and nobody defends it.
//     Otherwise the address has moved.
//   - If a packet comes for a station that has been silent, it is asked, and if it does not answer,
//     the fabric: the station may have moved to another host without saying so.
//   - Packets from the address with another MAC are no claim: a host may have several MACs (weak
//     host model, RFC 1122, 3.3.4.2), and several hosts may send from one address. The station that
//     has the address is asked only if it is silent.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "ethernet/station_events.hpp"
#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "ipoib/time.hpp"
#include "link/cache/timer_queue.hpp"

namespace ipoib::ethernet {

struct StationTimes {
  Duration reachable = std::chrono::minutes(5);     ///< without a frame from it, before it is asked
  Duration probe = std::chrono::seconds(1);         ///< between two requests to a station
  Duration check = std::chrono::milliseconds(100);  ///< for hosts of the fabric to answer
  Duration contest =
      std::chrono::milliseconds(100);  ///< between two requests about a contested or suspect one
  Duration silent = std::chrono::milliseconds(250);  ///< then a packet makes it suspect
  Duration search = std::chrono::milliseconds(500);  ///< for the fabric to answer about it
  Duration quiet = std::chrono::seconds(1);          ///< then another station may be asked about
  Duration refused = std::chrono::seconds(30);  ///< for which an address of the fabric is ignored
  Duration recheck = std::chrono::seconds(1);   ///< of a refused address that is claimed again
  Duration routed = std::chrono::minutes(1);    ///< without a packet from that address
  unsigned probes = 3;
};

enum class StationState : std::uint8_t {
  unconfirmed,
  routed,
  checking,
  reachable,
  probing,
  contested,
  refused
};
[[nodiscard]] const char* name(StationState state);
/// Whether the link speaks for an address in this state.
[[nodiscard]] constexpr bool is_served(StationState state) {
  return state == StationState::reachable || state == StationState::probing ||
         state == StationState::contested;
}

using StationListHook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class StationAddress : public link::cache::Timed, public StationListHook {
 public:
  enum class Disposition : std::uint8_t { keep, erase };

  struct Unconfirmed {
    unsigned probes = 1;
  };
  struct Routed {};
  struct Checking {
    bool again = false;     ///< a host has answered, and is asked again
    bool answered = false;  ///< by a host of the fabric
  };
  struct Reachable {};
  struct Probing {
    unsigned probes = 1;
    bool may_leave = true;     ///< false if only a packet has come for it: it may sleep
    bool is_searched = false;  ///< the fabric was asked where it is
  };
  struct Contested {
    StationRival rival;
    bool is_claim = true;  ///< the rival has not only sent packets from the address
    unsigned probes = 1;
  };
  struct Refused {};
  struct New {};
  using State =
      std::variant<New, Unconfirmed, Routed, Checking, Reachable, Probing, Contested, Refused>;

  StationAddress(const IpAddress& address, MacAddress mac, const StationTimes& times)
      : times_(times), address_(address), mac_(mac) {}

  // --- Stimuli ---------------------------------------------------------------------------------
  /// A station sends a packet with this source address.
  [[nodiscard]] Disposition on_seen(MacAddress mac, StationOutput& out, TimePoint now);
  /// ARP or Neighbour Discovery of a station says that it has the address.
  [[nodiscard]] Disposition on_claimed(MacAddress mac, StationOutput& out, TimePoint now);
  /// An interface of the host with this MAC has the address: nobody is asked.
  [[nodiscard]] Disposition on_owned(MacAddress mac, StationOutput& out, TimePoint now);
  /// Another daemon has served the address until now, and has last heard the station at `heard`.
  /// Requires that the entry is new.
  [[nodiscard]] Disposition on_restored(bool is_router, StationOutput& out, TimePoint heard);
  /// A host of the fabric says that it has the address.
  [[nodiscard]] Disposition on_fabric(const HwAddress& host, StationOutput& out, TimePoint now);
  /// A packet to the address is passed on to its station. To call only if is_silent(), which the
  /// fast path checks.
  [[nodiscard]] Disposition on_packet(TimePoint now);
  /// A request of the fabric for the address is passed on to the station.
  [[nodiscard]] Disposition on_asked(TimePoint now);
  [[nodiscard]] Disposition on_deadline(StationOutput& out, TimePoint now);
  /// The entry is removed: the host has the address, or another entry needs the room.
  void on_removed(StationOutput& out) const;
  void set_router(bool is_router, StationOutput& out);

  // --- State -----------------------------------------------------------------------------------
  [[nodiscard]] const IpAddress& address() const { return address_; }
  [[nodiscard]] MacAddress mac() const { return mac_; }
  [[nodiscard]] bool is_router() const { return is_router_; }
  /// The MAC of the neighbour that had the address before; stations may still use it.
  [[nodiscard]] std::optional<MacAddress> was_at() const { return was_at_; }
  void set_was_at(MacAddress mac) { was_at_ = mac; }
  [[nodiscard]] const State& state() const { return state_; }
  [[nodiscard]] StationState state_name() const;
  [[nodiscard]] TimePoint deadline() const { return deadline_; }
  [[nodiscard]] TimePoint heard() const { return heard_; }
  [[nodiscard]] bool is_served() const;
  /// Whether the station with that MAC has the address, or is one of the routers that forward its
  /// packets.
  [[nodiscard]] bool admits(MacAddress mac) const;
  /// Whether a packet to the station makes it suspect.
  [[nodiscard]] bool is_silent(TimePoint now) const {
    return std::holds_alternative<Reachable>(state_) && heard_ + times_.silent <= now;
  }
  /// Whether packets to the address go to mac().
  [[nodiscard]] bool receives() const { return !std::holds_alternative<Refused>(state_); }
  /// A packet comes from the address's station and has no other effect; for the fast path.
  void touch(TimePoint now) { heard_ = now; }

 private:
  Disposition become(State state, TimePoint deadline);
  Disposition become_reachable(TimePoint now);
  Disposition become_checking(StationOutput& out, TimePoint now);
  Disposition contest(const StationRival& rival, StationOutput& out, TimePoint now,
                      bool is_claim = true);
  Disposition probe_ends(Probing& s, StationOutput& out, TimePoint now);
  Disposition check_ends(Checking& s, StationOutput& out, TimePoint now);
  Disposition contest_ends(const Contested& last, StationOutput& out, TimePoint now);
  void ask(StationOutput& out) const { out.probes.push_back({address_, mac_}); }
  void report(StationEvent::Kind kind, StationOutput& out,
              std::optional<StationRival> rival = {}) const {
    ++out.event_counts[static_cast<std::size_t>(kind)];
    out.events.push_back({kind, address_, mac_, rival});
  }

  const StationTimes& times_;
  IpAddress address_;
  MacAddress mac_;
  bool is_router_ = false;
  std::optional<MacAddress> was_at_;
  TimePoint heard_{};
  TimePoint deadline_ = kNever;
  State state_;
};

}  // namespace ipoib::ethernet
