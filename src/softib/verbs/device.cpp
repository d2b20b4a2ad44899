#include "softib/verbs/device.hpp"

#include <fcntl.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include "ipoib/monotonic_clock.hpp"
#include "softib/core/prefetch.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/transport/fork_guard.hpp"
#include "softib/verbs/objects.hpp"

namespace softib::verbs {
namespace {

/// The number of packets to receive before the lock is released. A large packet counts for all of
/// its segments.
constexpr std::size_t kPacketsAtOnce = 32;

using Devices = std::array<std::atomic<Device*>, fabric::kMaxProcessHcas>;
Devices current{};  ///< by HCA
/// The devices that are locked between the handlers of fork(), in the calling thread.
thread_local std::array<Device*, fabric::kMaxProcessHcas> locked_for_fork{};

struct Drop {
  std::uint64_t hca::ReportedCounters::*counter;
  fabric::PortCounter reported_as;
};
constexpr std::array kDrops = {
    Drop{&hca::ReportedCounters::send_drop_port, fabric::PortCounter::drop_port_not_active},
    Drop{&hca::ReportedCounters::send_drop_pkey, fabric::PortCounter::drop_pkey},
    Drop{&hca::ReportedCounters::drop_malformed, fabric::PortCounter::drop_malformed},
    Drop{&hca::ReportedCounters::drop_length, fabric::PortCounter::drop_malformed},
    Drop{&hca::ReportedCounters::drop_port, fabric::PortCounter::drop_port_not_active},
    Drop{&hca::ReportedCounters::drop_lid, fabric::PortCounter::drop_unknown_lid},
    Drop{&hca::ReportedCounters::drop_gid, fabric::PortCounter::drop_malformed},
    Drop{&hca::ReportedCounters::drop_unknown_qp, fabric::PortCounter::drop_unknown_qp},
    Drop{&hca::ReportedCounters::drop_qp_state, fabric::PortCounter::drop_unknown_qp},
    Drop{&hca::ReportedCounters::drop_pkey, fabric::PortCounter::drop_pkey},
    Drop{&hca::ReportedCounters::drop_qkey, fabric::PortCounter::drop_qkey},
    Drop{&hca::ReportedCounters::drop_no_receive, fabric::PortCounter::drop_no_receive},
    Drop{&hca::ReportedCounters::drop_not_attached, fabric::PortCounter::drop_not_attached},
    Drop{&hca::ReportedCounters::retries, fabric::PortCounter::rc_retries},
    Drop{&hca::ReportedCounters::rnr_naks, fabric::PortCounter::rc_rnr_naks},
    Drop{&hca::ReportedCounters::shared_rnr_naks, fabric::PortCounter::rc_srq_rnr_naks},
    Drop{&hca::ReportedCounters::shared_limits, fabric::PortCounter::srq_limit_events},
    Drop{&hca::ReportedCounters::qp_errors, fabric::PortCounter::qp_errors},
    Drop{&hca::ReportedCounters::notifications_sent, fabric::PortCounter::cnps_sent},
    Drop{&hca::ReportedCounters::notifications_received, fabric::PortCounter::cnps_received},
    Drop{&hca::ReportedCounters::duplicates, fabric::PortCounter::rc_duplicates},
    Drop{&hca::ReportedCounters::sequence_errors, fabric::PortCounter::rc_sequence_errors},
    Drop{&hca::ReportedCounters::dropped_messages, fabric::PortCounter::uc_dropped_messages},
};

/// The part that a single packet can have; the payload of a large packet is longer.
ConstBytes front_of(ConstBytes bytes) {
  return bytes.first(std::min(bytes.size(), kMaxPacketBytes));
}

void describe(ListedDevice& device, std::size_t hca) {
  const auto name = fabric::device_name(hca);
  device.index = static_cast<int>(hca);
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  std::snprintf(device.name, sizeof device.name, "%s", name.c_str());
  std::snprintf(device.dev_name, sizeof device.dev_name, "uverbs%zu", hca);
  std::snprintf(device.dev_path, sizeof device.dev_path, "/sys/class/infiniband_verbs/uverbs%zu",
                hca);
  std::snprintf(device.ibdev_path, sizeof device.ibdev_path, "/sys/class/infiniband/%s",
                name.c_str());
}

}  // namespace

void Device::lock_for_fork() {
  for (std::size_t hca = 0; hca < current.size(); ++hca) {
    locked_for_fork[hca] = current[hca].load();
    if (locked_for_fork[hca] != nullptr) locked_for_fork[hca]->mutex_.lock();
  }
}

void Device::unlock_after_fork() {
  for (Device*& each : locked_for_fork) {
    if (auto* const held = std::exchange(each, nullptr)) held->mutex_.unlock();
  }
}

/// Registered when the library is loaded, before the handlers of process_endpoint(). "prepare"
/// handlers run in reverse order, so fork() takes the lock of process_endpoint() first, as does the
/// thread that detaches an endpoint. A connection may open descriptors under this lock.
[[maybe_unused]] const int Device::fork_handlers_ =
    (transport::register_fork_handlers(),
     ::pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork));

