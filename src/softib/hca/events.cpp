#include "softib/hca/events.hpp"

#include "softib/hca/limits.hpp"
#include "wire/connected_packet.hpp"

namespace softib::hca {

ibv_event_type event_of(std::uint8_t nak) {
  using ipoib::wire::Aeth;
  if (nak == Aeth::kRemoteAccessError) return IBV_EVENT_QP_ACCESS_ERR;
  return nak == Aeth::kRemoteOperationError ? IBV_EVENT_QP_FATAL : IBV_EVENT_QP_REQ_ERR;
}

std::vector<ibv_event_type> port_events(const PortAttributes& before, const PortAttributes& now) {
  const bool was_active = before.state == PortState::active;
  const bool is_active = now.state == PortState::active;
  const bool was_lost = was_active && (!is_active || before.losses != now.losses);
  std::vector<ibv_event_type> events;
  if (!now.serves(before.generation)) return {IBV_EVENT_DEVICE_FATAL};
  if (was_lost) events.push_back(IBV_EVENT_PORT_ERR);
  if (before.lid != now.lid) events.push_back(IBV_EVENT_LID_CHANGE);
  if (before.gid() != now.gid() || before.gids != now.gids) events.push_back(IBV_EVENT_GID_CHANGE);
  if (before.pkeys != now.pkeys) events.push_back(IBV_EVENT_PKEY_CHANGE);
  if (before.sm_lid != now.sm_lid || before.sm_sl != now.sm_sl) {
    events.push_back(IBV_EVENT_SM_CHANGE);
  }
  // Clients learn of new attributes before the port is reported active.
  if (is_active && (!was_active || was_lost)) events.push_back(IBV_EVENT_PORT_ACTIVE);
  if (before.reregister_count != now.reregister_count) {
    events.push_back(IBV_EVENT_CLIENT_REREGISTER);
  }
  return events;
}

void EventList::raise(const HcaEvent& event) {
  if (events_.size() == kMaxPendingEvents) {
    ++counters_.lost_events;
    return;
  }
  events_.push_back(event);
}

void EventList::discard(const void* object) {
  std::erase_if(events_, [&](const HcaEvent& event) {
    if (const auto* const async = std::get_if<AsyncEvent>(&event)) {
      return async->cq == object || async->qp == object || async->shared == object;
    }
    return std::get<CompletionEvent>(event).cq == object;
  });
}

}  // namespace softib::hca
