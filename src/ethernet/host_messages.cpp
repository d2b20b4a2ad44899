#include "ethernet/host_messages.hpp"

#include <utility>

namespace ipoib::ethernet {

using wire::EthernetArp;
using wire::EthernetHeader;
using wire::EtherType;
using wire::LinkLayerOption;
using wire::NdMessage;

static_assert(HostMessages::kHeadroom >= EthernetHeader::kSize);
static_assert(HostMessages::kSize >= HostMessages::kHeadroom + wire::GroupQuery::kMaxEmitted);

namespace {

EthernetHeader frame_header(MacAddress to, MacAddress from, EtherType type) {
  return {to, from, static_cast<std::uint16_t>(type)};
}

}  // namespace

void HostMessages::arp(const EthernetArp& message, MacAddress to, MacAddress from) {
  if (Frame frame = make(EthernetArp::kSize, frame_header(to, from, EtherType::arp))) {
    message.emit(frame.bytes());
    waiting_.push_back(std::move(frame));
  }
}

void HostMessages::announce(Ipv4Address address, MacAddress mac) {
  arp({.operation = wire::ArpOperation::request,
       .sender_hardware = mac,
       .sender_protocol = address,
       .target_hardware = {},
       .target_protocol = address},
      kBroadcastMac);
}

void HostMessages::advertisement(const NdMessage& message, MacAddress mac, MacAddress to,
                                 MacAddress from) {
  discovery(message, LinkLayerOption::target, frame_header(to, from, EtherType::ipv6), mac);
}

void HostMessages::solicitation(const NdMessage& message, MacAddress mac, MacAddress to) {
  discovery(message, LinkLayerOption::source, frame_header(to, mac, EtherType::ipv6), mac);
}

void HostMessages::discovery(const NdMessage& message, LinkLayerOption option,
                             const EthernetHeader& header, MacAddress mac) {
  Frame frame = make(NdMessage::kMaxEmitted, header);
  if (!frame) return;
  const std::size_t size = message.emit(frame.bytes());
  const std::size_t whole = wire::append_link_layer_option(frame.bytes(), size, option, mac);
  frame.window(kHeadroom, whole);
  waiting_.push_back(std::move(frame));
}

void HostMessages::query(const wire::GroupQuery& query, MacAddress mac,
                         std::optional<MacAddress> to) {
  const IpAddress group = query.destination();
  const MacAddress of_group =
      std::visit([](const auto& any) { return wire::multicast_mac(any); }, group);
  const bool is_ipv4 = family(group) == IpFamily::v4;
  Frame frame =
      make(wire::GroupQuery::kMaxEmitted,
           frame_header(to.value_or(of_group), mac, is_ipv4 ? EtherType::ipv4 : EtherType::ipv6));
  if (!frame) return;
  frame.window(kHeadroom, query.emit(frame.bytes()));
  waiting_.push_back(std::move(frame));
}

/// Begins a message; returns an empty frame if no buffer is free.
Frame HostMessages::make(std::size_t size, const EthernetHeader& header) {
  Frame frame = frames_.take();
  if (!frame) {
    ++dropped_;
    return frame;
  }
  frame.window(kHeadroom, size);
  header.emit(frame.bytes().data() - EthernetHeader::kSize);
  return frame;
}

}  // namespace ipoib::ethernet