ipoib::Result<Device*> Device::of_process(std::size_t hca) {
  const auto endpoint = endpoint::process_endpoint(hca);
  if (!endpoint) return endpoint.error();
  auto* seen = current.at(hca).load();
  if (seen != nullptr && &seen->endpoint_ == *endpoint) return seen;
  auto created = std::make_unique<Device>(**endpoint, hca);
  if (!current.at(hca).compare_exchange_strong(seen, created.get())) return seen;
  // The device of the parent process, if any, is not destroyed: the program may use its address.
  (*endpoint)->set_receiver(created.get());
  return created.release();
}

Device::Device(endpoint::Endpoint& endpoint, std::size_t hca)
    : endpoint_(endpoint),
      hca_(endpoint.epoch(), endpoint.slot(), endpoint.ports(), &memory_),
      wakeups_([&endpoint](std::size_t entry, std::uint32_t waiter) {
        endpoint.set_waiter(entry, waiter);
      }) {
  describe(listed_, hca);
  listed_.device = this;
}

Device::~Device() = default;

void Device::transmit(hca::QueuePair& qp) {
  if (qp.is_connected()) return;
  transmit(qp, change([&](hca::Hca& hca) { return hca.next_packets(qp); }));
}

/// Sends `batch`, and all further batches of the queue pair.
void Device::transmit(hca::QueuePair& qp, std::span<const OutgoingPacket> batch) {
  while (!batch.empty()) {
    endpoint_.send(batch);
    batch = change([&](hca::Hca& hca) { return hca.next_packets(qp); });
  }
}

bool Device::take_device_memory(std::size_t bytes) {
  auto used = device_memory_.load();
  do {
    if (bytes > hca::kMaxDeviceMemory - used) return false;
  } while (!device_memory_.compare_exchange_weak(used, used + bytes));
  return true;
}

bool Device::poll_receive_rings(Cq& cq) {
  if (wakeups_.must_note_poll(cq.wakeups)) {
    const auto now = ipoib::monotonic_now();
    const auto access = hca();
    wakeups_.on_empty_poll(cq.wakeups, now);
    set_deadline(wakeups_.start_checks(now));
  }
  return endpoint_.poll_receive_rings();
}

void Device::resume() {
  if (!must_resume_.load(std::memory_order_relaxed)) return;
  change([this](hca::Hca& hca) {
    hca.connections().resume();
    serve_connections(ipoib::monotonic_now());
  });
}

/// Returns the waiter that stands for the completion channel of `cq`.
std::optional<std::uint32_t> Device::reader_of(Cq& cq) {
  if (cq.channel == nullptr) return std::nullopt;
  auto& channel = of(cq.channel);
  if ((::fcntl(channel.fd, F_GETFL) & O_NONBLOCK) == 0) return transport::Waiter::kEngine;
  if (channel.wakeup_fd == transport::Waiter::kEngine) {
    channel.wakeup_fd = endpoint_.add_wakeup_fd(channel.events.socket());
  }
  return channel.wakeup_fd;
}

void Device::arm(Cq& cq, bool solicited_only) {
  receive_pending();
  change([&](hca::Hca& hca) {
    if (cq.model->arm(solicited_only) && cq.queued_events == 0) hca.raise_completion(*cq.model);
    hca.connections().resume();
    wakeups_.on_armed(cq.wakeups, reader_of(cq));
  });
}

int Device::poll(Cq& cq, std::span<ibv_wc> out, std::span<ipoib::TimePoint> times) {
  bool must_look = false;
  const auto begin = begin_of_call();
  const int count = change([&](hca::Hca& hca) {
    const int polled = cq.model->poll(out, times);
    hca.connections().resume();
    must_look = polled > 0 && wakeups_.must_note_completions() &&
                wakeups_.on_completions(begin.value_or(ipoib::monotonic_now()));
    return polled;
  });
  if (must_look) {
    receive_pending();
    hca().wakeups().end_call(ipoib::monotonic_now());
  }
  return count;
}

