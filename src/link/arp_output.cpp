#include "link/arp_output.hpp"

#include <utility>

#include "link/group.hpp"
#include "link/host_addresses.hpp"
#include "wire/encapsulation.hpp"

namespace ipoib::link {
wire::Arp ArpOutput::request_for(Ipv4Address target) const {
  return wire::Arp{.operation = wire::ArpOperation::request,
                   .sender_hardware = deps_.own,
                   .sender_protocol = deps_.host.source_for(target),
                   .target_hardware = {},
                   .target_protocol = target};
}

void ArpOutput::broadcast_request(Ipv4Address target) {
  deps_.out.counters.add(Counter::arp_requests_broadcast);
  broadcast(make(request_for(target)));
}

void ArpOutput::unicast_request(Ipv4Address target, const HwAddress& hardware,
                                const PathData& path) {
  wire::Arp request = request_for(target);
  request.target_hardware = hardware;
  if (Frame frame = make(request)) {
    deps_.out.counters.add(Counter::arp_requests_unicast);
    deps_.out.sends.push_back(Outgoing{path.handle, hardware.qpn, std::move(frame)});
  }
}

void ArpOutput::announce(Ipv4Address address) {
  deps_.out.counters.add(Counter::announcements_sent);
  wire::Arp announcement = request_for(address);
  announcement.sender_protocol = address;
  broadcast(make(announcement));
}

Frame ArpOutput::make_reply(const wire::Arp& request) {
  return make(wire::Arp{.operation = wire::ArpOperation::reply,
                        .sender_hardware = deps_.own,
                        .sender_protocol = request.target_protocol,
                        .target_hardware = request.sender_hardware,
                        .target_protocol = request.sender_protocol});
}

void ArpOutput::broadcast_reply(const wire::Arp& request) { broadcast(make_reply(request)); }

Frame ArpOutput::make(const wire::Arp& message) {
  Frame frame = deps_.frames.take();
  if (!frame) {
    deps_.out.counters.add(Counter::drop_no_frame);
    return frame;
  }
  frame.window(0, wire::kEncapsulationSize + wire::Arp::kSize);
  wire::emit_encapsulation(wire::EtherType::arp, frame.bytes().data());
  wire::Arp sent = message;
  // RFC 4391, 9.1.1: the first byte "MUST be set to zero on send".
  sent.sender_hardware.flags = 0;
  sent.target_hardware.flags = 0;
  sent.emit(frame.bytes().subspan(wire::kEncapsulationSize));
  return frame;
}

void ArpOutput::broadcast(Frame&& frame) {
  if (frame) deps_.broadcast.send(std::move(frame), deps_.out);
}

}  // namespace ipoib::link
