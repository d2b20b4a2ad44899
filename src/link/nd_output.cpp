#include "link/nd_output.hpp"

#include <algorithm>
#include <utility>

#include "link/config.hpp"
#include "link/host_addresses.hpp"
#include "link/multicast_output.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv6.hpp"

namespace ipoib::link {

/// The source of a solicitation. The prompting packet's source "SHOULD be placed in the IP Source
/// Address" if it is an address of the interface; else any of these may be used (RFC 4861, 7.2.2).
Ipv6Address NdOutput::source_for(const Ipv6Address& target, ConstBytes prompt) const {
  if (prompt.size() > wire::kEncapsulationSize) {
    const auto header = wire::Ipv6Header::parse(prompt.subspan(wire::kEncapsulationSize));
    if (header && deps_.host.speaks_for(header->source)) return header->source;
  }
  return source_for(target);
}

Ipv6Address NdOutput::source_for(const Ipv6Address& target) const {
  const Ipv6Address found = deps_.host.source_for(target);
  if (!found.is_unspecified() || !deps_.config.serves_stations) return found;
  return wire::link_local_address(deps_.own.gid.guid());
}

wire::NdMessage NdOutput::solicitation_for(const Ipv6Address& target,
                                           const Ipv6Address& source) const {
  wire::NdMessage message;
  message.type = wire::NdType::neighbour_solicitation;
  message.source = source;
  message.destination = target;
  message.target = target;
  message.source_link_layer = deps_.own;
  return message;
}

void NdOutput::multicast_solicitation(const Ipv6Address& target, ConstBytes prompt, TimePoint now) {
  wire::NdMessage message = solicitation_for(target, source_for(target, prompt));
  message.destination = target.solicited_node();
  multicast(message, now);
}

void NdOutput::search(const Ipv6Address& target, TimePoint now) {
  wire::NdMessage message = solicitation_for(target, source_for(target));
  message.destination = kAllNodesOfIpv6;
  multicast(message, now);
}

void NdOutput::multicast(const wire::NdMessage& solicitation, TimePoint now) {
  if (solicitation.source.is_unspecified()) return;
  Frame frame = make(solicitation);
  if (!frame) return;
  deps_.out.counters.add(Counter::nd_solicitations_multicast);
  deps_.groups.send(solicitation.destination, std::move(frame), now);
}

void NdOutput::unicast_solicitation(const Ipv6Address& target, const HwAddress& hardware,
                                    const PathData& path) {
  const wire::NdMessage message = solicitation_for(target, source_for(target));
  if (message.source.is_unspecified()) return;
  if (Frame frame = make(message)) {
    deps_.out.counters.add(Counter::nd_solicitations_unicast);
    deps_.out.sends.push_back(Outgoing{path.handle, hardware.qpn, std::move(frame)});
  }
}

void NdOutput::announce(const Ipv6Address& address, TimePoint now) {
  wire::NdMessage message;
  message.type = wire::NdType::neighbour_advertisement;
  message.source = address;
  message.destination = kAllNodesOfIpv6;
  message.target = address;
  message.is_router = deps_.host.is_ipv6_router(address);
  message.overrides = true;
  message.target_link_layer = deps_.own;
  deps_.out.counters.add(Counter::announcements_sent);
  if (Frame frame = make(message)) {
    deps_.groups.send(kAllNodesOfIpv6, std::move(frame), now);
  }
}

Frame NdOutput::make(const wire::NdMessage& message) {
  Frame frame = deps_.frames.take();
  if (!frame) {
    deps_.out.counters.add(Counter::drop_no_frame);
    return frame;
  }
  frame.window(0, wire::kEncapsulationSize + wire::NdMessage::kMaxEmitted);
  wire::emit_encapsulation(wire::EtherType::ipv6, frame.bytes().data());
  const std::size_t size = message.emit(frame.bytes().subspan(wire::kEncapsulationSize));
  frame.window(0, wire::kEncapsulationSize + size);
  return frame;
}

void put_link_layer_option(Frame& packet, wire::LinkLayerOption option, const HwAddress& address,
                           std::size_t mtu) {
  const std::size_t begin = packet.headroom();
  const std::size_t size = wire::strip_link_layer_options(packet.bytes());
  const std::size_t whole = size + wire::kLinkLayerOptionSize;
  if (whole > std::min(mtu, packet.capacity() - begin)) return packet.window(begin, size);
  packet.window(begin, whole);
  (void)wire::append_link_layer_option(packet.bytes(), size, option, address);
}

}  // namespace ipoib::link
