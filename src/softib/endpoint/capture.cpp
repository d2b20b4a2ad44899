// A datagram that a process sends to itself is captured once, as sent: received packets whose
// source queue pair belongs to this process are left out. Packets of a connection do not
// name theirs, so such a packet is captured twice.
#include "softib/endpoint/capture.hpp"

#include <algorithm>

#include "softib/core/large_packet.hpp"

namespace softib::endpoint {

using std::chrono::system_clock;

void Capture::add(std::span<const OutgoingPacket> batch, CaptureFile::WallTime when) {
  for (const auto& packet : batch) {
    for_each_packet(packet, [&](ConstBytes bytes) { file_.add(bytes, Direction::sent, when); });
  }
  file_.flush();
}

void Capture::sent(std::span<const OutgoingPacket> batch) {
  const std::lock_guard lock(mutex_);
  add(batch, system_clock::now());
}

/// Captures what has been sent, so a packet that was offered in vain is captured once.
TrySent Capture::try_send(std::span<const OutgoingPacket> batch,
                          const std::function<TrySent()>& send) {
  const std::lock_guard lock(mutex_);
  const auto now = system_clock::now();
  const auto sent = send();
  add(batch.first(sent.done), now);
  return sent;
}

void Capture::add_mad(ConstBytes packet, Direction direction) {
  const std::lock_guard lock(mutex_);
  file_.add(packet, direction, system_clock::now());
  file_.flush();
}

bool is_sent_by(const RemoteProcess& process, const ArrivedPacket& arrived, const HcaPorts& own) {
  const auto packet = ipoib::wire::UdPacket::parse_headers(arrived.bytes);
  const auto is_own = [&](const PortAttributes& port) { return port.lid == packet->lrh.slid; };
  if (!packet || std::ranges::none_of(own.all(), is_own)) return false;
  return QpnLayout::epoch(packet->deth.source) == process.epoch &&
         QpnLayout::slot(packet->deth.source) == process.slot;
}

void Capture::received(std::span<const ArrivedPacket> batch, const HcaPorts& own) {
  const std::lock_guard lock(mutex_);
  const auto now = system_clock::now();
  for (const auto& packet : batch) {
    if (is_sent_by(self_, packet, own)) continue;
    for_each_packet(packet, [&](ConstBytes bytes) { file_.add(bytes, Direction::received, now); });
  }
  file_.flush();
}

}  // namespace softib::endpoint
