// The stimuli, in the order of path.hpp. Each names every state, so a new state does not compile
// until each of them handles it.
#include "link/path.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"
#include "link/path_requests.hpp"
#include "link/path_table.hpp"

namespace ipoib::link {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<Path::State>> kPathStateNames{
    "Idle", "Waiting", "Requesting", "Ready", "NeedsRefresh", "Refreshing", "Failed"};

/// The attributes in a path record, from which everything but the hardware address comes (RFC 4391,
/// 9.1.2). There is a global route if the record leads through a router, or our port requires one.
PathAttributes path_attributes(const wire::PathRecord& record, const PathSource& source) {
  PathAttributes attributes{.dlid = record.dlid,
                            .sl = record.sl,
                            .rate = record.rate,
                            .source_path_bits = path_bits(record.slid, source.lmc)};
  if (record.hop_limit > 0 || source.grh_required) {
    attributes.sgid_index = source.port.index;
    attributes.hop_limit = std::max(record.hop_limit, kSubnetHopLimit);
    attributes.traffic_class = record.traffic_class;
    attributes.flow_label = record.flow_label;
  }
  return attributes;
}

AddressVector address_vector(const PathAttributes& attributes, const Gid& dgid) {
  AddressVector vector{.dlid = attributes.dlid,
                       .sl = attributes.sl,
                       .rate = attributes.rate,
                       .source_path_bits = attributes.source_path_bits,
                       .global = {}};
  if (attributes.hop_limit > 0) {
    vector.global = GlobalRoute{.dgid = dgid,
                                .sgid_index = attributes.sgid_index,
                                .flow_label = attributes.flow_label,
                                .hop_limit = attributes.hop_limit,
                                .traffic_class = attributes.traffic_class};
  }
  return vector;
}

/// Whether the port was reported during the request that is complete now.
bool take_outdated(Path::State& state) {
  return std::visit(Overloaded{
                        [](OneOf<Path::Requesting, Path::Refreshing> auto& s) {
                          return std::exchange(s.is_outdated, false);
                        },
                        [](OneOf<Path::Idle, Path::Waiting, Path::Ready, Path::NeedsRefresh,
                                 Path::Failed> auto&) { return false; },
                    },
                    state);
}

}  // namespace

PathRef::~PathRef() {
  if (path_ != nullptr && --path_->users_ == 0) path_->table_.update(*path_);
}

Path::Condition Path::on_use(Purpose purpose, const Dependencies& deps, TimePoint now) {
  return std::visit(
      Overloaded{
          [&](Idle&) { return first_request(0, purpose, deps); },
          [&](Waiting& s) {
            if (s.purpose < purpose) {
              s.purpose = purpose;
              if (PathListHook::is_linked()) PathListHook::unlink();  // for the other list
            }
            return Condition::pending;
          },
          [](Requesting&) { return Condition::pending; },
          [](OneOf<Ready, Refreshing> auto&) { return Condition::usable; },
          [&](NeedsRefresh& s) {
            if (now >= s.not_before && !deps.requests.full(purpose)) {
              deps.requests.send(*this);
              become(Refreshing{std::move(s.data), s.failures}, "used, needs refresh", deps);
            }
            return Condition::usable;
          },
          [&](Failed& s) {
            return now < s.retry_at ? Condition::failed : first_request(s.failures, purpose, deps);
          },
      },
      state_);
}

Path::Condition Path::first_request(unsigned failures, Purpose purpose, const Dependencies& deps) {
  if (deps.requests.full(purpose)) {
    become(Waiting{failures, purpose}, "used, but too many requests are outstanding", deps);
  } else {
    deps.requests.send(*this);
    become(Requesting{failures}, "used", deps);
  }
  return Condition::pending;
}

void Path::on_turn(const Dependencies& deps) {
  auto& waiting = std::get<Waiting>(state_);
  deps.requests.send(*this);
  become(Requesting{waiting.failures, std::move(waiting.waiters)}, "fewer requests are outstanding",
         deps);
}

void Path::await(PathWaiter& waiter) {
  if (auto* const waiting = std::get_if<Waiting>(&state_)) {
    waiting->waiters.push_back(waiter);
  } else {
    std::get<Requesting>(state_).waiters.push_back(waiter);
  }
}

