#include "softib/endpoint/live_endpoint.hpp"

#include <optional>
#include <utility>

#include "softib/hca/large_packet.hpp"

namespace softib::endpoint {

namespace {

PortAttributes gone(PortAttributes port) {
  port.state = PortState::down;
  port.lid = Lid();
  return port;
}

}  // namespace

LiveEndpoint::LiveEndpoint(fabric::SubnetFolder folder, fabric::Fabric fabric, NodeIndex node,
                           const subnet::Node& record, transport::Place place)
    : folder_(std::move(folder)),
      fabric_(std::move(fabric)),
      node_(node),
      name_(record.name),
      hca_generation_(record.port.generation),
      place_(std::move(place)),
      wire_(folder_, fabric_),
      router_(folder_, fabric_, wire_, node_),
      last_port_(record.port),
      engine_(place_.listener(), *this) {
  place_.occupy(fabric_);
  // Before that, nobody would have told it of a change.
  engine_.wake();
}

LiveEndpoint::~LiveEndpoint() {
  // The engine is done with the listener before that is closed, and nobody is led to a process
  // whose engine has left.
  engine_.stop();
  if (!is_of_parent() && !retired_) place_.leave(folder_, fabric_);
}

void LiveEndpoint::retire() {
  if (is_of_parent() || std::exchange(retired_, true)) return;
  engine_.stop();
  turned();      // what the engine may not have told any more
  lost_ = true;  // whatever becomes of the node without us
  wire_.disconnect();
  place_.leave(folder_, fabric_);
}

PortAttributes LiveEndpoint::port() const {
  const auto record = fabric_.node(node_);
  if (record && !lost_)
    return record->port.serves(hca_generation_) ? record->port : gone(record->port);
  const std::lock_guard lock(port_mutex_);
  return lost_ || fabric_.port_state(node_) == PortState::down ? gone(last_port_) : last_port_;
}

transport::Patience LiveEndpoint::patience() const {
  return engine_.is_current_thread() ? transport::Patience::never_wait : transport::Patience::wait;
}

void LiveEndpoint::send(std::span<const OutgoingPacket> batch) {
  if (!is_dead()) router_.send(batch, patience());
}

void LiveEndpoint::send_mad(ConstBytes packet) {
  if (!is_dead()) router_.send_mad(packet, patience());
}

void LiveEndpoint::send_mad_to(NodeIndex node, ConstBytes packet) {
  if (!is_dead()) router_.send_mad_to(node, packet, patience());
}

void LiveEndpoint::set_mad_deadline(ipoib::TimePoint when) {
  if (!is_dead()) engine_.set_deadline(when);
}

bool LiveEndpoint::nudge(NodeIndex node) { return is_dead() || router_.nudge(node); }

template <class Change>
void LiveEndpoint::between_deliveries(Change change) {
  if (is_of_parent()) return;
  if (engine_.is_current_thread()) return change();
  const std::lock_guard lock(delivery_);
  change();
}

/// What the port did while nobody was there to be told, or somebody else, the new one learns in the
/// engine's next turn.
void LiveEndpoint::set_receiver(PacketReceiver* receiver) {
  between_deliveries([&] {
    receiver_ = receiver;
    is_told_ = false;
  });
  if (receiver != nullptr && !is_of_parent()) engine_.wake();
}

void LiveEndpoint::set_mad_receiver(MadReceiver* receiver) {
  between_deliveries([&] {
    mad_receiver_ = receiver;
    is_mad_told_ = false;
  });
  if (receiver != nullptr && !is_of_parent()) engine_.wake();
}

void LiveEndpoint::count(fabric::PortCounter counter, std::uint64_t by) {
  if (by != 0) fabric_.count(node_, counter, by);
}

fabric::PortCounterValues LiveEndpoint::counters() const { return fabric_.counters(node_); }

/// What arrives passes the port, if that is active; management packets pass in any case, their
/// sender has asked (Router::send_mad).
void LiveEndpoint::arrived(std::span<const ArrivedPacket> packets) {
  const auto number = count_packets(packets);
  if (lost_ || fabric_.port_state(node_) != PortState::active) {
    return count(fabric::PortCounter::drop_port_not_active, number);
  }
  std::uint64_t octets = 0;
  for (const auto& packet : packets) octets += hca::octets_of(packet);
  count_received(number, octets);
  const std::lock_guard lock(delivery_);
  if (receiver_ != nullptr) {
    receiver_->receive(packets);
  } else {
    count(fabric::PortCounter::drop_no_receiver, number);
  }
}

void LiveEndpoint::mad_arrived(ConstBytes packet) {
  if (lost_) return count(fabric::PortCounter::drop_port_not_active, 1);
  count_received(1, packet.size());
  const std::lock_guard lock(delivery_);
  if (mad_receiver_ != nullptr) {
    mad_receiver_->receive_mad(packet);
  } else {
    count(fabric::PortCounter::drop_mad_no_agent, 1);
  }
}

void LiveEndpoint::count_received(std::size_t packets, std::uint64_t octets) {
  count(fabric::PortCounter::received_packets, packets);
  count(fabric::PortCounter::received_octets, octets);
}

void LiveEndpoint::attend(std::size_t entry, std::uint32_t attendant) {
  if (!is_of_parent()) engine_.attend(entry, attendant);
}

std::uint32_t LiveEndpoint::add_bell(int event) {
  return is_of_parent() ? transport::Attendant::kEngine : engine_.add_bell(event);
}

void LiveEndpoint::remove_bell(std::uint32_t bell) {
  if (!is_of_parent()) engine_.remove_bell(bell);
}

void LiveEndpoint::malformed() { count(fabric::PortCounter::drop_malformed, 1); }

void LiveEndpoint::sender_gone() {
  const std::lock_guard lock(delivery_);
  if (receiver_ != nullptr) receiver_->attendants_in_doubt();
}

void LiveEndpoint::accept_paused() { count(fabric::PortCounter::accept_paused, 1); }

/// Engine: a change is a difference between two readings of the port's record.
void LiveEndpoint::turned() {
  const std::uint32_t version = fabric_.node_version(node_);
  const bool is_other = version != last_version_;
  const std::lock_guard lock(delivery_);
  if (is_other) {
    last_version_ = version;
    const PortAttributes now = port();
    const std::lock_guard port_lock(port_mutex_);
    if (std::exchange(last_port_, now) != now) is_told_ = false;
    if (!now.serves(hca_generation_)) lost_ = true;
  }
  if (receiver_ != nullptr && !std::exchange(is_told_, true)) receiver_->port_changed(last_port_);
  if (lost_ && mad_receiver_ != nullptr && !std::exchange(is_mad_told_, true)) {
    mad_receiver_->device_lost();
  }
}

void LiveEndpoint::deadline(ipoib::TimePoint now) {
  const std::lock_guard lock(delivery_);
  if (mad_receiver_ != nullptr) mad_receiver_->mad_deadline(now);
}

}  // namespace softib::endpoint
