// One method for each stimulus of docs/states.md, "Path", with every state spelled out.
#include "link/path_table.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"
#include "link/should_log.hpp"

namespace ipoib::link {
namespace {

using namespace path_state;

constexpr std::array<std::string_view, std::variant_size_v<State>> kNames{
    "Idle", "Waiting", "Asking", "Ready", "Suspect", "Refreshing", "Failed"};

/// RFC 4391, 9.1.2: what is beyond the hardware address comes from the path record. The global
/// route is there when the record leads through a router.
Way way_of(const wire::PathRecord& record, std::uint8_t sgid_index, std::uint8_t lmc) {
  Way way{.dlid = record.dlid,
          .sl = record.sl,
          .rate = record.rate,
          .source_path_bits = path_bits(record.slid, lmc)};
  if (record.hop_limit > 0) {
    way.sgid_index = sgid_index;
    way.hop_limit = record.hop_limit;
    way.traffic_class = record.traffic_class;
    way.flow_label = record.flow_label;
  }
  return way;
}

AddressVector vector_of(const Way& way, const Gid& dgid) {
  AddressVector vector{.dlid = way.dlid,
                       .sl = way.sl,
                       .rate = way.rate,
                       .source_path_bits = way.source_path_bits,
                       .global = {}};
  if (way.hop_limit > 0) {
    vector.global = GlobalRoute{.dgid = dgid,
                                .sgid_index = way.sgid_index,
                                .flow_label = way.flow_label,
                                .hop_limit = way.hop_limit,
                                .traffic_class = way.traffic_class};
  }
  return vector;
}

}  // namespace

PathRef PathTable::acquire(const Gid& gid) {
  if (Path* const known = find(gid)) {
    // Used again: only the unused are in a list here, since who waits for its turn has a user.
    if (known->users_ == 0 && known->PathListHook::is_linked()) known->PathListHook::unlink();
    return PathRef(*known);
  }
  if (paths_.size() >= env_.config.limits.paths) {
    if (unused_.empty()) return {};
    env_.out.counters.add(Counter::paths_evicted);
    erase(unused_.front());
  }
  return PathRef(paths_.emplace(gid, gid, *this));
}

PathTable::Condition PathTable::use(Path& path, TimePoint now) {
  const auto first_question = [&](unsigned refusals) {
    if (busy()) {
      become(path, Waiting{refusals}, "needed, but too many questions are outstanding");
      waiting_.push_back(path);
    } else {
      become(path, Asking{ask(path), refusals}, "needed");
    }
    return Condition::asked;
  };
  return std::visit(
      Overloaded{
          [&](Idle&) { return first_question(0); },
          [&](Waiting&) { return Condition::asked; },
          [&](Asking&) { return Condition::asked; },
          [&](Ready&) { return Condition::usable; },
          [&](Suspect& s) {
            if (now >= s.not_before && !busy()) {
              PathData data = std::move(s.data);
              const unsigned refusals = s.refusals;
              become(path, Refreshing{std::move(data), ask(path), refusals}, "used, in doubt");
            }
            return Condition::usable;
          },
          [&](Refreshing&) { return Condition::usable; },
          [&](Failed& s) {
            return now < s.silent_until ? Condition::refused : first_question(s.refusals);
          },
      },
      path.state_);
}

void PathTable::doubt(Path& path, std::string_view why, TimePoint not_before) {
  std::visit(Overloaded{
                 [](Idle&) {},
                 [](Waiting&) {},
                 [](Asking&) {},
                 [&](Ready& s) {
                   PathData data = std::move(s.data);
                   become(path, Suspect{.data = std::move(data), .not_before = not_before}, why);
                 },
                 [](Suspect&) {},
                 [](Refreshing&) {},
                 [](Failed&) {},
             },
             path.state_);
}

void PathTable::doubt_all(std::string_view why) {
  paths_.for_each([&](Path& path) {
    doubt(path, why);
    if (path.users_ == 0) on_unused(path);
  });
}

void PathTable::on_source_lid(Path& path, Lid source, TimePoint now) {
  const PathData* const data = path.ready();
  const Lid base = base_lid(source, lmc_);
  if (data == nullptr || base == base_lid(data->way.dlid, lmc_)) return;
  Path::Doubts& doubts = path.doubts();
  if (base == doubts.excused_lid) return;
  env_.out.counters.add(Counter::path_lid_mismatches);
  doubts.excused_lid = base;
  const TimePoint moment = std::max(now, doubts.next_doubt);
  doubts.next_doubt = moment + env_.config.path.doubt;
  doubt(path, "its port sends from another LID", moment);
}

void PathTable::on_in_service(const Gid& gid, TimePoint now) {
  if (Path* const path = find(gid)) on_report(*path, "reported in service", now);
}

void PathTable::on_out_of_service(const Gid& gid, TimePoint now) {
  Path* const path = find(gid);
  if (path == nullptr) return;
  path->doubts().last_gone = now;
  on_report(*path, "reported out of service", now);
}

/// What the SA has said before, or is about to say, may be outdated.
void PathTable::on_report(Path& path, std::string_view why, TimePoint now) {
  env_.out.counters.add(Counter::path_reports);
  std::visit(Overloaded{
                 [](Idle&) {},
                 [](Waiting&) {},
                 [&](Asking& s) { ask_anew(s.request, path); },
                 [&](Ready&) { doubt(path, why); },
                 [](Suspect& s) { s.not_before = {}; },
                 [&](Refreshing& s) { ask_anew(s.request, path); },
                 [&](Failed&) { become(path, Failed{.silent_until = now}, why); },
             },
             path.state_);
  if (path.users_ == 0) on_unused(path);
}

/// The answer to the old question is ignored. What is outstanding stays as many.
void PathTable::ask_anew(wire::SaRequestId& request, Path& path) {
  outstanding_.erase(request);
  request = ask(path);
}

std::optional<PathTable::Answered> PathTable::on_response(const wire::SaResponse& response,
                                                          TimePoint now) {
  const auto at = outstanding_.find(response.id);
  if (at == outstanding_.end()) return std::nullopt;
  Path& path = *at->second;
  outstanding_.erase(at);
  ask_next();
  PathWaiters waiters;
  if (auto* const asking = std::get_if<Asking>(&path.state_)) waiters.swap(asking->waiters);
  if (const auto* const record = std::get_if<wire::PathRecord>(&response.result)) {
    answered(path, *record, now);
  } else {
    refused(path, wire::failure_of(response.result), now);
  }
  if (path.users_ > 0) return Answered{path.usable() != nullptr, std::move(waiters)};
  on_unused(path);
  return std::nullopt;
}

std::optional<PathData> PathTable::accept(Path& path, const wire::PathRecord& record) {
  const std::uint32_t mtu = wire::mtu_octets(record.mtu);
  if (mtu == 0) {
    env_.log.debug("path {}: the SA's record makes no sense: MTU code {}", path.gid_.to_string(),
                   record.mtu);
    return std::nullopt;
  }
  PathData data{.handle = {}, .way = way_of(record, source_.index, lmc_), .mtu = mtu};
  if (const PathData* const old = path.usable(); old != nullptr && old->way == data.way) {
    data.handle = old->handle;
    return data;
  }
  auto handle = env_.handles.create_address_handle(vector_of(data.way, path.gid_));
  if (!handle) {
    env_.out.counters.add(Counter::address_handle_refusals);
    env_.log.warn("path {}: no address handle: {}", path.gid_.to_string(), handle.error().message);
    return std::nullopt;
  }
  data.handle = std::move(*handle);
  return data;
}

void PathTable::answered(Path& path, const wire::PathRecord& record, TimePoint now) {
  auto data = accept(path, record);
  if (!data) {
    using wire::SaFailure;
    return refused(path, SaFailure(SaFailure::Kind::local, "its record cannot be used"), now);
  }
  env_.out.counters.add(Counter::path_answers);
  // Spread, lest paths that were asked for together be refreshed together.
  const TimePoint refresh_at = now + env_.random.jittered(env_.config.path.refresh, 75, 125);
  become(path, Ready{std::move(*data), refresh_at}, "answered");
}

void PathTable::refused(Path& path, const wire::SaFailure& failure, TimePoint now) {
  env_.out.counters.add(Counter::path_refusals);
  const auto pause = [&](unsigned refusals) {
    return env_.config.path.negative.after(refusals, env_.random);
  };
  const std::string why = failure.text();
  std::visit(Overloaded{
                 [](Idle&) { assert(false && "no question is outstanding"); },
                 [](Waiting&) { assert(false && "no question is outstanding"); },
                 [&](Asking& s) {
                   const unsigned refusals = s.refusals + 1;
                   note_refusal(path, refusals, why, now);
                   become(path, Failed{now + pause(refusals), refusals}, why);
                 },
                 [](Ready&) { assert(false && "no question is outstanding"); },
                 [](Suspect&) { assert(false && "no question is outstanding"); },
                 [&](Refreshing& s) {
                   PathData data = std::move(s.data);
                   const unsigned refusals = s.refusals + 1;
                   note_refusal(path, refusals, why, now);
                   become(path, Suspect{std::move(data), now + pause(refusals), refusals}, why);
                 },
                 [](Failed&) { assert(false && "no question is outstanding"); },
             },
             path.state_);
}

/// At most a line a second: an administrator that is gone refuses all paths.
void PathTable::note_refusal(const Path& path, unsigned refusals, const std::string& why,
                             TimePoint now) {
  constexpr Duration kQuiet = std::chrono::seconds(1);
  if (!should_log(refusals) || now < quiet_until_) return;
  quiet_until_ = now + kQuiet;
  env_.log.warn("path to {}: {}", path.gid_.to_string(), why);
}

void PathTable::on_unused(Path& path) {
  const auto keep = [&] {
    if (!path.PathListHook::is_linked()) unused_.push_back(path);
  };
  std::visit(Overloaded{
                 [&](Idle&) { erase(path); },
                 [&](Waiting&) { erase(path); },
                 [](Asking&) {},
                 [&](Ready&) { keep(); },
                 [&](Suspect&) { erase(path); },
                 [](Refreshing&) {},
                 [&](Failed&) { path.armed_for() == kNever ? erase(path) : keep(); },
             },
             path.state_);
}

void PathTable::tick(TimePoint now) {
  while (Path* const path = timers_.pop_due(now)) {
    if (path->users_ == 0) {
      erase(*path);
    } else {
      doubt(*path, "not asked for again for long");
    }
  }
}

wire::SaRequestId PathTable::ask(Path& path) {
  const wire::SaRequestId id = env_.ids.next();
  env_.out.events.emplace_back(
      wire::SaRequest{id, wire::path_query(source_.gid, path.gid_, env_.config.pkey.as_full())});
  env_.out.counters.add(Counter::path_questions);
  outstanding_.emplace(id, &path);
  return id;
}

void PathTable::ask_next() {
  if (waiting_.empty() || busy()) return;
  Path& path = waiting_.front();
  waiting_.pop_front();
  auto& [refusals, waiters] = std::get<Waiting>(path.state_);
  Asking next{ask(path), refusals, std::move(waiters)};
  become(path, std::move(next), "its turn has come");
}

void PathTable::become(Path& path, State&& next, std::string_view why) {
  if (env_.log.should_log(spdlog::level::debug)) {
    env_.log.debug("path {}: {} -> {}: {}", path.gid_.to_string(), kNames[path.state_.index()],
                   kNames[next.index()], why);
  }
  path.state_ = std::move(next);
  const TimePoint deadline = std::visit(
      Overloaded{
          [](const Idle&) { return kNever; },
          [](const Waiting&) { return kNever; },
          [](const Asking&) { return kNever; },
          [](const Ready& s) { return s.refresh_at; },
          [](const Suspect&) { return kNever; },
          [](const Refreshing&) { return kNever; },
          // Remembered for longer than it is silent, so that the next silence is longer.
          [&](const Failed& s) { return s.silent_until + env_.config.path.negative.last; },
      },
      path.state_);
  timers_.arm(path, deadline);
}

void PathTable::erase(Path& path) {
  assert(path.users_ == 0);
  paths_.erase(path);
}

}  // namespace ipoib::link
