// One method for each stimulus of docs/states.md, "Neighbour", with every state spelled out.
#include "link/neighbour.hpp"

#include <cassert>
#include <utility>

#include "ipoib/overloaded.hpp"
#include "link/path_table.hpp"

namespace ipoib::link {

using namespace neighbour_state;

namespace {

/// For the combinations of the table that have no row.
Fate cannot_happen() {
  assert(false && "not in docs/states.md");
  return Fate::keep;
}

}  // namespace

Fate Neighbour::on_packet(Frame&& frame, const Environment& env, TimePoint now) {
  const auto sends = [&](const Route& route) {
    send(std::move(frame), route, env, now);
    return Fate::keep;
  };
  const auto sends_unconfirmed = [&](Route& route, std::string_view why) {
    send(std::move(frame), route, env, now);
    return become(Delay{std::move(route), now + env.config.ageing.delay}, why, env);
  };
  used_ = now;
  return std::visit(Overloaded{
                        [&](New&) { return first_request(std::move(frame), env, now); },
                        [&](Incomplete& s) {
                          s.parked->park(std::move(frame), Purpose::packet, env.out.counters);
                          return Fate::keep;
                        },
                        [&](Resolving& s) {
                          s.wait->parked.park(std::move(frame), Purpose::packet, env.out.counters);
                          return Fate::keep;
                        },
                        [&](Reachable& s) {
                          const bool is_gone = s.route.path->last_gone() > confirmed_;
                          return is_gone ? sends_unconfirmed(s.route, "reported gone")
                                         : sends(s.route);
                        },
                        [&](Stale& s) { return sends_unconfirmed(s.route, "used"); },
                        [&](Delay& s) { return sends(s.route); },
                        [&](Probing& s) { return sends(s.route); },
                        [&](Failed&) {
                          frame.release();
                          env.out.counters.add(Counter::drop_neighbour_failed);
                          return Fate::keep;
                        },
                        [&](Permanent& s) {
                          send_or_park(std::move(frame), Purpose::packet, s, env, now);
                          return Fate::keep;
                        },
                    },
                    state_);
}

Fate Neighbour::on_address(const HwAddress& hardware, Evidence evidence, const Environment& env,
                           TimePoint now) {
  const bool confirmed = evidence == Evidence::confirmed;
  const auto learn = [&](ParkedFrames&& parked) {
    return adopt(hardware, evidence, std::move(parked), env, now);
  };
  const auto learn_other = [&] {
    env.out.counters.add(Counter::neighbour_address_changes);
    return learn(ParkedFrames(env.parking));
  };
  if (confirmed) confirmed_ = now;
  return std::visit(Overloaded{
                        [&](New&) { return learn(ParkedFrames(env.parking)); },
                        [&](Incomplete& s) { return learn(std::move(*s.parked)); },
                        [&](Resolving& s) {
                          if (!s.route.leads_to(hardware)) return learn(std::move(s.wait->parked));
                          s.wait->confirmed = s.wait->confirmed || confirmed;
                          return Fate::keep;
                        },
                        [&](Reachable& s) {
                          if (!s.route.leads_to(hardware)) return learn_other();
                          return confirmed ? confirm(std::move(s.route), env, now) : Fate::keep;
                        },
                        [&](Stale& s) {
                          if (!s.route.leads_to(hardware)) return learn_other();
                          return confirmed ? confirm(std::move(s.route), env, now) : Fate::keep;
                        },
                        [&](Delay& s) {
                          if (!s.route.leads_to(hardware)) return learn_other();
                          return confirmed ? confirm(std::move(s.route), env, now) : Fate::keep;
                        },
                        [&](Probing& s) {
                          if (!s.route.leads_to(hardware)) return learn_other();
                          return confirmed ? confirm(std::move(s.route), env, now) : Fate::keep;
                        },
                        [&](Failed&) { return learn(ParkedFrames(env.parking)); },
                        [](Permanent&) { return Fate::keep; },
                    },
                    state_);
}

Fate Neighbour::on_contradicted(const Environment& env, TimePoint now) {
  return std::visit(
      Overloaded{
          [](New&) { return cannot_happen(); },
          [](Incomplete&) { return cannot_happen(); },
          [](Resolving&) { return Fate::keep; },
          [&](Reachable& s) { return unconfirm(std::move(s.route), "contradicted", env, now); },
          [](Stale&) { return Fate::keep; },
          [](Delay&) { return Fate::keep; },
          [](Probing&) { return Fate::keep; },
          [](Failed&) { return cannot_happen(); },
          [](Permanent&) { return Fate::keep; },
      },
      state_);
}

Fate Neighbour::on_reply_owed(Frame&& reply, const Environment& env, TimePoint now) {
  const auto sends = [&](const Route& route) {
    send(std::move(reply), route, env, now);
    return Fate::keep;
  };
  return std::visit(Overloaded{
                        [](New&) { return cannot_happen(); },
                        [](Incomplete&) { return cannot_happen(); },
                        [&](Resolving& s) {
                          s.wait->parked.park(std::move(reply), Purpose::reply, env.out.counters);
                          return Fate::keep;
                        },
                        [&](Reachable& s) { return sends(s.route); },
                        [&](Stale& s) { return sends(s.route); },
                        [&](Delay& s) { return sends(s.route); },
                        [&](Probing& s) { return sends(s.route); },
                        [&](Failed&) {
                          reply.release();
                          env.out.counters.add(Counter::drop_path_failed);
                          return Fate::keep;
                        },
                        [&](Permanent& s) {
                          send_or_park(std::move(reply), Purpose::reply, s, env, now);
                          return Fate::keep;
                        },
                    },
                    state_);
}

Fate Neighbour::on_path_ready(const Environment& env, TimePoint now) {
  return std::visit(
      Overloaded{
          [](New&) { return cannot_happen(); },
          [](Incomplete&) { return cannot_happen(); },
          [&](Resolving& s) {
            const auto evidence = s.wait->confirmed ? Evidence::confirmed : Evidence::told;
            return settle(std::move(s.route), evidence, std::move(s.wait->parked), env, now);
          },
          [](Reachable&) { return cannot_happen(); },
          [](Stale&) { return cannot_happen(); },
          [](Delay&) { return cannot_happen(); },
          [](Probing&) { return cannot_happen(); },
          [](Failed&) { return cannot_happen(); },
          [&](Permanent& s) {
            for (Frame& frame : std::exchange(s.wait, {})->parked.take()) {
              send(std::move(frame), s.route, env, now);
            }
            return Fate::keep;
          },
      },
      state_);
}

Fate Neighbour::on_path_failed(const Environment& env, TimePoint now) {
  return std::visit(
      Overloaded{
          [](New&) { return cannot_happen(); },
          [](Incomplete&) { return cannot_happen(); },
          [&](Resolving& s) {
            s.wait->parked.drop(Counter::drop_path_failed, env.out.counters);
            return fail("no path", env, now);
          },
          [](Reachable&) { return cannot_happen(); },
          [](Stale&) { return cannot_happen(); },
          [](Delay&) { return cannot_happen(); },
          [](Probing&) { return cannot_happen(); },
          [](Failed&) { return cannot_happen(); },
          [&](Permanent& s) {
            std::exchange(s.wait, {})->parked.drop(Counter::drop_path_failed, env.out.counters);
            return Fate::keep;
          },
      },
      state_);
}

Fate Neighbour::on_deadline(const Environment& env, TimePoint now) {
  return std::visit(Overloaded{
                        [](New&) { return cannot_happen(); },
                        [&](Incomplete& s) { return next_request(s, env, now); },
                        [](Resolving&) { return cannot_happen(); },
                        [&](Reachable& s) {
                          return unconfirm(std::move(s.route), "not confirmed for long", env, now);
                        },
                        [](Stale&) { return Fate::erase; },
                        [&](Delay& s) {
                          return become(Probing{.route = std::move(s.route), .deadline = now},
                                        "nothing has confirmed it", env) == Fate::keep
                                     ? next_probe(std::get<Probing>(state_), env, now)
                                     : Fate::erase;
                        },
                        [&](Probing& s) { return next_probe(s, env, now); },
                        [](Failed&) { return Fate::erase; },
                        [](Permanent&) { return cannot_happen(); },
                    },
                    state_);
}

Fate Neighbour::on_link_down(const Environment& env, TimePoint now) {
  const auto keep_stale = [&](Route& route) {
    return unconfirm(std::move(route), "link down", env, now);
  };
  return std::visit(
      Overloaded{
          [](New&) { return cannot_happen(); },
          [&](Incomplete& s) {
            s.parked->drop(Counter::drop_link_down, env.out.counters);
            return Fate::erase;
          },
          [&](Resolving& s) {
            s.wait->parked.drop(Counter::drop_link_down, env.out.counters);
            return Fate::erase;
          },
          [&](Reachable& s) { return keep_stale(s.route); },
          [](Stale&) { return Fate::keep; },
          [&](Delay& s) { return keep_stale(s.route); },
          [&](Probing& s) { return keep_stale(s.route); },
          [](Failed&) { return Fate::erase; },
          [&](Permanent& s) {
            if (s.wait != nullptr) {
              std::exchange(s.wait, {})->parked.drop(Counter::drop_link_down, env.out.counters);
            }
            return Fate::keep;
          },
      },
      state_);
}

Fate Neighbour::on_set_permanent(Route&& route, const Environment& env, TimePoint now) {
  const auto without_frames = [&] {
    return make_permanent(std::move(route), ParkedFrames(env.parking), env, now);
  };
  const auto with_frames = [&](ParkedFrames& parked) {
    return make_permanent(std::move(route), std::move(parked), env, now);
  };
  return std::visit(Overloaded{
                        [&](New&) { return without_frames(); },
                        [&](Incomplete& s) { return with_frames(*s.parked); },
                        [&](Resolving& s) { return with_frames(s.wait->parked); },
                        [&](Reachable&) { return without_frames(); },
                        [&](Stale&) { return without_frames(); },
                        [&](Delay&) { return without_frames(); },
                        [&](Probing&) { return without_frames(); },
                        [&](Failed&) { return without_frames(); },
                        [&](Permanent& s) {
                          return s.wait != nullptr ? with_frames(s.wait->parked) : without_frames();
                        },
                    },
                    state_);
}

void Neighbour::on_removed(Counter why, const Environment& env) {
  std::visit(Overloaded{
                 [](New&) {},
                 [&](Incomplete& s) { s.parked->drop(why, env.out.counters); },
                 [&](Resolving& s) { s.wait->parked.drop(why, env.out.counters); },
                 [](Reachable&) {},
                 [](Stale&) {},
                 [](Delay&) {},
                 [](Probing&) {},
                 [](Failed&) {},
                 [&](Permanent& s) {
                   if (s.wait != nullptr) s.wait->parked.drop(why, env.out.counters);
                 },
             },
             state_);
}

}  // namespace ipoib::link
