// Completion channels and completion queues.
#include <sched.h>

#include <algorithm>
#include <span>

#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

namespace softib::verbs {
namespace {

constexpr std::uint64_t kTimes =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

ipoib::Result<Cq*> create(ibv_context* ibv, const ibv_cq_init_attr_ex& attr) {
  auto& context = of(ibv);
  if (attr.comp_vector >= static_cast<std::uint32_t>(ibv->num_comp_vectors)) {
    return ipoib::Error{EINVAL, "no such completion vector"};
  }
  auto cq = std::make_unique<Cq>();
  cq->context = ibv;
  cq->channel = attr.channel;
  cq->cq_context = attr.cq_context;
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  fill_in_cq_ex(*cq);
  {
    const auto hca = context.device.hca();
    const auto model = hca->create_completion_queue(attr.cqe, (attr.wc_flags & kTimes) != 0);
    if (!model) return model.error();
    cq->model = *model;
    cq->handle = (*model)->handle;
    cq->model->owner = cq.get();
    cq->cqe = static_cast<int>((*model)->capacity());
    hca.wakeups().add(cq->wakeups, **model);
  }
  const std::lock_guard lock(context.mutex);
  context.cqs.insert(cq.get());
  if (attr.channel != nullptr) ++attr.channel->refcnt;
  return cq.release();
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  return verb([&]() -> ipoib::Result<ibv_cq_ex*> {
    const auto flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
    // A parent domain is only a hint where to take memory from.
    constexpr std::uint32_t kKnown = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    if ((attr->comp_mask & ~kKnown) != 0 ||
        (attr->wc_flags & ~(std::uint64_t{IBV_WC_STANDARD_FLAGS} | kTimes)) != 0 ||
        (flags & ~std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0) {
      return unsupported("such a completion queue");
    }
    const auto cq = create(context, *attr);
    if (!cq) return cq.error();
    return *cq;
  });
}

/// To call after an empty poll. The engine is a thread that may need the processor on which the
/// program polls, so the program yields from time to time. Meanwhile there may be room for packets
/// that are postponed.
void after_empty_poll(Device& device) {
  constexpr unsigned kPollsBetweenYields = 32;
  thread_local unsigned empty_polls = 0;
  if (++empty_polls % kPollsBetweenYields != 0) return;
  ::sched_yield();
  device.resume();
}

int poll_cq(ibv_cq* ibv, int room, ibv_wc* out) {
  if (room < 0) return -1;
  return poll(of(ibv), std::span(out, static_cast<std::size_t>(room)), {});
}

int req_notify_cq(ibv_cq* ibv, int solicited_only) {
  of(ibv->context).device.arm(of(ibv), solicited_only != 0);
  return 0;
}

/// Waits until all events are acknowledged, as ibv_get_cq_event(3) and ibv_get_async_event(3)
/// demand. Until then, the threads that have taken them may use the queue.
void wait_for_acknowledgements(Cq& cq) {
  pthread_mutex_lock(&cq.mutex);
  while (cq.comp_events_completed != cq.completion_events_taken ||
         cq.async_events_completed != cq.async_events_taken) {
    pthread_cond_wait(&cq.cond, &cq.mutex);
  }
  pthread_mutex_unlock(&cq.mutex);
}

}  // namespace

int poll(Cq& cq, std::span<ibv_wc> out, std::span<ipoib::TimePoint> times) {
  auto& device = of(cq.context).device;
  // This is checked without the lock, which other threads need.
  if (cq.model->idle() && !device.poll_receive_rings(cq)) {
    after_empty_poll(device);
    return 0;
  }
  return device.poll(cq, out, times);
}

ipoib::Result<void> destroy(Cq& cq) {
  auto& context = of(cq.context);
  if (auto may = context.device.hca()->may_destroy(*cq.model); !may) return may;
  context.async_events.withdraw([&](const ibv_async_event& event) { return is_of(event, cq); });
  if (cq.channel != nullptr) {
    of(cq.channel).events.withdraw([&](const Cq* each) { return each == &cq; });
  }
  wait_for_acknowledgements(cq);
  if (auto destroyed = context.device.destroy(cq); !destroyed) return destroyed;
  {
    const std::lock_guard lock(context.mutex);
    context.cqs.erase(&cq);
    if (cq.channel != nullptr) --cq.channel->refcnt;
  }
  pthread_cond_destroy(&cq.cond);
  pthread_mutex_destroy(&cq.mutex);
  delete &cq;
  return {};
}

void fill_in_completion_verbs(Context& context) {
  context.create_cq_ex = create_cq_ex;
  context.context.ops.poll_cq = poll_cq;
  context.context.ops.req_notify_cq = req_notify_cq;
}

SOFTIB_ABI ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return verb([&]() -> ipoib::Result<ibv_comp_channel*> {
    auto socket = of(context).device.make_wakeup_socket();
    if (!socket) return socket.error();
    auto channel = std::make_unique<CompChannel>(std::move(*socket));
    channel->context = context;
    channel->fd = channel->events.fd();
    channel->refcnt = 0;
    track(of(context), of(context).channels, channel.get());
    return channel.release();
  });
}

SOFTIB_ABI int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return verb([&]() -> ipoib::Result<void> {
    auto& context = of(channel->context);
    {
      const std::lock_guard lock(context.mutex);
      if (channel->refcnt != 0)
        return ipoib::Error{EBUSY, "completion queues use the channel: destroy them before"};
      context.channels.erase(&of(channel));
    }
    context.device.remove_wakeup_fd(of(channel));
    delete &of(channel);
    return {};
  });
}

SOFTIB_ABI ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context,
                                 ibv_comp_channel* channel, int vector) {
  return verb([&]() -> ipoib::Result<ibv_cq*> {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = static_cast<std::uint32_t>(std::max(cqe, 0));
    attr.cq_context = cq_context;
    attr.channel = channel;
    attr.comp_vector = static_cast<std::uint32_t>(vector);
    const auto cq = create(context, attr);
    if (!cq) return cq.error();
    return as_cq(**cq);
  });
}

SOFTIB_ABI int ibv_resize_cq(ibv_cq* cq, int cqe) {
  return verb([&]() -> ipoib::Result<void> {
    const auto capacity = static_cast<std::uint32_t>(std::max(cqe, 0));
    auto resized = of(cq->context).device.hca()->resize(*of(cq).model, capacity);
    cq->cqe = static_cast<int>(of(cq).model->capacity());
    return resized;
  });
}

SOFTIB_ABI int ibv_destroy_cq(ibv_cq* cq) {
  return verb([&] { return destroy(of(cq)); });
}

SOFTIB_ABI int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  const bool taken = of(channel).events.take(
      [&](Cq* oldest) {
        ++oldest->completion_events_taken;
        --oldest->queued_events;
        *cq = as_cq(*oldest);
        *cq_context = oldest->cq_context;
      },
      [&] { of(channel->context).device.receive_for(of(channel)); });
  return taken ? 0 : -1;
}

SOFTIB_ABI void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_broadcast(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

}  // namespace softib::verbs
