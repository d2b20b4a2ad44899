#include "control/subscribers.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "ipoib/overloaded.hpp"

namespace ipoib::control {

namespace asio = boost::asio;
using lines::LineStream;

namespace {

bool wants(const Topics& topics, const Event& event) {
  return std::visit(
      Overloaded{
          [&](const NeighbourEvent&) { return topics.neighbours; },
          [&](const LinkEvent&) { return topics.link; },
          [&](const GroupEvent&) { return topics.groups; },
          [&](const StationEvent&) { return topics.stations; },
          [&](const StatsEvent&) { return topics.stats; },
          [&](const LostEvent&) { return topics.neighbours || topics.groups || topics.stations; },
          [&](const TakeoverEvent&) { return true; },
      },
      event);
}

/// The event without the Q_Key, since whoever knows that can send to the queue pairs of the
/// partition; nullopt if nothing is left.
std::optional<Event> without_qkey(const Event& event) {
  const auto* const link = std::get_if<LinkEvent>(&event);
  if (link == nullptr) return event;
  LinkEvent out = *link;
  out.info.qkey = QKey();
  std::erase(out.changed, "qkey");
  return out.changed.empty() ? std::nullopt : std::optional<Event>(std::move(out));
}

std::shared_ptr<const std::string> as_line(const std::optional<Event>& event) {
  return event ? std::make_shared<const std::string>(emit(*event)) : nullptr;
}

}  // namespace

Subscribers::Subscribers(asio::io_context& context, Ask ask)
    : context_(context), ask_(std::move(ask)), timer_(context) {}

void Subscribers::stop() { timer_.cancel(); }

void Subscribers::subscribe(const SubscribeRequest& request, bool may_change,
                            lines::LineHandler::Done done) {
  const auto made = std::make_shared<Subscriber>(Subscriber{request, may_change});
  expected_.push_back(made);
  tell(wanted(), [weak = weak_from_this(), made, done = std::move(done)](const Response& response) {
    if (response.has_error()) return done(emit(response));
    // Clients with equal requests may share the answer.
    done({emit(response), [weak, made](std::shared_ptr<LineStream> stream) {
            const auto self = weak.lock();
            if (self) self->add(std::make_shared<Subscriber>(*made), std::move(stream));
          }});
  });
}

void Subscribers::add(const Pointer& subscriber, std::shared_ptr<LineStream> stream) {
  subscriber->stream = std::move(stream);
  subscriber->due = Clock::now();
  all_.push_back(subscriber);
  if (subscriber->request.topics.stats) arm();
}

/// The topics that all subscribers want; forgets subscribers that have gone.
Topics Subscribers::wanted() {
  std::erase_if(all_, [](const Pointer& each) { return !each->stream->is_open(); });
  std::erase_if(expected_, [](const auto& each) { return each.expired(); });
  Topics topics;
  for (const auto& each : all_) topics |= each->request.topics;
  for (const auto& each : expected_) {
    if (const auto expected = each.lock()) topics |= expected->request.topics;
  }
  return topics;
}

/// Tells the interface which topics are wanted. If it refuses, it is told again at the next
/// occasion.
void Subscribers::tell(const Topics& wanted, Callback done) {
  reported_ = wanted;
  ask_(SubscribeRequest{wanted},
       [weak = weak_from_this(), &context = context_, done = std::move(done)](Response response) {
         if (response.has_error()) {
           asio::post(context, [weak] {
             if (const auto self = weak.lock()) self->reported_.reset();
           });
         }
         if (done) done(std::move(response));
       });
}

void Subscribers::publish(const Event& event) {
  if (const Topics now = wanted(); now != reported_) tell(now, {});
  std::shared_ptr<const std::string> complete;
  std::shared_ptr<const std::string> reduced;
  for (const auto& each : all_) {
    if (!wants(each->request.topics, event)) continue;
    auto& line = each->may_change ? complete : reduced;
    if (line == nullptr) line = as_line(each->may_change ? event : without_qkey(event));
    if (line != nullptr) each->stream->push(line);
  }
}

// --- Statistics ----------------------------------------------------------------------------------

/// Arms the timer for the subscriber that is due next, but not more often than the shortest
/// interval: the work of the interface for statistics does not depend on the number of subscribers.
void Subscribers::arm() {
  auto next = Clock::time_point::max();
  for (const auto& each : all_) {
    if (each->request.topics.stats) next = std::min(next, each->due);
  }
  if (next == Clock::time_point::max()) return;
  timer_.expires_at(std::max(next, polled_ + SubscribeRequest::kMinInterval));
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code stopped) {
    const auto self = weak.lock();
    if (!stopped && self) self->poll_counters();
  });
}

void Subscribers::poll_counters() {
  (void)wanted();
  const auto now = Clock::now();
  polled_ = now;
  std::vector<Pointer> due;
  for (const auto& each : all_) {
    if (!each->request.topics.stats || each->due > now) continue;
    each->due = std::max(each->due + each->request.interval, now);
    due.push_back(each);
  }
  arm();
  if (due.empty()) return;
  ask_(StatsRequest{}, [weak = weak_from_this(), &context = context_, due](Response response) {
    if (response.has_error()) return;
    asio::post(context, [weak, due, response = std::move(response)] {
      const auto self = weak.lock();
      if (self) self->send_counters(due, std::get<std::vector<Counter>>(*response));
    });
  });
}

void Subscribers::send_counters(const std::vector<Pointer>& due,
                                const std::vector<Counter>& counters) const {
  const auto now = Clock::now();
  for (const auto& each : due) {
    StatsEvent event;
    event.interval = std::chrono::round<std::chrono::milliseconds>(now - each->sent);
    const bool is_first = each->before.empty();
    for (const Counter& counter : counters) {
      const auto before = std::exchange(each->before[counter.name], counter.value);
      const auto delta = static_cast<std::int64_t>(counter.value - before);
      if (delta != 0) event.counters.push_back({counter, delta});
    }
    each->sent = now;
    if (!is_first) each->stream->push(as_line(Event(std::move(event))));
  }
}

}  // namespace ipoib::control
