// A MAD of this class (IBA 16.1.2), and the attributes that begin with the port number:
//
//   0        24             64              256
//   | header | reserved     | attribute     |
//
//   PortCounters         | - 8 | port 8 | CounterSelect 16 | counters of 4 to 32 bits ...
//   PortCountersExtended | - 8 | port 8 | CounterSelect 16 | - 32 | counters of 64 bits ...
#include "softib/subnet/performance.hpp"

#include <algorithm>
#include <span>

#include "softib/subnet/node_attributes.hpp"

namespace softib::subnet {

using ipoib::wire::MadHeader;
namespace attribute = ipoib::wire::attribute;
namespace mad_status = ipoib::wire::mad_status;
namespace method = ipoib::wire::method;

namespace {

constexpr std::uint8_t kPerfClassVersion = 1;
constexpr std::size_t kDataOffset = 64;
constexpr std::size_t kPortOffset = 1;
constexpr std::size_t kSelectOffset = 2;
/// ClassPortInfo:CapabilityMask, IsExtendedWidthSupportedNoIETF: 64-bit counters, no multicast
/// ones.
constexpr std::uint16_t kExtendedWidth = 1U << 10;
/// PortXmitWait is counted: no packet waits for credits, so it is 0.
constexpr std::uint16_t kTransmitWait = 1U << 12;

/// A counter in an attribute. It saturates at its maximum.
struct Field {
  enum class Part : std::uint8_t { whole, high_half, low_half };  ///< of its only byte
  unsigned select;                                                ///< its bit in CounterSelect
  std::size_t offset;
  std::size_t size;  ///< bytes
  std::uint64_t PerformanceCounters::*counter;
  Part part = Part::whole;
};
constexpr std::uint64_t kMaxHalf = 15;
using Counters = PerformanceCounters;
constexpr std::array kPortCounters = {
    Field{0, 4, 2, &Counters::symbol_errors},
    Field{1, 6, 1, &Counters::link_recoveries},
    Field{2, 7, 1, &Counters::links_lost},
    Field{3, 8, 2, &Counters::receive_errors},
    Field{5, 12, 2, &Counters::relay_errors},
    Field{6, 14, 2, &Counters::transmit_discards},
    Field{7, 16, 1, &Counters::transmit_constraints},
    Field{8, 17, 1, &Counters::receive_constraints},
    Field{9, 19, 1, &Counters::integrity_errors, Field::Part::high_half},
    Field{10, 19, 1, &Counters::overruns, Field::Part::low_half},
    Field{11, 22, 2, &Counters::vl15_dropped},
    Field{12, 24, 4, &Counters::transmit_data},
    Field{13, 28, 4, &Counters::receive_data},
    Field{14, 32, 4, &Counters::transmit_packets},
    Field{15, 36, 4, &Counters::receive_packets},
};
constexpr std::array kPortCountersExtended = {
    Field{0, 8, 8, &Counters::transmit_data},
    Field{1, 16, 8, &Counters::receive_data},
    Field{2, 24, 8, &Counters::transmit_packets},
    Field{3, 32, 8, &Counters::receive_packets},
};

std::span<const Field> fields_of(std::uint16_t attribute_id) {
  if (attribute_id == attribute::kPortCounters) return kPortCounters;
  if (attribute_id == attribute::kPortCountersExtended) return kPortCountersExtended;
  return {};
}

std::uint64_t read(const Field& field, ConstBytes data) {
  std::uint64_t value = 0;
  for (const auto byte : data.subspan(field.offset, field.size)) value = value << 8 | byte;
  if (field.part == Field::Part::high_half) return value >> 4;
  return field.part == Field::Part::low_half ? value & kMaxHalf : value;
}

/// Requires that the bytes are 0.
void write(const Field& field, std::uint64_t value, ipoib::MutableBytes data) {
  if (field.part != Field::Part::whole) {
    const auto half = static_cast<unsigned>(std::min(value, kMaxHalf));
    const bool is_high = field.part == Field::Part::high_half;
    data[field.offset] |= static_cast<std::uint8_t>(is_high ? half << 4 : half);
    return;
  }
  const std::uint64_t max = ~std::uint64_t{0} >> (64 - 8 * field.size);
  value = std::min(value, max);
  for (std::size_t i = field.size; i-- > 0; value >>= 8) {
    data[field.offset + i] = static_cast<std::uint8_t>(value);
  }
}

/// Why a MAD does not arrive at a port of the switch or of `node`; nullopt if it does.
std::optional<AgentOutcome> refuse(bool is_switch, const Node* node, const MadPacket& packet) {
  if (is_switch) return std::nullopt;
  if (node == nullptr || node->port.state != PortState::active) return AgentOutcome::unreachable;
  if (!admits_route(node->port, packet.grh)) return AgentOutcome::wrong_gid;
  return std::nullopt;
}

/// Writes ClassPortInfo (IBA 13.4.8.1): | base version 8 | class version 8 | CapabilityMask 16 | -
void write_class_port_info(ipoib::MutableBytes data) {
  std::ranges::fill(data, std::uint8_t{0});
  data[0] = 1;
  data[1] = kPerfClassVersion;
  ipoib::store_be(&data[2], static_cast<std::uint16_t>(kExtendedWidth | kTransmitWait));
}

}  // namespace

/// The counters without offsets. A switch port has received what its peer has sent.
PerformanceCounters PerformanceAgents::raw(const Port& port, const SubnetManager& manager) const {
  const auto links_lost = [&](const Attachment& at) {
    return manager.switches()[at.switch_index].ports[at.port].links_lost;
  };
  if (!port.of_switch) {
    auto counters = source_ ? source_(port.index) : PerformanceCounters{};
    counters.relay_errors = 0;
    counters.links_lost = links_lost(manager.node(port.index)->attachment);
    return counters;
  }
  const Peer at = manager.switches().peer(port.index, port.number);
  if (at.kind == Peer::Kind::none) return {};
  auto own = cables_ ? cables_(port.index, port.number) : PerformanceCounters{};
  own.links_lost = links_lost({port.index, port.number});
  const auto& errors = manager.switches()[port.index].ports[port.number].link_errors;
  own.integrity_errors = errors[static_cast<std::size_t>(LinkError::integrity)];
  own.overruns = errors[static_cast<std::size_t>(LinkError::overrun)];
  own.link_recoveries = errors[static_cast<std::size_t>(LinkError::watchdog)];
  if (at.kind == Peer::Kind::switch_port) {
    if (!cables_) return own;
    const auto from_peer = cables_(at.index, at.port);
    own.receive_data = from_peer.transmit_data;
    own.receive_packets = from_peer.transmit_packets;
    return own;
  }
  const auto node = source_ ? source_(at.index) : PerformanceCounters{};
  own.relay_errors = node.relay_errors;
  own.transmit_data = node.receive_data;
  own.receive_data = node.transmit_data;
  own.transmit_packets = node.receive_packets;
  own.receive_packets = node.transmit_packets;
  return own;
}

AgentResult PerformanceAgents::handle(const MadPacket& packet, const SubnetManager& manager) {
  const auto header = MadHeader::parse(packet.mad);
  if (!header || header->management_class != ipoib::wire::mgmt_class::kPerf) return {};
  if (header->is_response()) return {.outcome = AgentOutcome::unmatched_response};
  const Switch* const at = manager.switch_at(packet.dlid);
  const bool is_switch = at != nullptr;
  const auto index = manager.node_at(packet.dlid);
  const Node* const node = manager.node(index);
  if (const auto refused = refuse(is_switch, node, packet)) return {.outcome = *refused};

  const bool is_set = header->method == method::kSet;
  const auto fields = fields_of(header->attribute_id);
  const bool is_class_info = header->attribute_id == attribute::kClassPortInfo;
  if (header->class_version != kPerfClassVersion) {
    return make_response(packet, *header, mad_status::kUnsupportedVersion);
  }
  if ((header->method != method::kGet && !is_set) || (fields.empty() && !is_class_info)) {
    return make_response(packet, *header, mad_status::kUnsupportedMethodAttribute);
  }
  auto result = make_response(packet, *header, 0);
  const auto data = ipoib::MutableBytes(result.packet.mad).subspan(kDataOffset);
  if (is_class_info) {
    write_class_port_info(data);
    return result;
  }

  // Port 0 of the switch has no counters.
  const std::uint8_t number = data[kPortOffset];
  const bool is_port = is_switch ? number <= switch_port_count(manager, at->node)
                                 : number >= 1 && number <= node->port.hca_ports;
  if (!is_port) return make_response(packet, *header, mad_status::kInvalidField);
  // Those of an HCA's port without a cable are 0.
  const Node* const own = is_switch ? nullptr : manager.port_of_hca(*node, number);
  const auto own_index = own != nullptr ? manager.find(own->port.port_guid) : std::nullopt;
  const Port port = is_switch ? Port{true, *at->node.switch_index, number}
                              : Port{false, own_index.value_or(*index), 0};
  const bool is_counted = is_switch
                              ? manager.switches().peer(port.index, number).kind != Peer::Kind::none
                              : own_index.has_value();
  const PerformanceCounters now = is_counted ? raw(port, manager) : PerformanceCounters{};
  if (is_set && is_counted) {
    const auto selected = ipoib::load_be<std::uint16_t>(&data[kSelectOffset]);
    for (const auto& field : fields) {
      if ((selected >> field.select & 1) == 0) continue;
      offsets_[port].*field.counter = now.*field.counter - read(field, data);
    }
  }
  const auto offset = offsets_.find(port);
  std::ranges::fill(data.subspan(kSelectOffset + 2), std::uint8_t{0});
  for (const auto& field : fields) {
    const auto before = offset != offsets_.end() ? offset->second.*field.counter : 0;
    write(field, now.*field.counter - before, data);
  }
  return result;
}

}  // namespace softib::subnet
