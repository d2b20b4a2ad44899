// What the rows of docs/states.md, "Neighbour", have in common, and what an entry shows of itself.
#include <array>
#include <cassert>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"
#include "link/neighbour.hpp"
#include "link/path_table.hpp"
#include "link/solicitor.hpp"
#include "link/too_big.hpp"
#include "wire/encapsulation.hpp"

namespace ipoib::link {

using namespace neighbour_state;

namespace {

constexpr std::array<std::string_view, std::variant_size_v<State>> kNames{
    "New",   "Incomplete", "Resolving", "Reachable", "Stale",
    "Delay", "Probing",    "Failed",    "Permanent"};

}  // namespace

/// The one function that changes the state.
Fate Neighbour::become(State&& next, std::string_view why, const Environment& env) {
  if (env.log.should_log(spdlog::level::debug)) {
    env.log.debug("neighbour {}: {} -> {}: {}", to_string(address_), kNames[state_.index()],
                  kNames[next.index()], why);
  }
  state_ = std::move(next);
  if (auto* const resolving = std::get_if<Resolving>(&state_)) {
    resolving->route.path->await(*resolving->wait);
  }
  return Fate::keep;
}

Fate Neighbour::adopt(const HwAddress& hardware, Evidence evidence, ParkedFrames&& parked,
                      const Environment& env, TimePoint now) {
  ParkedFrames frames = std::move(parked);
  PathRef path = env.paths.acquire(hardware.gid);
  if (!path) {
    frames.drop(Counter::drop_path_limit, env.out.counters);
    return fail("no room for its path", env, now);
  }
  Route route(hardware, std::move(path));
  switch (env.paths.use(*route.path, now)) {
    case PathTable::Condition::usable:
      return settle(std::move(route), evidence, std::move(frames), env, now);
    case PathTable::Condition::asked:
      return become(
          Resolving{std::move(route), std::make_unique<Wait>(*this, std::move(frames),
                                                             evidence == Evidence::confirmed)},
          "address learnt", env);
    case PathTable::Condition::refused:
      frames.drop(Counter::drop_path_failed, env.out.counters);
      return fail("no path", env, now);
  }
  return Fate::keep;
}

/// Address and path are there.
Fate Neighbour::settle(Route&& route, Evidence evidence, ParkedFrames&& parked,
                       const Environment& env, TimePoint now) {
  const bool used = parked.has_packets();
  std::vector<Frame> frames = parked.take();
  if (evidence == Evidence::confirmed) {
    (void)confirm(std::move(route), env, now);
  } else if (used) {
    (void)become(Delay{std::move(route), now + env.config.ageing.delay}, "resolved, unconfirmed",
                 env);
  } else {
    (void)unconfirm(std::move(route), "resolved, unused", env, now);
  }
  for (Frame& frame : frames) send(std::move(frame), *this->route(), env, now);
  return Fate::keep;
}

/// RFC 4861, 6.3.2: the time is spread, lest those who met together probe together.
Fate Neighbour::confirm(Route&& route, const Environment& env, TimePoint now) {
  const TimePoint deadline = now + env.random.jittered(env.config.ageing.reachable, 50, 150);
  return become(Reachable{std::move(route), deadline}, "confirmed", env);
}

Fate Neighbour::unconfirm(Route&& route, std::string_view why, const Environment& env,
                          TimePoint now) {
  return become(Stale{std::move(route), now + env.config.ageing.idle}, why, env);
}

Fate Neighbour::fail(std::string_view why, const Environment& env, TimePoint now) {
  return become(Failed{now + env.config.ageing.negative}, why, env);
}

Fate Neighbour::make_permanent(Route&& route, ParkedFrames&& parked, const Environment& env,
                               TimePoint now) {
  std::vector<Frame> frames = parked.take();
  (void)become(Permanent{std::move(route), nullptr}, "set", env);
  for (Frame& frame : frames) {
    send_or_park(std::move(frame), Purpose::packet, std::get<Permanent>(state_), env, now);
  }
  return Fate::keep;
}

/// By a path that can be used.
void Neighbour::send(Frame&& frame, const Route& route, const Environment& env, TimePoint now) {
  Frame taken = std::move(frame);
  // Being used, a path in doubt is asked for again. Its data may move: look for it afterwards.
  (void)env.paths.use(*route.path, now);
  const PathData* const path = route.path->usable();
  assert(path != nullptr);
  if (taken.datagram_size() > path->mtu) {
    constexpr auto kHeader = static_cast<std::uint32_t>(wire::kEncapsulationSize);
    taken.drop_front(kHeader);
    return answer_too_big(std::move(taken), path->mtu - kHeader, Counter::drop_path_mtu_exceeded,
                          env.out);
  }
  env.out.sends.push_back(Outgoing{path->handle, route.qpn, std::move(taken)});
}

void Neighbour::send_or_park(Frame&& frame, Purpose purpose, Permanent& state,
                             const Environment& env, TimePoint now) {
  switch (env.paths.use(*state.route.path, now)) {
    case PathTable::Condition::usable:
      send(std::move(frame), state.route, env, now);
      return;
    case PathTable::Condition::asked:
      if (state.wait == nullptr) {
        state.wait = std::make_unique<Wait>(*this, ParkedFrames(env.parking));
        state.route.path->await(*state.wait);
      }
      state.wait->parked.park(std::move(frame), purpose, env.out.counters);
      return;
    case PathTable::Condition::refused:
      frame.release();
      env.out.counters.add(Counter::drop_path_failed);
      return;
  }
}

Fate Neighbour::first_request(Frame&& frame, const Environment& env, TimePoint now) {
  auto parked = std::make_unique<ParkedFrames>(env.parking);
  parked->park(std::move(frame), Purpose::packet, env.out.counters);
  const TimePoint moment = env.solicitor.reserve_first(now);
  if (moment > now) {
    return become(Incomplete{std::move(parked), moment, 0}, "a packet; asks in its turn", env);
  }
  env.solicitor.ask_all(address_, parked->first(), now);
  return become(Incomplete{std::move(parked), now + env.config.ageing.retransmit, 1},
                "a packet; asks", env);
}

Fate Neighbour::next_request(Incomplete& state, const Environment& env, TimePoint now) {
  if (state.requests >= env.config.ageing.broadcast_probes) {
    state.parked->drop(Counter::drop_neighbour_failed, env.out.counters);
    return fail("nobody answers", env, now);
  }
  // The first one has its moment reserved.
  if (state.requests == 0 || env.solicitor.admit_repetition(now))
    env.solicitor.ask_all(address_, state.parked->first(), now);
  ++state.requests;
  state.deadline = now + env.config.ageing.retransmit;
  return Fate::keep;
}

Fate Neighbour::next_probe(Probing& state, const Environment& env, TimePoint now) {
  const Ageing& ageing = env.config.ageing;
  if (state.probes >= ageing.unicast_probes + ageing.broadcast_probes) {
    return fail("nobody answers", env, now);
  }
  state.deadline = now + ageing.retransmit;
  if (state.probes < ageing.unicast_probes) {
    if (state.probes > 0) {
      env.paths.doubt(*state.route.path, "a probe went unanswered");
      (void)env.paths.use(*state.route.path, now);
    }
    env.solicitor.ask(address_, state.route.hardware(), *state.route.path->usable());
  } else if (env.solicitor.admit_revalidation(now)) {
    env.solicitor.ask_all(address_, {}, now);
  } else {
    return Fate::keep;
  }
  ++state.probes;
  return Fate::keep;
}

NeighbourState Neighbour::state_name() const {
  return std::visit(Overloaded{
                        [](const New&) { return NeighbourState::incomplete; },
                        [](const Incomplete&) { return NeighbourState::incomplete; },
                        [](const Resolving&) { return NeighbourState::resolving; },
                        [](const Reachable&) { return NeighbourState::reachable; },
                        [](const Stale&) { return NeighbourState::stale; },
                        [](const Delay&) { return NeighbourState::delay; },
                        [](const Probing&) { return NeighbourState::probing; },
                        [](const Failed&) { return NeighbourState::failed; },
                        [](const Permanent&) { return NeighbourState::permanent; },
                    },
                    state_);
}

TimePoint Neighbour::deadline() const {
  return std::visit(Overloaded{
                        [](const New&) { return kNever; },
                        [](const Incomplete& s) { return s.deadline; },
                        [](const Resolving&) { return kNever; },
                        [](const Reachable& s) { return s.deadline; },
                        [](const Stale& s) { return s.deadline; },
                        [](const Delay& s) { return s.deadline; },
                        [](const Probing& s) { return s.deadline; },
                        [](const Failed& s) { return s.deadline; },
                        [](const Permanent&) { return kNever; },
                    },
                    state_);
}

std::size_t Neighbour::parked() const {
  return std::visit(
      Overloaded{
          [](const New&) { return std::size_t{0}; },
          [](const Incomplete& s) { return s.parked->size(); },
          [](const Resolving& s) { return s.wait->parked.size(); },
          [](const Reachable&) { return std::size_t{0}; },
          [](const Stale&) { return std::size_t{0}; },
          [](const Delay&) { return std::size_t{0}; },
          [](const Probing&) { return std::size_t{0}; },
          [](const Failed&) { return std::size_t{0}; },
          [](const Permanent& s) { return s.wait != nullptr ? s.wait->parked.size() : 0; },
      },
      state_);
}

const Route* Neighbour::route() const {
  return std::visit(Overloaded{
                        [](const New&) -> const Route* { return nullptr; },
                        [](const Incomplete&) -> const Route* { return nullptr; },
                        [](const Resolving& s) { return &s.route; },
                        [](const Reachable& s) { return &s.route; },
                        [](const Stale& s) { return &s.route; },
                        [](const Delay& s) { return &s.route; },
                        [](const Probing& s) { return &s.route; },
                        [](const Failed&) -> const Route* { return nullptr; },
                        [](const Permanent& s) { return &s.route; },
                    },
                    state_);
}

NeighbourInfo Neighbour::info(TimePoint now) const {
  NeighbourInfo info;
  info.address = address_;
  info.state = state_name();
  const auto age = [now](TimePoint of) {
    return of == kNeverYet ? std::nullopt : std::optional<Duration>(now - of);
  };
  info.used = age(used_);
  info.confirmed = age(confirmed_);
  info.parked = static_cast<std::uint32_t>(parked());
  const Route* const known = route();
  if (known == nullptr) return info;
  info.hardware = known->hardware();
  if (const PathData* const path = known->path->usable()) {
    info.path = PathInfo{.dlid = path->way.dlid,
                         .sl = path->way.sl,
                         .mtu = path->mtu,
                         .rate = path->way.rate,
                         .in_question = known->path->ready() == nullptr};
    info.references = static_cast<std::uint32_t>(path->handle->use_count());
  }
  return info;
}

}  // namespace ipoib::link
