#include "link/arp_output.hpp"

#include <utility>

#include "link/group.hpp"
#include "link/host_addresses.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv4.hpp"

namespace ipoib::link {
wire::Arp ArpOutput::request_for(Ipv4Address target) const {
  return wire::Arp{.operation = wire::ArpOperation::request,
                   .sender_hardware = deps_.own,
                   .sender_protocol = deps_.host.source_for(target),
                   .target_hardware = {},
                   .target_protocol = target};
}

/// The source of `prompt`, if requests may be sent from it. An address of a station always may. For
/// the host's own ones arp_announce decides as in Linux (ip-sysctl): 0 permits any of them, 1 those
/// in a subnet of the interface that also has the target, and 2 none.
std::optional<Ipv4Address> ArpOutput::source_of(ConstBytes prompt, Ipv4Address target,
                                                TimePoint now) const {
  deps_.reports.use_arp_policy(now);
  const std::uint8_t announce = deps_.host.arp().announce;
  if (wire::parse_encapsulation(prompt) != wire::EtherType::ipv4) return {};
  const auto header = wire::Ipv4Header::parse(prompt.subspan(wire::kEncapsulationSize));
  if (!header) return {};
  if (deps_.host.is_served(header->source)) return header->source;
  if (announce >= 2 || !deps_.host.is_local(header->source)) return {};
  if (announce == 1 && !deps_.host.is_one_subnet(header->source, target)) return {};
  return header->source;
}

void ArpOutput::broadcast_request(Ipv4Address target, ConstBytes prompt, TimePoint now) {
  deps_.out.counters.add(Counter::arp_requests_broadcast);
  wire::Arp request = request_for(target);
  request.sender_protocol = source_of(prompt, target, now).value_or(request.sender_protocol);
  broadcast(make(request));
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
