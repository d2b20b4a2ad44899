// The rare half of Pump: messages of the control thread, and instructions of the link.
#include <algorithm>
#include <utility>

#include "daemon/pump.hpp"
#include "ipoib/log.hpp"

namespace ipoib::daemon {

void Pump::take_messages() {
  parts_.inbox.drain(messages_);
  for (auto& message : messages_) {
    parts_.trace.record("message", now_, message.index());
    std::visit([this](auto& content) { on(content); }, message);
    drain();
  }
  messages_.clear();
}

void Pump::on(PortChanged& message) {
  status_.port = message.status;
  link_.on_port(message.status, now_);
  const bool waits = link_.state() != link::LinkState::up;
  const auto awaited = waits ? link_.waiting_for() : std::string();
  if (std::exchange(awaited_, awaited) == awaited || !waits) return;
  parts_.log.info("waits for {}", awaited);
}

void Pump::on(ClientReregister&) { link_.on_client_reregister(now_); }

void Pump::on(SubnetNotice& message) { link_.on_notice(message.notice, now_); }

void Pump::on(HostChanged& message) { link_.on_host_changed(message.view, now_); }

void Pump::on(wire::SaResponse& message) { link_.on_response(message, now_); }

void Pump::on(AdminRequest& message) {
  const InterfaceState state{settings_.identity,           status_,
                             parts_.queue_pair.counters(), coalescer_.counters(),
                             policy_.counters(),           parts_.tun.malformed(),
                             settings_.link.pkey};
  AdminResponse response{answer(message.request, link_, state, now_), std::move(message.done)};
  if (!parts_.outbox.post(std::move(response))) ++status_.messages_lost;
}

void Pump::on(Stop&) { stopping_ = true; }

void Pump::apply(const wire::SaRequest& event) {
  if (parts_.outbox.post(event)) return;
  ++status_.messages_lost;
  link_.on_response({event.id, wire::SaFailure(wire::SaFailure::Kind::overloaded)}, now_);
}

void Pump::apply(const link::ConfigureQueuePair& event) {
  armed_ = false;
  if (auto done = parts_.queue_pair.configure({event.pkey_index, event.qkey}); !done) {
    parts_.log.error("{}", done.error().message);
    setup_failed_ = true;
  }
}

void Pump::apply(const link::AttachGroup& event) {
  if (auto done = parts_.queue_pair.attach(event.mgid, event.mlid); !done) {
    parts_.log.error("{}", done.error().message);
    not_attached_.push_back(event.mgid);
  }
}

void Pump::apply(const link::DetachGroup& event) {
  if (auto done = parts_.queue_pair.detach(event.mgid, event.mlid); !done) {
    parts_.log.warn("{}", done.error().message);
  }
}

void Pump::apply(const link::SetMtu& event) {
  const auto octets = std::min(event.octets, settings_.max_ip_mtu);
  if (auto done = parts_.tun.set_mtu(octets); !done) parts_.log.error("{}", done.error().message);
}

void Pump::apply(const link::SetCarrier& event) {
  if (auto done = parts_.tun.set_carrier(event.on); !done) {
    parts_.log.error("{}", done.error().message);
  }
}

void Pump::apply(const link::HostGroupsChanged& event) {
  if (!parts_.outbox.post(event)) ++status_.messages_lost;
}

}  // namespace ipoib::daemon
