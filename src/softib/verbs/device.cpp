#include "softib/verbs/device.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <utility>

#include "softib/core/prefetch.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/verbs/objects.hpp"

namespace softib::verbs {
namespace {

/// What stands for this many packets is brought in under the lock in one go, the last of it whole.
constexpr std::size_t kPacketsAtOnce = 32;

std::atomic<Device*> current{nullptr};
/// Between a fork's handlers, in the thread that forks.
thread_local Device* held_for_fork = nullptr;

struct Drop {
  std::uint64_t hca::HcaCounters::*counter;
  fabric::PortCounter reported_as;
};
constexpr std::array kDrops = {
    Drop{&hca::HcaCounters::send_drop_port, fabric::PortCounter::drop_port_not_active},
    Drop{&hca::HcaCounters::send_drop_pkey, fabric::PortCounter::drop_pkey},
    Drop{&hca::HcaCounters::drop_malformed, fabric::PortCounter::drop_malformed},
    Drop{&hca::HcaCounters::drop_length, fabric::PortCounter::drop_malformed},
    Drop{&hca::HcaCounters::drop_port, fabric::PortCounter::drop_port_not_active},
    Drop{&hca::HcaCounters::drop_lid, fabric::PortCounter::drop_unknown_lid},
    Drop{&hca::HcaCounters::drop_gid, fabric::PortCounter::drop_malformed},
    Drop{&hca::HcaCounters::drop_unknown_qp, fabric::PortCounter::drop_unknown_qp},
    Drop{&hca::HcaCounters::drop_qp_state, fabric::PortCounter::drop_unknown_qp},
    Drop{&hca::HcaCounters::drop_pkey, fabric::PortCounter::drop_pkey},
    Drop{&hca::HcaCounters::drop_qkey, fabric::PortCounter::drop_qkey},
    Drop{&hca::HcaCounters::drop_no_receive, fabric::PortCounter::drop_no_receive},
    Drop{&hca::HcaCounters::drop_not_attached, fabric::PortCounter::drop_not_attached},
};

/// As much as a packet can have.
ConstBytes front_of(ConstBytes octets) {
  return octets.first(std::min(octets.size(), kMaxPacketBytes));
}

void describe(ListedDevice& device) {
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  std::snprintf(device.name, sizeof device.name, "%s", fabric::kDeviceName);
  std::snprintf(device.dev_name, sizeof device.dev_name, "uverbs0");
  std::snprintf(device.dev_path, sizeof device.dev_path, "/sys/class/infiniband_verbs/uverbs0");
  std::snprintf(device.ibdev_path, sizeof device.ibdev_path, "/sys/class/infiniband/%s",
                fabric::kDeviceName);
}

}  // namespace

void Device::hold_for_fork() {
  held_for_fork = current.load();
  if (held_for_fork != nullptr) held_for_fork->mutex_.lock();
}

void Device::let_go_after_fork() {
  if (auto* const held = std::exchange(held_for_fork, nullptr)) held->mutex_.unlock();
}

/// At load, so before the handlers of process_endpoint(): a fork takes that lock first (handlers of
/// "prepare" run backwards), as does who retires an endpoint under it.
[[maybe_unused]] const int Device::fork_handlers_ =
    ::pthread_atfork(hold_for_fork, let_go_after_fork, let_go_after_fork);

ipoib::Result<Device*> Device::of_process() {
  const auto endpoint = endpoint::process_endpoint();
  if (!endpoint) return endpoint.error();
  auto* seen = current.load();
  if (seen != nullptr && &seen->endpoint_ == *endpoint) return seen;
  auto made = std::make_unique<Device>(**endpoint);
  if (!current.compare_exchange_strong(seen, made.get())) return seen;
  // The device of a parent, if there was one, is left behind: programs may point to it.
  (*endpoint)->set_receiver(made.get());
  return made.release();
}

Device::Device(endpoint::Endpoint& endpoint)
    : endpoint_(endpoint),
      hca_(endpoint.epoch(), endpoint.place(), endpoint.port()),
      attendance_(endpoint) {
  describe(listed_);
  listed_.device = this;
}

Device::~Device() = default;

void Device::transmit(hca::QueuePair& qp, std::span<const OutgoingPacket> batch) {
  while (!batch.empty()) {
    endpoint_.send(batch);
    batch = hca()->next_packets(qp);
  }
}

bool Device::take_arrivals(Completions& cq) {
  if (cq.attendant != transport::Attendant::kNobody) hca().attendance().on_polled(cq);
  return endpoint_.take_arrivals();
}

void Device::answer(const Channel& channel) {
  (void)endpoint_.take_arrivals();
  hca().attendance().on_rung(channel);
  (void)endpoint_.take_arrivals();
}

ipoib::Result<void> Device::destroy(Completions& cq) {
  const auto access = hca();
  auto gone = access->destroy(*cq.model);
  if (gone) attendance_.remove(cq);
  return gone;
}

ipoib::Result<void> Device::destroy(hca::QueuePair& qp) {
  const auto access = hca();
  const Qpn number = qp.number();
  auto gone = access->destroy(qp);
  if (gone) attendance_.remove(number);
  return gone;
}

void Device::forget(const Channel& channel) {
  if (channel.bell != transport::Attendant::kEngine) endpoint_.remove_bell(channel.bell);
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
    const auto access = hca();
    for (std::size_t packets = 0; packets < kPacketsAtOnce && !batch.empty();) {
      const auto& packet = batch.front();
      batch = batch.subspan(1);
      // It is in another processor's cache, and can come while the one before it is copied.
      if (!batch.empty()) prefetch(front_of(batch.front().octets));
      access->receive(packet);
      packets += packet.gso.packets;
    }
    report_drops();
  }
}

void Device::port_changed(const PortAttributes& now) {
  const auto access = hca();
  access->set_port(now);
  report_drops();
}

void Device::attendants_in_doubt() { hca().attendance().on_doubt(); }

void Device::pass_on_events() {
  for (const auto& event : hca_.events()) {
    if (const auto* const completion = std::get_if<hca::CompletionEvent>(&event)) {
      auto& cq = *static_cast<Completions*>(completion->cq->owner);
      if (cq.channel != nullptr) of(cq.channel).events.push(&cq);
    } else {
      pass_on(std::get<hca::AsyncEvent>(event));
    }
  }
  hca_.clear_events();
}

void Device::pass_on(const hca::AsyncEvent& event) {
  ibv_async_event told{};
  told.event_type = event.type;
  if (event.cq != nullptr) {
    auto& cq = *static_cast<Completions*>(event.cq->owner);
    told.element.cq = as_cq(cq);
    of(cq.context).async_events.push(told);
  } else if (event.qp != nullptr) {
    auto& qp = *static_cast<Pair*>(event.qp->owner);
    told.element.qp = &qp.qp_base;
    of(qp.qp_base.context).async_events.push(told);
  } else {
    told.element.port_num = hca_.port().number;
    for (auto* const context : contexts_) context->async_events.push(told);
  }
}

void Device::report_drops() {
  const auto& now = hca_.counters();
  for (const auto& drop : kDrops) {
    const auto by = now.*drop.counter - reported_.*drop.counter;
    if (by != 0) endpoint_.count(drop.reported_as, by);
  }
  reported_ = now;
}

}  // namespace softib::verbs
