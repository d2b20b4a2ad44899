// The device list, contexts, and their asynchronous events.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "softib/core/network_order.hpp"
#include "softib/verbs/abi.hpp"
#include "softib/verbs/objects.hpp"

namespace softib::verbs {
namespace {

ibv_context* open(ibv_device* listed) {
  return verb([&]() -> ipoib::Result<ibv_context*> {
    auto& device = of(listed);
    auto events = transport::WakeupSocket::make();
    if (!events) return events.error();
    auto context = std::make_unique<Context>(device, std::move(*events));
    device.add(*context);
    return &context.release()->context;
  });
}

/// The null-terminated array that ibv_get_device_list() returns.
ibv_device** make_list(const std::vector<ibv_device*>& devices) {
  auto** const list =
      static_cast<ibv_device**>(std::calloc(devices.size() + 1, sizeof(ibv_device*)));
  if (list == nullptr) throw std::bad_alloc();
  std::ranges::copy(devices, list);
  return list;
}

/// Prints why there is no device, unless that was the last reason printed.
void print_once(const std::string& why) {
  static std::atomic<std::size_t> printed = 0;
  const auto hash = std::hash<std::string>()(why);
  if (printed.exchange(hash) != hash) std::fprintf(stderr, "softib: %s\n", why.c_str());
}

/// The kind of object in ibv_async_event::element.
enum class Element : std::uint8_t { port, cq, qp, srq };

Element element_of(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return Element::cq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return Element::qp;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return Element::srq;
    default:
      return Element::port;
  }
}

/// Counts an event of an object; destroying this waits until as many are acknowledged.
void count_taken(const ibv_async_event& event) {
  switch (element_of(event.event_type)) {
    case Element::cq:
      ++of(event.element.cq).async_events_taken;
      break;
    case Element::qp:
      ++of(event.element.qp).async_events_taken;
      break;
    case Element::srq:
      ++of(event.element.srq).async_events_taken;
      break;
    case Element::port:
      break;
  }
}

template <class Counter>
void acknowledge(pthread_mutex_t& mutex, pthread_cond_t& condition, Counter& completed) {
  pthread_mutex_lock(&mutex);
  ++completed;
  pthread_cond_broadcast(&condition);
  pthread_mutex_unlock(&mutex);
}

}  // namespace

bool is_of(const ibv_async_event& event, const Cq& cq) {
  return element_of(event.event_type) == Element::cq && &of(event.element.cq) == &cq;
}

bool is_of(const ibv_async_event& event, const Qp& qp) {
  return element_of(event.event_type) == Element::qp && &of(event.element.qp) == &qp;
}

bool is_of(const ibv_async_event& event, const Srq& srq) {
  return element_of(event.event_type) == Element::srq && &of(event.element.srq) == &srq;
}

Context::Context(Device& on, transport::WakeupSocket events)
    : verbs_context{}, device(on), async_events(std::move(events)) {
  sz = sizeof(verbs_context);
  context.device = &on.listed();
  context.async_fd = async_events.fd();
  // Nothing is written to it, but programs duplicate it to share objects with other processes,
  // which ibv_import_device() then refuses.
  context.cmd_fd = context.async_fd;
  context.num_comp_vectors = 1;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&context.mutex, nullptr);
  fill_in_device_verbs(*this);
  fill_in_memory_verbs(*this);
  fill_in_memory_window_verbs(*this);
  fill_in_device_memory_verbs(*this);
  fill_in_parent_domain_verbs(*this);
  fill_in_completion_verbs(*this);
  fill_in_queue_pair_verbs(*this);
  fill_in_shared_receive_verbs(*this);
  fill_in_xrc_verbs(*this);
}

/// Destroys the objects that the program has left, users before the objects that they use, as the
/// kernel does.
Context::~Context() {
  device.remove(*this);
  device.destroy_all(qps);
  for (auto* const qp : qps) delete qp;
  for (auto* const srq : srqs) {
    (void)device.hca()->shared_receives().destroy(*srq->model);
    delete srq;
  }
  for (auto* const xrcd : xrcds) {
    (void)device.hca()->shared_receives().close(*xrcd->model);
    delete xrcd;
  }
  for (auto* const cq : cqs) {
    (void)device.destroy(*cq);
    delete cq;
  }
  for (auto* const ah : ahs) (void)device.hca()->destroy(*ah);
  for (auto* const window : mws) {
    (void)device.hca()->memory().remove_window(window->handle);
    delete window;
  }
  for (auto* const region : mrs) {
    (void)device.hca()->memory().remove(region->lkey);
    delete region;
  }
  for (auto* const memory : dms) delete memory;
  for (auto* const domain : pds) {
    if (!domain->is_parent_domain) (void)device.hca()->destroy(*domain->model);
  }
  for (auto* const domain : pds) delete domain;
  for (auto* const domain : tds) delete domain;
  for (auto* const channel : channels) {
    device.remove_wakeup_fd(*channel);
    delete channel;
  }
  pthread_mutex_destroy(&context.mutex);
}

SOFTIB_ABI ibv_device** ibv_get_device_list(int* count) {
  if (count != nullptr) *count = 0;
  return verb([&]() -> ipoib::Result<ibv_device**> {
    std::vector<ibv_device*> devices;
    std::optional<ipoib::Error> missing;
    for (std::size_t hca = 0; hca < endpoint::process_hcas(); ++hca) {
      const auto device = Device::of_process(hca);
      if (device) {
        devices.push_back(&(*device)->listed());
      } else {
        missing = device.error();
        print_once(missing->message);
      }
    }
    if (devices.empty()) return *missing;
    if (count != nullptr) *count = static_cast<int>(devices.size());
    return make_list(devices);
  });
}

SOFTIB_ABI void ibv_free_device_list(ibv_device** list) { std::free(static_cast<void*>(list)); }

SOFTIB_ABI const char* ibv_get_device_name(ibv_device* device) { return device->name; }

SOFTIB_ABI int ibv_get_device_index(ibv_device* device) {
  return static_cast<ListedDevice*>(device)->index;
}

SOFTIB_ABI __be64 ibv_get_device_guid(ibv_device* device) {
  return to_network(std::uint64_t{of(device).hca()->ports()[1].node_guid.value()});
}

SOFTIB_ABI ibv_context* ibv_open_device(ibv_device* device) { return open(device); }

SOFTIB_ABI int ibv_close_device(ibv_context* context) {
  return verb([&]() -> ipoib::Result<void> {
    delete &of(context);
    return {};
  });
}

SOFTIB_ABI int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  const bool taken = of(context).async_events.take([&](const ibv_async_event& oldest) {
    count_taken(oldest);
    *event = oldest;
  });
  return taken ? 0 : -1;
}

SOFTIB_ABI void ibv_ack_async_event(ibv_async_event* event) {
  switch (element_of(event->event_type)) {
    case Element::cq: {
      auto& cq = *event->element.cq;
      acknowledge(cq.mutex, cq.cond, cq.async_events_completed);
      break;
    }
    case Element::qp: {
      auto& qp = *event->element.qp;
      acknowledge(qp.mutex, qp.cond, qp.events_completed);
      break;
    }
    case Element::srq: {
      auto& srq = *event->element.srq;
      acknowledge(srq.mutex, srq.cond, srq.events_completed);
      break;
    }
    case Element::port:
      break;
  }
}

}  // namespace softib::verbs
