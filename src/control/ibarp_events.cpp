// libibarp: subscriptions to events.
#include <chrono>
#include <cstddef>
#include <utility>

#include "control/ibarp_handle.hpp"
#include "ipoib/overloaded.hpp"

using namespace ipoib;           // NOLINT: the C functions are in no namespace
using namespace ipoib::control;  // NOLINT

namespace {

Result<SubscribeRequest> request_for(std::uint32_t topics, std::uint32_t interval_ms) {
  constexpr std::uint32_t kAll =
      IBARP_NEIGHBOURS | IBARP_LINK | IBARP_GROUPS | IBARP_STATIONS | IBARP_STATS;
  if (topics == 0 || (topics & ~kAll) != 0) return Error{EINVAL, "no such topic"};
  SubscribeRequest request;
  request.topics = {.neighbours = (topics & IBARP_NEIGHBOURS) != 0,
                    .link = (topics & IBARP_LINK) != 0,
                    .groups = (topics & IBARP_GROUPS) != 0,
                    .stations = (topics & IBARP_STATIONS) != 0,
                    .stats = (topics & IBARP_STATS) != 0};
  if (interval_ms != 0) request.interval = std::chrono::milliseconds(interval_ms);
  return request;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : ",") + name;
  return out;
}

/// The event as a C structure, which refers to `current`.
ibarp_event to_c(CurrentEvent& current) {
  ibarp_event out{};
  out.size = sizeof(out);
  const auto describe = [&out](std::uint32_t type, const auto& event) {
    out.type = type;
    copy_text(event.change, out.change, sizeof(out.change));
    copy_text(event.why, out.why, sizeof(out.why));
  };
  std::visit(Overloaded{
                 [&](const NeighbourEvent& event) {
                   describe(IBARP_NEIGHBOURS, event);
                   current.entry = control::to_c(event.entry);
                   out.entry = &current.entry;
                 },
                 [&](const LinkEvent& event) {
                   out.type = IBARP_LINK;
                   current.changed = joined(event.changed);
                   current.info = control::to_c(event.info);
                   out.changed = current.changed.c_str();
                   out.info = &current.info;
                 },
                 [&](const GroupEvent& event) {
                   describe(IBARP_GROUPS, event);
                   current.group = control::to_c(event.group);
                   out.group = &current.group;
                 },
                 [&](const StationEvent& event) {
                   describe(IBARP_STATIONS, event);
                   current.station = control::to_c(event.station);
                   out.station = &current.station;
                 },
                 [&](const StatsEvent& event) {
                   out.type = IBARP_STATS;
                   out.interval_ms = static_cast<std::uint32_t>(event.interval.count());
                 },
                 [&](const LostEvent& event) {
                   out.type = IBARP_LOST;
                   out.lost = event.events;
                 },
                 [&](const TakeoverEvent&) { out.type = IBARP_TAKEOVER; },
             },
             current.event);
  return out;
}

}  // namespace

extern "C" {

int ibarp_subscribe(ibarp* handle, std::uint32_t topics, std::uint32_t interval_ms) {
  return with(handle, [&] {
    const auto request = request_for(topics, interval_ms);
    if (request.has_error()) return refuse(handle, request.error());
    auto connection = std::make_unique<Connection>(handle->connection.interface());
    connection->set_timeout(handle->connection.timeout());
    const Response response = connection->ask(InterfaceRequest(*request));
    if (response.has_error()) return refuse(handle, response.error());
    handle->subscription = std::move(connection);
    handle->current.reset();
    return 0;
  });
}

void ibarp_unsubscribe(ibarp* handle) {
  if (handle == nullptr) return;
  handle->subscription.reset();
  handle->current.reset();
}

int ibarp_fd(const ibarp* handle) {
  return handle == nullptr || handle->subscription == nullptr ? -ENOTCONN
                                                              : handle->subscription->descriptor();
}

int ibarp_next_event(ibarp* handle, ibarp_event* event, int milliseconds) {
  return with(handle, [&] {
    if (handle->subscription == nullptr) {
      return refuse(handle, Error{ENOTCONN, "there is no subscription"});
    }
    auto next = handle->subscription->next_event(std::chrono::milliseconds(milliseconds));
    if (next.has_error()) {
      if (next.error().code != EAGAIN) ibarp_unsubscribe(handle);
      return refuse(handle, next.error());
    }
    handle->current = std::make_unique<CurrentEvent>(CurrentEvent{.event = std::move(*next)});
    return give(to_c(*handle->current), event) ? 0 : invalid(handle, "event->size is not set");
  });
}

int ibarp_deltas(ibarp* handle, ibarp_delta_fn* each, void* data) {
  return with(handle, [&] {
    const auto* const stats =
        handle->current == nullptr ? nullptr : std::get_if<StatsEvent>(&handle->current->event);
    if (stats == nullptr) return invalid(handle, "the last event has no counters");
    for (const auto& [counter, delta] : stats->counters) {
      const auto out = control::to_c(counter);
      if (const int stop = each(&out, delta, data); stop != 0) return stop;
    }
    return 0;
  });
}

}  // extern "C"