/// The clock is read only if a completion queue keeps times.
void Device::set_clock() {
  auto& clock = hca_.clock();
  if (clock.users != 0) clock.now = ipoib::monotonic_now();
}

/// Serves connections. A program that is present goes on itself with packets that are postponed.
void Device::serve_connections(ipoib::TimePoint now) {
  auto& connections = hca_.connections();
  set_deadline(connections.serve(now, endpoint_));
  wakeups_.set_needs_responses(connections.needs_responses());
  set_deadline(wakeups_.start_checks(now));
  const auto resume_at = connections.resume_at(now);
  must_resume_.store(resume_at != ipoib::kNever, std::memory_order_relaxed);
  if (!wakeups_.is_program_present()) set_deadline(resume_at);
}

/// Sets the deadline if it is earlier than the present one: when one passes that is no longer
/// needed, the next one is set.
void Device::set_deadline(ipoib::TimePoint when) {
  if (when >= deadline_) return;
  deadline_ = when;
  endpoint_.set_deadline(when);
}

void Device::deadline(ipoib::TimePoint now) {
  change([&](hca::Hca& hca) {
    deadline_ = ipoib::kNever;
    set_deadline(wakeups_.check(now));
    hca.connections().expire(now);
    hca.connections().resume();
    serve_connections(now);
    report_drops();
  });
}

void Device::receive_for(const CompChannel& channel) {
  receive_pending();
  hca().wakeups().on_channel_read(channel.wakeup_fd);
  receive_pending();
}

ipoib::Result<void> Device::destroy(Cq& cq) {
  const auto access = hca();
  auto destroyed = access->destroy(*cq.model);
  if (destroyed) wakeups_.remove(cq.wakeups);
  return destroyed;
}

/// Sends the responses that a connection owes its peer, which waits for them; they may wait for
/// room in their turn.
void Device::send_responses(hca::QueuePair& qp) {
  using std::chrono::steady_clock;
  const auto owes = [&] {
    return change([&](hca::Hca& hca) {
      hca.connections().resume();
      return qp.connection().responder.owes();
    });
  };
  const auto begin = steady_clock::now();
  const auto until = begin + patience_.left(begin);
  while (owes() && steady_clock::now() < until) std::this_thread::sleep_for(hca::kRoomRetry);
  patience_.spend(begin, steady_clock::now());
}

ipoib::Result<void> Device::retire(hca::QueuePair& qp) {
  if (qp.is_connected()) send_responses(qp);
  return change([&](hca::Hca& hca) { return hca.retire(qp); });
}

ipoib::Result<void> Device::destroy(hca::QueuePair& qp) {
  return change([&](hca::Hca& hca) { return destroy(hca, qp); });
}

ipoib::Result<void> Device::destroy(hca::Hca& hca, hca::QueuePair& qp) {
  const Qpn number = qp.number();
  const bool is_connected = qp.is_connected();
  const auto* const receives = qp.config().receive_cq;
  auto destroyed = hca.destroy(qp);
  if (!destroyed) return destroyed;
  if (is_connected) {
    wakeups_.remove_connection();
  } else {
    wakeups_.remove_receiver(number, static_cast<Cq*>(receives->owner)->wakeups);
  }
  return destroyed;
}

ipoib::Result<void> Device::attach(hca::QueuePair& qp, const Gid& group, Lid lid) {
  const std::lock_guard lock(groups_mutex_);
  if (auto attached = hca()->attach(qp, group, lid); !attached) return attached;
  auto joined = follow_groups();
  if (!joined) (void)hca()->detach(qp, group, lid);
  return joined;
}

ipoib::Result<void> Device::detach(hca::QueuePair& qp, const Gid& group, Lid lid) {
  const std::lock_guard lock(groups_mutex_);
  if (auto detached = hca()->detach(qp, group, lid); !detached) return detached;
  (void)follow_groups();
  return {};
}

/// Requires groups_mutex_. The model is not locked meanwhile: the thread that delivers packets
/// needs it, and is waited for.
ipoib::Result<void> Device::follow_groups() {
  std::vector<Gid> groups;
  {
    const auto access = hca();
    if (!access->is_ethernet()) return {};
    groups = access->multicast_groups();
  }
  return endpoint_.set_groups(groups);
}

