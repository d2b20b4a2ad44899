// The stimuli, in the order of docs/states.md, "Neighbour"; then what they have in common.
//
// Each stimulus names every state, so a new state does not compile until each of them handles it.
#include "link/neighbour.hpp"

#include <array>
#include <cassert>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"
#include "link/fragments.hpp"
#include "link/icmp_errors.hpp"
#include "link/path_table.hpp"
#include "link/solicitor.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv4_fragments.hpp"

namespace ipoib::link {
namespace {

struct StateTraits {
  std::string_view name;  ///< for the log
  NeighbourState state;
  EvictionClass eviction_class;
};
/// In the order of Neighbour::State.
constexpr auto kStateTraits = std::to_array<StateTraits>({
    {"New", NeighbourState::incomplete, EvictionClass::none},
    {"Incomplete", NeighbourState::incomplete, EvictionClass::unresolved},
    {"Resolving", NeighbourState::resolving, EvictionClass::active},
    {"Reachable", NeighbourState::reachable, EvictionClass::active},
    {"Stale", NeighbourState::stale, EvictionClass::stale},
    {"Delay", NeighbourState::delay, EvictionClass::active},
    {"Probing", NeighbourState::probing, EvictionClass::active},
    {"Failed", NeighbourState::failed, EvictionClass::failed},
    {"Permanent", NeighbourState::permanent, EvictionClass::permanent},
});
static_assert(kStateTraits.size() == std::variant_size_v<Neighbour::State>);

constexpr std::string_view kOtherAddress = "another address";
constexpr std::string_view kByOperator = "set by the operator";

/// Asserts that a combination does not occur, since it has no row in docs/states.md.
Disposition cannot_happen() {
  assert(false && "not in docs/states.md");
  return Disposition::keep;
}

/// Handles a packet that exceeds the path's MTU: as a router, fragments IPv4 packets without DF
/// (RFC 1812, 4.2.2.7), and reports others to their sender.
void send_too_big(Frame&& frame, const PathData& path, Qpn qpn, const NeighbourDependencies& deps,
                  TimePoint now) {
  Frame taken = std::move(frame);
  constexpr auto kHeader = static_cast<std::uint32_t>(wire::kEncapsulationSize);
  taken.drop_front(kHeader);
  const std::uint32_t mtu = path.mtu - kHeader;
  if (!wire::may_fragment(std::as_const(taken).bytes())) {
    return deps.icmp.too_big(std::move(taken), mtu, Counter::drop_path_mtu_exceeded, now);
  }
  for (Frame& fragment : fragments_of(taken, mtu, deps.packets, deps.out.counters)) {
    wire::emit_encapsulation(wire::EtherType::ipv4, fragment.prepend(kHeader));
    deps.out.sends.push_back(Outgoing{path.handle, qpn, std::move(fragment)});
  }
}

std::unique_ptr<ParkedFrames> parked_first(Frame&& frame, const NeighbourDependencies& deps,
                                           TimePoint now) {
  auto parked = std::make_unique<ParkedFrames>(deps.parking);
  parked->wait_from(now);
  parked->park(std::move(frame), Purpose::packet, deps.out.counters);
  return parked;
}

/// Records how long packets have waited for a neighbour, since they can now be sent.
void record_wait(const ParkedFrames& parked, const NeighbourDependencies& deps, TimePoint now) {
  if (parked.since() != kNever) deps.statistics.resolution.add(now - parked.since());
}

/// Drops the parked frames, and reports the packets among them to the host.
void reject(ParkedFrames& parked, Counter why, const NeighbourDependencies& deps, TimePoint now) {
  for (Frame& frame : parked.take()) deps.icmp.unreachable(std::move(frame), why, now);
}

}  // namespace

Disposition Neighbour::on_packet(Frame&& frame, Purpose purpose, const Dependencies& deps,
                                 TimePoint now) {
  const auto park = [&](ParkedFrames& parked) {
    if (purpose == Purpose::packet) parked.wait_from(now);
    parked.park(std::move(frame), purpose, deps.out.counters);
    return Disposition::keep;
  };
  const auto sends = [&](const Route& route) {
    send(std::move(frame), purpose, route, deps, now);
    return Disposition::keep;
  };
  const auto sends_unconfirmed = [&](Route& route, std::string_view why) {
    send(std::move(frame), purpose, route, deps, now);
    return become(Delay{{std::move(route), now + deps.config.ageing.delay}}, why, deps);
  };
  if (purpose == Purpose::packet) {
    used_ = now;
    count_use();
  }
  return std::visit(
      Overloaded{
          [&](New&) { return first_request(parked_first(std::move(frame), deps, now), deps, now); },
          [&](Incomplete& s) { return park(*s.parked); },
          [&](Resolving& s) {
            // The path may have been requested for a reply, which would wait for longer.
            (void)deps.paths.use(*s.route.path, now, purpose);
            return park(s.wait->parked);
          },
          [&](Reachable& s) {
            const bool is_gone = s.route.path->last_out_of_service() > confirmed_;
            return is_gone ? sends_unconfirmed(s.route, "port reported out of service")
                           : sends(s.route);
          },
          [&](Stale& s) { return sends_unconfirmed(s.route, "used"); },
          [&](OneOf<Delay, Probing> auto& s) { return sends(s.route); },
          [&](Failed&) {
            deps.icmp.unreachable(std::move(frame), Counter::drop_neighbour_failed, now);
            return Disposition::keep;
          },
          [&](Permanent& s) {
            send_or_park(std::move(frame), purpose, s, deps, now);
            return Disposition::keep;
          },
      },
      state_);
}

Disposition Neighbour::on_address(const HwAddress& hardware, Evidence evidence,
                                  const Dependencies& deps, TimePoint now) {
  const bool confirmed = evidence == Evidence::confirmed;
  if (deps.config.reports_neighbours && !std::holds_alternative<Permanent>(state_)) {
    deps.out.known_neighbours.push_back({address_, hardware});
  }
  const auto learn = [&](ParkedFrames&& parked) {
    return adopt(hardware, evidence, std::move(parked), deps, now);
  };
  if (confirmed) confirmed_ = now;
  return std::visit(Overloaded{
                        [&](OneOf<New, Failed> auto&) { return learn(ParkedFrames(deps.parking)); },
                        [&](Incomplete& s) { return learn(std::move(*s.parked)); },
                        [&](Resolving& s) {
                          if (!s.route.leads_to(hardware)) return learn(std::move(s.wait->parked));
                          s.wait->confirmed = s.wait->confirmed || confirmed;
                          return Disposition::keep;
                        },
                        [&](OneOf<Reachable, Stale, Delay, Probing> auto& s) {
                          if (!s.route.leads_to(hardware)) {
                            deps.out.counters.add(Counter::neighbour_address_changes);
                            return learn(ParkedFrames(deps.parking));
                          }
                          return confirmed ? become_reachable(std::move(s.route), deps, now)
                                           : Disposition::keep;
                        },
                        [](Permanent&) { return Disposition::keep; },
                    },
                    state_);
}

/// An answer from the cache would not tell the host whether the neighbour is still there.
Disposition Neighbour::on_solicit(const Dependencies& deps, TimePoint now) {
  return std::visit(Overloaded{
                        [&](New&) {
                          return first_request(std::make_unique<ParkedFrames>(deps.parking), deps,
                                               now);
                        },
                        [](Incomplete&) { return Disposition::keep; },
                        [&](Resolving& s) {
                          deps.out.known_neighbours.push_back({address_, s.route.hardware()});
                          return Disposition::keep;
                        },
                        // The last probe may have been long ago; who asks wants an answer soon.
                        [&](OneOf<Reachable, Probing> auto& s) {
                          if (const PathData* const path = s.route.path->usable()) {
                            deps.solicitor.solicit(address_, s.route.hardware(), *path);
                          }
                          return Disposition::keep;
                        },
                        [&](OneOf<Stale, Delay> auto& s) {
                          return probe(std::move(s.route), "the host solicits it", deps, now);
                        },
                        // Somebody may have the address since, or have answered in a way that does
                        // not confirm it; a station must not get it then.
                        [&](Failed&) {
                          if (deps.solicitor.admit_revalidation(now)) {
                            deps.solicitor.solicit_all(address_, {}, now);
                          }
                          return Disposition::keep;
                        },
                        [&](Permanent& s) {
                          deps.out.known_neighbours.push_back({address_, s.route.hardware(), true});
                          return Disposition::keep;
                        },
                    },
                    state_);
}

Disposition Neighbour::on_contradicted(const Dependencies& deps, TimePoint now) {
  return std::visit(
      Overloaded{
          [&](Reachable& s) { return become_stale(std::move(s.route), "contradicted", deps, now); },
          [](OneOf<Resolving, Stale, Delay, Probing, Permanent> auto&) {
            return Disposition::keep;
          },
          [](OneOf<New, Incomplete, Failed> auto&) { return cannot_happen(); },
      },
      state_);
}

Disposition Neighbour::on_reply(Frame&& reply, const Dependencies& deps, TimePoint now) {
  return std::visit(Overloaded{
                        [](OneOf<New, Incomplete> auto&) { return cannot_happen(); },
                        [&](Resolving& s) {
                          s.wait->parked.park(std::move(reply), Purpose::reply, deps.out.counters);
                          return Disposition::keep;
                        },
                        [&](OneOf<Reachable, Stale, Delay, Probing> auto& s) {
                          send(std::move(reply), Purpose::reply, s.route, deps, now);
                          return Disposition::keep;
                        },
                        [&](Failed&) {
                          reply.release();
                          deps.out.counters.add(Counter::drop_path_failed);
                          return Disposition::keep;
                        },
                        [&](Permanent& s) {
                          send_or_park(std::move(reply), Purpose::reply, s, deps, now);
                          return Disposition::keep;
                        },
                    },
                    state_);
}

Disposition Neighbour::on_path_ready(const Dependencies& deps, TimePoint now) {
  return std::visit(Overloaded{
                        [&](Resolving& s) {
                          const auto evidence =
                              s.wait->confirmed ? Evidence::confirmed : Evidence::unconfirmed;
                          return become_resolved(std::move(s.route), evidence,
                                                 std::move(s.wait->parked), deps, now);
                        },
                        [&](Permanent& s) {
                          const auto wait = std::exchange(s.wait, {});
                          record_wait(wait->parked, deps, now);
                          for (Frame& frame : wait->parked.take()) {
                            send(std::move(frame), Purpose::packet, s.route, deps, now);
                          }
                          return Disposition::keep;
                        },
                        [](OneOf<New, Incomplete, Reachable, Stale, Delay, Probing, Failed> auto&) {
                          return cannot_happen();
                        },
                    },
                    state_);
}

Disposition Neighbour::on_path_failed(const Dependencies& deps, TimePoint now) {
  return std::visit(Overloaded{
                        [&](Resolving& s) {
                          reject(s.wait->parked, Counter::drop_path_failed, deps, now);
                          return become_failed("no path", deps, now);
                        },
                        [&](Permanent& s) {
                          reject(std::exchange(s.wait, {})->parked, Counter::drop_path_failed, deps,
                                 now);
                          return Disposition::keep;
                        },
                        [](OneOf<New, Incomplete, Reachable, Stale, Delay, Probing, Failed> auto&) {
                          return cannot_happen();
                        },
                    },
                    state_);
}

Disposition Neighbour::on_deadline(const Dependencies& deps, TimePoint now) {
  return std::visit(
      Overloaded{
          [&](Incomplete& s) { return next_request(s, deps, now); },
          [&](Reachable& s) {
            return become_stale(std::move(s.route), "reachable time is over", deps, now);
          },
          [&](Delay& s) { return probe(std::move(s.route), "still unconfirmed", deps, now); },
          [&](Probing& s) { return next_probe(s, deps, now); },
          [](OneOf<Stale, Failed> auto&) { return Disposition::erase; },
          [](OneOf<New, Resolving, Permanent> auto&) { return cannot_happen(); },
      },
      state_);
}

/// A failed gateway is not forgotten, or packets would wait for it in vain again. It is probed, so
/// that it is used again when it is back (RFC 4861, 6.3.6).
Disposition Neighbour::on_gateway_deadline(const Dependencies& deps, TimePoint now) {
  const Ageing& ageing = deps.config.ageing;
  if (deps.solicitor.admit_revalidation(now)) deps.solicitor.solicit_all(address_, {}, now);
  const bool is_in_use = used_ > now - ageing.gateway_probe;
  std::get<Failed>(state_).deadline = now + (is_in_use ? ageing.negative : ageing.gateway_probe);
  return Disposition::keep;
}

Disposition Neighbour::on_link_down(const Dependencies& deps, TimePoint now) {
  if (ParkedFrames* const parked = parked_frames()) {
    parked->drop(Counter::drop_link_down, deps.out.counters);
  }
  return std::visit(
      Overloaded{
          [](OneOf<Incomplete, Resolving, Failed> auto&) { return Disposition::erase; },
          [&](OneOf<Reachable, Delay, Probing> auto& s) {
            return become_stale(std::move(s.route), "link down", deps, now);
          },
          [](Stale&) { return Disposition::keep; },
          [](Permanent& s) {
            s.wait.reset();
            return Disposition::keep;
          },
          [](New&) { return cannot_happen(); },
      },
      state_);
}

/// The same in each state.
Disposition Neighbour::on_set_permanent(Route&& route, const Dependencies& deps, TimePoint now) {
  ParkedFrames* const parked = parked_frames();
  std::vector<Frame> frames = parked != nullptr ? parked->take() : std::vector<Frame>{};
  const bool is_permanent = std::holds_alternative<Permanent>(state_);
  (void)become(Permanent{std::move(route), nullptr}, kByOperator, deps);
  if (is_permanent) report(ChangeKind::changed, kByOperator, deps);
  for (Frame& frame : frames) {
    send_or_park(std::move(frame), Purpose::packet, std::get<Permanent>(state_), deps, now);
  }
  return Disposition::keep;
}

/// Sends nothing. An entry that was being probed begins as Stale: its next use starts the probes
/// over.
Disposition Neighbour::on_restored(const SavedNeighbour& saved, Route&& route,
                                   const Dependencies& deps, TimePoint now) {
  return std::visit(Overloaded{
                        [&](New&) {
                          if (saved.used) used_ = now - *saved.used;
                          uses_high_ = static_cast<std::uint32_t>(saved.uses >> 32);
                          uses_low_ = static_cast<std::uint32_t>(saved.uses);
                          if (!saved.reachable_for)
                            return become_stale(std::move(route), "restored", deps, now);
                          confirmed_ = now;
                          const Duration longest = deps.config.ageing.reachable * 3 / 2;
                          const TimePoint deadline = now + std::min(*saved.reachable_for, longest);
                          return become(Reachable{{std::move(route), deadline}}, "restored", deps);
                        },
                        [](OneOf<Incomplete, Resolving, Reachable, Stale, Delay, Probing, Failed,
                                 Permanent> auto&) { return cannot_happen(); },
                    },
                    state_);
}

/// The same in each state.
void Neighbour::on_removed(Counter why, const Dependencies& deps) {
  if (ParkedFrames* const parked = parked_frames()) parked->drop(why, deps.out.counters);
}

/// For those who watch.
void Neighbour::report(ChangeKind kind, std::string_view why, const Dependencies& deps) const {
  if (deps.out.changes.wants_neighbours()) deps.out.changes.add(kind, info(TimePoint{}), why);
}

// --- Shared by the stimuli -----------------------------------------------------------------

/// The one function that changes the state.
Disposition Neighbour::become(State&& next, std::string_view why, const Dependencies& deps) {
  if (deps.log.should_log(spdlog::level::debug)) {
    deps.log.debug("neighbour {}: {} -> {}: {}", to_string(address_),
                   kStateTraits[state_.index()].name, kStateTraits[next.index()].name, why);
  }
  --deps.statistics.in(state_name());
  const auto before = state_.index();
  state_ = std::move(next);
  ++deps.statistics.in(state_name());
  if (before != state_.index())
    report(before == 0 ? ChangeKind::created : ChangeKind::changed, why, deps);
  if (auto* const resolving = std::get_if<Resolving>(&state_)) {
    resolving->route.path->await(*resolving->wait);
  }
  return Disposition::keep;
}

/// Takes over a hardware address that has been learnt (the rows Adopt_*).
Disposition Neighbour::adopt(const HwAddress& hardware, Evidence evidence, ParkedFrames&& parked,
                             const Dependencies& deps, TimePoint now) {
  ParkedFrames frames = std::move(parked);
  learnt_ = now;
  PathRef path = deps.paths.acquire(hardware.gid);
  if (!path) {
    reject(frames, Counter::drop_path_limit, deps, now);
    return become_failed("the path table is full", deps, now);
  }
  Route route(hardware, std::move(path));
  const Purpose purpose = frames.has_packets() ? Purpose::packet : Purpose::reply;
  switch (deps.paths.use(*route.path, now, purpose)) {
    case PathTable::Condition::usable: {
      const auto before = state_.index();
      (void)become_resolved(std::move(route), evidence, std::move(frames), deps, now);
      if (before == state_.index()) report(ChangeKind::changed, kOtherAddress, deps);
      return Disposition::keep;
    }
    case PathTable::Condition::pending: {
      auto wait =
          std::make_unique<WaitForPath>(*this, std::move(frames), evidence == Evidence::confirmed);
      const bool is_resolving = std::holds_alternative<Resolving>(state_);
      (void)become(Resolving{std::move(route), std::move(wait)}, "address learnt", deps);
      if (is_resolving) report(ChangeKind::changed, kOtherAddress, deps);
      return Disposition::keep;
    }
    case PathTable::Condition::failed:
      reject(frames, Counter::drop_path_failed, deps, now);
      return become_failed("no path", deps, now);
  }
  return Disposition::keep;
}

/// Enters the state of an entry whose address and path are known.
Disposition Neighbour::become_resolved(Route&& route, Evidence evidence, ParkedFrames&& parked,
                                       const Dependencies& deps, TimePoint now) {
  const bool used = parked.has_packets();
  record_wait(parked, deps, now);
  std::vector<Frame> frames = parked.take();
  if (evidence == Evidence::confirmed) {
    (void)become_reachable(std::move(route), deps, now);
  } else if (used) {
    (void)become(Delay{{std::move(route), now + deps.config.ageing.delay}}, "resolved, unconfirmed",
                 deps);
  } else {
    (void)become_stale(std::move(route), "resolved, unused", deps, now);
  }
  const Purpose purpose = used ? Purpose::packet : Purpose::reply;
  for (Frame& frame : frames) send(std::move(frame), purpose, *this->route(), deps, now);
  return Disposition::keep;
}

/// RFC 4861, 6.3.2: the time is random, so that neighbours are not all probed at once.
Disposition Neighbour::become_reachable(Route&& route, const Dependencies& deps, TimePoint now) {
  const TimePoint deadline = now + deps.random.jittered(deps.config.ageing.reachable, 50, 150);
  return become(Reachable{{std::move(route), deadline}}, "confirmed", deps);
}

Disposition Neighbour::become_stale(Route&& route, std::string_view why, const Dependencies& deps,
                                    TimePoint now) {
  return become(Stale{{std::move(route), now + deps.config.ageing.idle}}, why, deps);
}

Disposition Neighbour::become_failed(std::string_view why, const Dependencies& deps,
                                     TimePoint now) {
  return become(Failed{now + deps.config.ageing.negative}, why, deps);
}

/// Sends a frame. The path of these states is always usable; should it not be, the frame is
/// dropped.
void Neighbour::send(Frame&& frame, Purpose purpose, const Route& route, const Dependencies& deps,
                     TimePoint now) {
  Frame taken = std::move(frame);
  // use() may request the path again, which moves its data: call usable() afterwards.
  (void)deps.paths.use(*route.path, now, purpose);
  const PathData* const path = route.path->usable();
  if (path == nullptr) return deps.out.counters.add(Counter::drop_path_failed);
  if (taken.datagram_size() > path->mtu) {
    return send_too_big(std::move(taken), *path, route.qpn, deps, now);
  }
  deps.out.sends.push_back(Outgoing{path->handle, route.qpn, std::move(taken)});
}

void Neighbour::send_or_park(Frame&& frame, Purpose purpose, Permanent& state,
                             const Dependencies& deps, TimePoint now) {
  switch (deps.paths.use(*state.route.path, now, purpose)) {
    case PathTable::Condition::usable:
      send(std::move(frame), purpose, state.route, deps, now);
      return;
    case PathTable::Condition::pending:
      if (state.wait == nullptr) {
        state.wait = std::make_unique<WaitForPath>(*this, ParkedFrames(deps.parking));
        state.route.path->await(*state.wait);
      }
      if (purpose == Purpose::packet) state.wait->parked.wait_from(now);
      state.wait->parked.park(std::move(frame), purpose, deps.out.counters);
      return;
    case PathTable::Condition::failed:
      return deps.icmp.unreachable(std::move(frame), Counter::drop_path_failed, now);
  }
}

Disposition Neighbour::first_request(std::unique_ptr<ParkedFrames> parked, const Dependencies& deps,
                                     TimePoint now) {
  const TimePoint moment = deps.solicitor.reserve_first(now);
  if (moment > now) {
    return become(Incomplete{std::move(parked), moment, 0}, "request deferred", deps);
  }
  deps.solicitor.solicit_all(address_, parked->first(), now);
  return become(Incomplete{std::move(parked), now + deps.config.ageing.retransmit, 1},
                "request sent", deps);
}

Disposition Neighbour::next_request(Incomplete& state, const Dependencies& deps, TimePoint now) {
  if (state.requests >= deps.config.ageing.broadcast_probes) {
    reject(*state.parked, Counter::drop_neighbour_failed, deps, now);
    return become_failed("no response", deps, now);
  }
  // The deferred first request has been admitted by reserve_first() already.
  if (state.requests == 0 || deps.solicitor.admit_repetition(now))
    deps.solicitor.solicit_all(address_, state.parked->first(), now);
  ++state.requests;
  state.deadline = now + deps.config.ageing.retransmit;
  return Disposition::keep;
}

/// Enters Probing with the first probe.
Disposition Neighbour::probe(Route&& route, std::string_view why, const Dependencies& deps,
                             TimePoint now) {
  (void)become(Probing{{std::move(route), now}}, why, deps);
  return next_probe(std::get<Probing>(state_), deps, now);
}

Disposition Neighbour::next_probe(Probing& state, const Dependencies& deps, TimePoint now) {
  const Ageing& ageing = deps.config.ageing;
  if (state.probes >= ageing.unicast_probes + ageing.broadcast_probes) {
    return become_failed("no response", deps, now);
  }
  state.deadline = now + ageing.retransmit;
  if (state.probes < ageing.unicast_probes) {
    if (state.probes > 0) {
      deps.paths.invalidate(*state.route.path, "no response to a probe");
      (void)deps.paths.use(*state.route.path, now);
    }
    // The path of this state is always usable; should it not be, there is one probe less.
    if (const PathData* const path = state.route.path->usable()) {
      deps.solicitor.solicit(address_, state.route.hardware(), *path);
    }
  } else if (deps.solicitor.admit_revalidation(now)) {
    deps.solicitor.solicit_all(address_, {}, now);
  } else {
    return Disposition::keep;
  }
  ++state.probes;
  return Disposition::keep;
}

// --- Accessors -----------------------------------------------------------------------------------

/// The frames that wait for an address or a path; null in a state without any.
ParkedFrames* Neighbour::parked_frames() const {
  return std::visit(Overloaded{
                        [](const Incomplete& s) { return s.parked.get(); },
                        [](const OneOf<Resolving, Permanent> auto& s) {
                          return s.wait != nullptr ? &s.wait->parked : nullptr;
                        },
                        [](const OneOf<New, Reachable, Stale, Delay, Probing, Failed> auto&) {
                          return static_cast<ParkedFrames*>(nullptr);
                        },
                    },
                    state_);
}

std::size_t Neighbour::parked() const {
  const ParkedFrames* const frames = parked_frames();
  return frames != nullptr ? frames->size() : 0;
}

NeighbourState Neighbour::state_name() const { return kStateTraits[state_.index()].state; }

EvictionClass Neighbour::current_eviction_class() const {
  // An entry that the host has not used can be learnt again, whatever others have confirmed.
  if (used_ == kNotYet) {
    if (std::holds_alternative<Resolving>(state_)) return EvictionClass::pending;
    if (route() != nullptr && !std::holds_alternative<Permanent>(state_))
      return EvictionClass::unused;
  }
  return kStateTraits[state_.index()].eviction_class;
}

TimePoint Neighbour::deadline() const {
  return std::visit(Overloaded{
                        [](const Routed& s) { return s.deadline; },
                        [](const OneOf<Incomplete, Failed> auto& s) { return s.deadline; },
                        [](const OneOf<New, Resolving, Permanent> auto&) { return kNever; },
                    },
                    state_);
}

const Route* Neighbour::route() const {
  return std::visit(Overloaded{
                        [](const Routed& s) { return &s.route; },
                        [](const OneOf<Resolving, Permanent> auto& s) { return &s.route; },
                        [](const OneOf<New, Incomplete, Failed> auto&) {
                          return static_cast<const Route*>(nullptr);
                        },
                    },
                    state_);
}

NeighbourInfo Neighbour::info(TimePoint now) const {
  NeighbourInfo info;
  info.address = address_;
  info.state = state_name();
  const auto age = [now](TimePoint of) {
    return of == kNotYet ? std::nullopt : std::optional<Duration>(now - of);
  };
  info.used = age(used_);
  info.uses = std::uint64_t{uses_high_} << 32 | uses_low_;
  info.confirmed = age(confirmed_);
  info.parked = static_cast<std::uint32_t>(parked());
  const Route* const known = route();
  if (known == nullptr) return info;
  info.hardware = known->hardware();
  if (const PathData* const path = known->path->usable()) {
    info.path = PathInfo{.dlid = path->attributes.dlid,
                         .sl = path->attributes.sl,
                         .mtu = path->mtu,
                         .rate = path->attributes.rate,
                         .lifetime = path->lifetime,
                         .hop_limit = path->attributes.hop_limit,
                         .needs_refresh = known->path->ready() == nullptr};
    info.references = static_cast<std::uint32_t>(path->handle->use_count());
  }
  return info;
}

std::optional<SavedNeighbour> Neighbour::saved(TimePoint now) const {
  const Route* const known = route();
  const PathData* const path = known != nullptr ? known->path->usable() : nullptr;
  if (path == nullptr) return std::nullopt;
  SavedNeighbour out{
      .address = address_, .hardware = known->hardware(), .path = {path->attributes, path->mtu}};
  if (const auto* const reachable = std::get_if<Reachable>(&state_)) {
    out.reachable_for = std::max(reachable->deadline - now, Duration::zero());
  }
  if (used_ != kNotYet) out.used = now - used_;
  out.uses = std::uint64_t{uses_high_} << 32 | uses_low_;
  return out;
}

}  // namespace ipoib::link
