#include "verbs/async_events.hpp"

#include <fcntl.h>

#include <cerrno>

#include "verbs/verbs_error.hpp"

namespace ipoib::verbs {

std::string_view name(AsyncEvent event) {
  switch (event) {
    case AsyncEvent::port_active:
      return "port active";
    case AsyncEvent::port_error:
      return "port down";
    case AsyncEvent::lid_change:
      return "LID change";
    case AsyncEvent::pkey_change:
      return "P_Key table change";
    case AsyncEvent::gid_change:
      return "GID table change";
    case AsyncEvent::sm_change:
      return "subnet manager change";
    case AsyncEvent::client_reregister:
      return "client reregister";
    case AsyncEvent::queue_pair_fatal:
      return "queue pair or completion queue error";
    case AsyncEvent::device_fatal:
      return "device failure";
    case AsyncEvent::other:
      return "other event";
  }
  return "";
}

AsyncEvent classify(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_PORT_ACTIVE:
      return AsyncEvent::port_active;
    case IBV_EVENT_PORT_ERR:
      return AsyncEvent::port_error;
    case IBV_EVENT_LID_CHANGE:
      return AsyncEvent::lid_change;
    case IBV_EVENT_PKEY_CHANGE:
      return AsyncEvent::pkey_change;
    case IBV_EVENT_GID_CHANGE:
      return AsyncEvent::gid_change;
    case IBV_EVENT_SM_CHANGE:
      return AsyncEvent::sm_change;
    case IBV_EVENT_CLIENT_REREGISTER:
      return AsyncEvent::client_reregister;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return AsyncEvent::queue_pair_fatal;
    case IBV_EVENT_DEVICE_FATAL:
      return AsyncEvent::device_fatal;
    default:
      return AsyncEvent::other;
  }
}

namespace {

bool names_a_port(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<AsyncEventReader> AsyncEventReader::open(const Device& device) {
  const int fd = device.context()->async_fd;
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return verbs_error("cannot read the events of " + device.name(), errno);
  }
  return AsyncEventReader(device.context(), device.port());
}

std::optional<AsyncEventReader::Event> AsyncEventReader::next() {
  ibv_async_event event{};
  for (int i = 0; i < kMaxEventsPerTurn && ibv_get_async_event(context_, &event) == 0; ++i) {
    const auto type = event.event_type;
    const bool ours = !names_a_port(type) || event.element.port_num == port_;
    const auto kind = classify(type);
    const void* object = nullptr;
    if (type == IBV_EVENT_CQ_ERR) {
      object = event.element.cq;
    } else if (kind == AsyncEvent::queue_pair_fatal) {
      object = event.element.qp;
    }
    ibv_ack_async_event(&event);
    if (ours) return Event{kind, object};
  }
  return std::nullopt;
}

}  // namespace ipoib::verbs
