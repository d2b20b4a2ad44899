#include "daemon/pump.hpp"

#include <algorithm>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "verbs/receive_layout.hpp"

namespace ipoib::daemon {

namespace {

// A queue pair that breaks again at once is mended again at this pace.
constexpr Duration kMendPause = std::chrono::seconds(1);

static_assert(verbs::kSpareReceiveFrames >= kBatch, "receives are posted again while it has them");

}  // namespace

Pump::Pump(Settings settings, const Parts& parts)
    : settings_(std::move(settings)),
      parts_(parts),
      link_(settings_.link,
            {.handles = parts.queue_pair, .frames = parts.pools.messages, .log = parts.link_log},
            parts.queue_pair.qpn(), settings_.seed),
      coalescer_(parts.tun),
      policy_(settings_.poll) {
  poller_.add(parts_.tun.descriptor(), kTun);
  poller_.add(parts_.queue_pair.descriptor(), kCompletions);
  poller_.add(parts_.inbox.descriptor(), kInbox);
}

void Pump::run() {
  while (!stopping_) turn();
  now_ = monotonic_now();
  link_.shut_down(now_);
  drain();
  (void)parts_.outbox.post(Stopped{std::move(ending_)});
}

void Pump::turn() {
  now_ = monotonic_now();
  if (parts_.inbox.has_messages()) take_messages();
  bool busy = from_fabric();
  busy |= from_host();
  if (link_.next_deadline() <= now_) {
    parts_.trace.record("tick", now_);
    link_.tick(now_);
    drain();
  }
  if (parts_.queue_pair.is_broken()) mend_queue_pair();
  if (parts_.tun.is_gone()) end({Ending::Kind::deleted, {}});
  if (stopping_) return;
  if (busy) {
    policy_.on_work(now_);
    return;
  }
  if (policy_.on_nothing(now_) == PollPolicy::Next::sleep) sleep();
}

bool Pump::from_fabric() {
  const auto count = parts_.queue_pair.receive(datagrams_, kBatch);
  if (count > 0) {
    parts_.trace.record("from fabric", now_, count);
    link_.from_fabric(datagrams_, now_);
    datagrams_.clear();
  }
  drain();
  return count > 0;
}

bool Pump::from_host() {
  if (!link_.sends().empty()) return false;
  const HostPools pools{parts_.pools.host, parts_.pools.large};
  parts_.tun.read(pools, link::kHeadroom, packets_, host_limit_);
  const auto count = packets_.size();
  host_limit_ = std::clamp(2 * count, std::size_t{1}, kBatch);
  if (count == 0) return false;
  parts_.trace.record("from host", now_, count);
  link_.from_host(packets_, now_);
  packets_.clear();
  drain();
  return true;
}

void Pump::drain() {
  for (auto& packet : link_.to_host()) coalescer_.add(std::move(packet));
  link_.to_host().clear();
  coalescer_.flush();
  send_pending();
  // Instructions may raise stimuli, and those other instructions: take what is there, in order.
  while (!link_.events().empty()) {
    events_.swap(link_.events());
    for (const auto& event : events_) {
      std::visit([this](const auto& instruction) { apply(instruction); }, event);
    }
    events_.clear();
    if (std::exchange(setup_failed_, false)) link_.on_setup_failed(now_);
    for (const Gid& mgid : not_attached_) link_.on_attach_failed(mgid, now_);
    not_attached_.clear();
    send_pending();
  }
}

void Pump::send_pending() {
  auto& sends = link_.sends();
  if (sends.empty()) return;
  const auto posted = parts_.queue_pair.send(sends);
  parts_.trace.record("to fabric", now_, posted, sends.size());
  sends.erase(sends.begin(), sends.begin() + static_cast<std::ptrdiff_t>(posted));
}

void Pump::mend_queue_pair() {
  if (now_ < mend_not_before_) return;
  mend_not_before_ = now_ + kMendPause;
  armed_ = false;
  auto& queue_pair = parts_.queue_pair;
  const auto& counters = queue_pair.counters();
  parts_.trace.record("mend", now_, counters.send_errors, counters.receive_errors);
  const auto mended = queue_pair.restart();
  if (mended) {
    parts_.log.warn("queue pair {:#x} was in error ({} sends, {} receives so far) and is up again",
                    queue_pair.qpn().value(), counters.send_errors, counters.receive_errors);
    return;
  }
  parts_.log.error("{}; making another queue pair", mended.error().message);
  if (const auto remade = queue_pair.recreate(); !remade) {
    return end({Ending::Kind::failed, remade.error().message});
  }
  link_.on_queue_pair(queue_pair.qpn(), now_);
  drain();
}

TimePoint Pump::next_deadline() const {
  const auto due = link_.next_deadline();
  return parts_.queue_pair.is_broken() ? std::min(due, mend_not_before_) : due;
}

void Pump::sleep() {
  if (!std::exchange(armed_, true)) {
    parts_.queue_pair.acknowledge_events();
    parts_.queue_pair.arm();
    // What came before arming raises no event: look once more.
    if (from_fabric()) return policy_.on_work(now_);
  }
  for (const auto& ready : poller_.wait(now_, next_deadline())) {
    if (ready.tag == kCompletions) armed_ = false;
  }
}

void Pump::end(Ending why) {
  if (stopping_) return;
  stopping_ = true;
  ending_ = std::move(why);
}

}  // namespace ipoib::daemon
