// A datagram that a process sends to itself is captured once, as sent: received packets whose
// source queue pair belongs to this process are left out. Packets of a connection do not
// name theirs, so such a packet is captured twice.
#include "softib/endpoint/capture.hpp"
#include "softib/hca/large_packet.hpp"

namespace softib::endpoint {

using std::chrono::system_clock;

CapturingEndpoint::CapturingEndpoint(std::unique_ptr<Endpoint> inner, CaptureFile file)
    : inner_(std::move(inner)), file_(std::move(file)) {
  inner_->set_receiver(this);
  inner_->set_mad_receiver(this);
  inner_->set_cm_receiver(this);
}

CapturingEndpoint::~CapturingEndpoint() {
  inner_->set_receiver(nullptr);
  inner_->set_mad_receiver(nullptr);
  inner_->set_cm_receiver(nullptr);
}

void CapturingEndpoint::send(std::span<const OutgoingPacket> batch) {
  {
    const std::lock_guard lock(mutex_);
    const auto now = system_clock::now();
    for (const auto& packet : batch) {
      hca::for_each_packet(packet,
                           [&](ConstBytes bytes) { file_.add(bytes, Direction::sent, now); });
    }
    file_.flush();
  }
  inner_->send(batch);
}

/// Captures what has been sent, so a packet that was offered in vain is captured once.
std::size_t CapturingEndpoint::try_send(std::span<const OutgoingPacket> batch) {
  const std::lock_guard lock(mutex_);
  const auto now = system_clock::now();
  const auto sent = inner_->try_send(batch);
  for (const auto& packet : batch.first(sent)) {
    hca::for_each_packet(packet, [&](ConstBytes bytes) { file_.add(bytes, Direction::sent, now); });
  }
  file_.flush();
  return sent;
}

void CapturingEndpoint::send_mad(ConstBytes packet) {
  record_mad(packet, Direction::sent);
  inner_->send_mad(packet);
}

void CapturingEndpoint::send_mad_to(NodeIndex node, ConstBytes packet) {
  record_mad(packet, Direction::sent);
  inner_->send_mad_to(node, packet);
}

void CapturingEndpoint::record_mad(ConstBytes packet, Direction direction) {
  const std::lock_guard lock(mutex_);
  file_.add(packet, direction, system_clock::now());
  file_.flush();
}

/// Removing this object first ensures that the engine no longer uses the old receiver. Adding it
/// again makes the engine report the port to the new one.
void CapturingEndpoint::set_receiver(PacketReceiver* receiver) {
  inner_->set_receiver(nullptr);
  receiver_ = receiver;
  inner_->set_receiver(this);
}

void CapturingEndpoint::set_mad_receiver(MadReceiver* receiver) {
  inner_->set_mad_receiver(nullptr);
  mad_receiver_ = receiver;
  inner_->set_mad_receiver(this);
}

void CapturingEndpoint::set_cm_receiver(CmReceiver* receiver) {
  inner_->set_cm_receiver(nullptr);
  cm_receiver_ = receiver;
  inner_->set_cm_receiver(this);
}

bool CapturingEndpoint::is_own(const ArrivedPacket& arrived) const {
  const auto packet = ipoib::wire::UdPacket::parse_headers(arrived.bytes);
  if (!packet || packet->lrh.slid != inner_->port().lid) return false;
  return QpnLayout::epoch(packet->deth.source) == inner_->epoch() &&
         QpnLayout::slot(packet->deth.source) == inner_->slot();
}

void CapturingEndpoint::receive(std::span<const ArrivedPacket> batch) {
  {
    const std::lock_guard lock(mutex_);
    const auto now = system_clock::now();
    for (const auto& packet : batch) {
      if (is_own(packet)) continue;
      hca::for_each_packet(packet,
                           [&](ConstBytes bytes) { file_.add(bytes, Direction::received, now); });
    }
    file_.flush();
  }
  if (receiver_ != nullptr) {
    receiver_->receive(batch);
  } else {
    count(fabric::PortCounter::drop_no_receiver, count_packets(batch));
  }
}

void CapturingEndpoint::port_changed(const PortAttributes& now) {
  if (receiver_ != nullptr) receiver_->port_changed(now);
}

void CapturingEndpoint::deadline(ipoib::TimePoint now) {
  if (receiver_ != nullptr) receiver_->deadline(now);
}

/// Each received MAD comes here first.
bool CapturingEndpoint::take_mad(ConstBytes packet) {
  record_mad(packet, Direction::received);
  return cm_receiver_ != nullptr && cm_receiver_->take_mad(packet);
}

void CapturingEndpoint::cm_deadline(ipoib::TimePoint now) {
  if (cm_receiver_ != nullptr) cm_receiver_->cm_deadline(now);
}

void CapturingEndpoint::connection_ended(const RemoteProcess& process) {
  if (cm_receiver_ != nullptr) cm_receiver_->connection_ended(process);
}

void CapturingEndpoint::hung_up(int fd) {
  if (cm_receiver_ != nullptr) cm_receiver_->hung_up(fd);
}

void CapturingEndpoint::cm_lost() {
  if (cm_receiver_ != nullptr) cm_receiver_->cm_lost();
}

void CapturingEndpoint::receive_mad(ConstBytes packet) {
  if (mad_receiver_ != nullptr) {
    mad_receiver_->receive_mad(packet);
  } else {
    count(fabric::PortCounter::drop_mad_no_agent, 1);
  }
}

void CapturingEndpoint::mad_deadline(ipoib::TimePoint now) {
  if (mad_receiver_ != nullptr) mad_receiver_->mad_deadline(now);
}

void CapturingEndpoint::device_lost() {
  if (mad_receiver_ != nullptr) mad_receiver_->device_lost();
}

}  // namespace softib::endpoint