void Path::invalidate(std::string_view why, const Dependencies& deps, TimePoint not_before) {
  std::visit(Overloaded{
                 [&](Ready& s) {
                   become(NeedsRefresh{std::move(s.data), not_before, 0}, why, deps);
                 },
                 [](OneOf<Idle, Waiting, Requesting, NeedsRefresh, Refreshing, Failed> auto&) {},
             },
             state_);
}

void Path::on_lid_mismatch(Lid source, const Dependencies& deps, TimePoint now) {
  if (source == history().ignored_lid) return;
  deps.out.counters.add(Counter::path_lid_mismatches);
  history().ignored_lid = source;
  const TimePoint moment = std::max(now, history().next_mismatch);
  history().next_mismatch = moment + deps.config.path.mismatch_interval;
  invalidate("its port sends from another LID", deps, moment);
}

/// Responses that the SA has sent before, or is about to send, may be outdated. Strangers can cause
/// reports, so none adds to the outstanding requests, and a path that the SA knows is never
/// withheld.
void Path::on_report(bool in_service, const Dependencies& deps, TimePoint now) {
  const std::string_view why = in_service ? "reported in service" : "reported out of service";
  if (!in_service) history().out_of_service = now;
  deps.out.counters.add(Counter::path_reports);
  std::visit(Overloaded{
                 [](OneOf<Idle, Waiting> auto&) {},
                 [](OneOf<Requesting, Refreshing> auto& s) { s.is_outdated = true; },
                 [&](Ready&) { invalidate(why, deps); },
                 [](NeedsRefresh& s) { s.not_before = {}; },
                 [&](Failed&) { become_failed(now, 0, why, deps); },
             },
             state_);
}

PathWaiters Path::on_response(const wire::SaResult& result, const Dependencies& deps,
                              TimePoint now) {
  const auto* const record = std::get_if<wire::PathRecord>(&result);
  const bool is_outdated = take_outdated(state_);
  PathWaiters waiters;
  if (is_outdated && record == nullptr && users_ > 0) {
    deps.requests.send(*this);  // in place of the one that is complete
    return waiters;
  }
  if (auto* const requesting = std::get_if<Requesting>(&state_)) waiters.swap(requesting->waiters);
  if (record != nullptr) {
    on_record(*record, deps, now);
  } else {
    on_failure(wire::failure_of(result), deps, now);
  }
  if (is_outdated) invalidate("reported during the request", deps);
  return waiters;
}

void Path::on_record(const wire::PathRecord& record, const Dependencies& deps, TimePoint now) {
  auto data = accept(record, deps);
  if (!data) {
    using wire::SaFailure;
    return on_failure(SaFailure(SaFailure::Kind::local, "its record cannot be used"), deps, now);
  }
  deps.out.counters.add(Counter::path_responses);
  // Random, so that paths that were requested together are not refreshed together.
  const TimePoint refresh_at = now + deps.random.jittered(deps.config.path.refresh, 75, 125);
  become(Ready{std::move(*data), refresh_at}, "response", deps);
}

/// Creates the address handle, unless the attributes are still the same. Returns nullopt if the
/// record is invalid or the handle cannot be created.
std::optional<PathData> Path::accept(const wire::PathRecord& record,
                                     const Dependencies& deps) const {
  const std::uint32_t mtu = wire::mtu_bytes(record.mtu);
  if (mtu == 0) {
    deps.log.debug("path {}: invalid MTU code {} in the SA's record", gid_.to_string(), record.mtu);
    return std::nullopt;
  }
  PathData data{.handle = {},
                .attributes = path_attributes(record, deps.requests.source()),
                .mtu = static_cast<std::uint16_t>(mtu),
                .lifetime = record.lifetime};
  if (const PathData* const old = usable(); old != nullptr && old->attributes == data.attributes) {
    data.handle = old->handle;
    return data;
  }
  auto handle = deps.handles.create_address_handle(address_vector(data.attributes, gid_));
  if (!handle) {
    deps.out.counters.add(Counter::address_handle_refusals);
    deps.log.warn("path {}: no address handle: {}", gid_.to_string(), handle.error().message);
    return std::nullopt;
  }
  data.handle = std::move(*handle);
  return data;
}