/// All go before anything is sent: the program may have released the memory of their responses.
void Device::destroy_all(const std::unordered_set<Qp*>& qps) {
  const std::lock_guard lock(groups_mutex_);
  change([&](hca::Hca& hca) {
    for (const Qp* const qp : qps) {
      hca.detach_all(*qp->model);
      (void)destroy(hca, *qp->model);
    }
  });
  (void)follow_groups();
}

ipoib::Result<transport::WakeupSocket> Device::make_wakeup_socket() {
  return endpoint_.make_wakeup_socket();
}

void Device::remove_wakeup_fd(const CompChannel& channel) {
  if (channel.wakeup_fd != transport::Waiter::kEngine)
    endpoint_.remove_wakeup_fd(channel.wakeup_fd);
}

void Device::add(Context& context) {
  const auto access = hca();
  contexts_.push_back(&context);
}

void Device::remove(Context& context) {
  const auto access = hca();
  std::erase(contexts_, &context);
}

void Device::receive(std::span<const ArrivedPacket> batch) {
  while (!batch.empty()) {
    change([&](hca::Hca& hca) {
      for (std::size_t packets = 0; packets < kPacketsAtOnce && !batch.empty();) {
        const auto& packet = batch.front();
        batch = batch.subspan(1);
        // The next packet is in the cache of another processor: fetch it while this one is copied.
        if (!batch.empty()) prefetch(front_of(batch.front().bytes));
        hca.receive(packet);
        packets += packet.gso.packets;
      }
      hca.connections().resume();
      report_drops();
    });
  }
}

void Device::port_changed(const PortAttributes& now) {
  change([&](hca::Hca& hca) {
    hca.set_port(now);
    report_drops();
  });
}

ObjectPage Device::objects(const ObjectRequest& request) {
  const auto access = hca();
  if (request.kind != ObjectKind::context) return access->objects(request);
  return ObjectPage::from(request.first, contexts_.size(), [](std::size_t index) {
    return ObjectStatus{.number = static_cast<std::uint32_t>(index)};
  });
}

void Device::dispatch_events() {
  for (const auto& event : hca_.events()) {
    if (const auto* const completion = std::get_if<hca::CompletionEvent>(&event)) {
      auto& cq = *static_cast<Cq*>(completion->cq->owner);
      if (cq.channel == nullptr) continue;
      ++cq.queued_events;
      of(cq.channel).events.push(&cq);
    } else {
      dispatch(std::get<hca::AsyncEvent>(event));
    }
  }
  hca_.clear_events();
}

void Device::dispatch(const hca::AsyncEvent& event) {
  ibv_async_event out{};
  out.event_type = event.type;
  if (event.cq != nullptr) {
    auto& cq = *static_cast<Cq*>(event.cq->owner);
    out.element.cq = as_cq(cq);
    of(cq.context).async_events.push(out);
  } else if (event.qp != nullptr) {
    auto& qp = *static_cast<Qp*>(event.qp->owner);
    out.element.qp = &qp.qp_base;
    of(qp.qp_base.context).async_events.push(out);
  } else if (event.shared != nullptr) {
    out.element.srq = static_cast<Srq*>(event.shared->owner);
    of(out.element.srq->context).async_events.push(out);
  } else {
    out.element.port_num = event.port;
    for (auto* const context : contexts_) context->async_events.push(out);
  }
}

void Device::report_drops() {
  for (std::uint8_t port = 1; port <= hca_.ports().count(); ++port) {
    const auto& now = hca_.counters().at(port);
    auto& before = reported_.at(port);
    static_assert(std::has_unique_object_representations_v<hca::ReportedCounters>);
    if (std::memcmp(&now, &before, sizeof before) == 0) continue;  // nearly always
    for (const auto& drop : kDrops) {
      const auto by = now.*drop.counter - before.*drop.counter;
      if (by != 0) endpoint_.count_at(port, drop.reported_as, by);
    }
    before = now;
    report_violations(port);
  }
}

void Device::report_violations(std::uint8_t port) {
  for (const auto key : kCheckedKeys) {
    const KeyViolations& now = hca_.counters().violations[port - 1U][key];
    auto& before = reported_.violations[port - 1U][key].packets;
    const auto more = now.packets - std::exchange(before, now.packets);
    if (more != 0) endpoint_.count_violations(port, key, {more, now.last});
  }
}

}  // namespace softib::verbs