void Path::on_failure(const wire::SaFailure& failure, const Dependencies& deps, TimePoint now) {
  deps.out.counters.add(Counter::path_failures);
  const std::string why = failure.text();
  const auto pause = [&](unsigned failures) {
    deps.requests.log_failure(*this, failures, why, now);
    return deps.config.path.negative.after(failures, deps.random);
  };
  std::visit(Overloaded{
                 [&](Requesting& s) {
                   const unsigned failures = s.failures + 1;
                   become_failed(now + pause(failures), failures, why, deps);
                 },
                 [&](Refreshing& s) {
                   const unsigned failures = s.failures + 1;
                   const TimePoint not_before = now + pause(failures);
                   become(NeedsRefresh{std::move(s.data), not_before, failures}, why, deps);
                 },
                 [](OneOf<Idle, Waiting, Ready, NeedsRefresh, Failed> auto&) {
                   assert(false && "no request is outstanding");
                 },
             },
             state_);
}

void Path::on_deadline(const Dependencies& deps) {
  std::visit(Overloaded{
                 [&](Ready&) { invalidate("refresh interval is over", deps); },
                 [](Failed& s) { s.forget_at = kNever; },
                 [](OneOf<Idle, Waiting, Requesting, NeedsRefresh, Refreshing> auto&) {
                   assert(false && "has no deadline");
                 },
             },
             state_);
}

/// Takes over a path of another daemon, whose data may be old: its next use requests it again.
bool Path::on_restored(const SavedPath& saved, const Dependencies& deps) {
  return std::visit(Overloaded{
                        [&](Idle&) {
                          auto handle = deps.handles.create_address_handle(
                              address_vector(saved.attributes, gid_));
                          if (!handle) {
                            deps.out.counters.add(Counter::address_handle_refusals);
                            return false;
                          }
                          PathData data{std::move(*handle), saved.attributes,
                                        static_cast<std::uint16_t>(saved.mtu)};
                          become(NeedsRefresh{std::move(data), {}, 0}, "restored", deps);
                          return true;
                        },
                        [](OneOf<Ready, NeedsRefresh, Refreshing> auto&) { return true; },
                        [](OneOf<Waiting, Requesting, Failed> auto&) { return false; },
                    },
                    state_);
}

/// The one function that changes the state.
void Path::become(State&& next, std::string_view why, const Dependencies& deps) {
  if (deps.log.should_log(spdlog::level::debug)) {
    deps.log.debug("path {}: {} -> {}: {}", gid_.to_string(), kPathStateNames[state_.index()],
                   kPathStateNames[next.index()], why);
  }
  state_ = std::move(next);
}

void Path::become_failed(TimePoint retry_at, unsigned failures, std::string_view why,
                         const Dependencies& deps) {
  const TimePoint forget_at = retry_at + deps.config.path.negative.last;
  become(Failed{retry_at, forget_at, failures}, why, deps);
}

Disposition Path::disposition() const {
  if (users_ > 0) return Disposition::keep;
  return std::visit(
      Overloaded{
          [](const OneOf<Idle, Waiting, NeedsRefresh> auto&) { return Disposition::erase; },
          [](const OneOf<Requesting, Ready, Refreshing> auto&) { return Disposition::keep; },
          [](const Failed& s) {
            return s.forget_at == kNever ? Disposition::erase : Disposition::keep;
          },
      },
      state_);
}

const PathData* Path::usable() const {
  return std::visit(
      Overloaded{
          [](const OneOf<Ready, NeedsRefresh, Refreshing> auto& s) { return &s.data; },
          [](const OneOf<Idle, Waiting, Requesting, Failed> auto&) {
            return static_cast<const PathData*>(nullptr);
          },
      },
      state_);
}

TimePoint Path::deadline() const {
  return std::visit(Overloaded{
                        [](const Ready& s) { return s.refresh_at; },
                        [](const Failed& s) { return s.forget_at; },
                        [](const OneOf<Idle, Waiting, Requesting, NeedsRefresh, Refreshing> auto&) {
                          return kNever;
                        },
                    },
                    state_);
}

}  // namespace ipoib::link
