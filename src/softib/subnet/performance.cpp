// A MAD of this class (IBA 16.1.2), and the attributes that begin with the port's number:
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

constexpr std::uint8_t kClassVersion = 1;
constexpr std::size_t kDataOffset = 64;
constexpr std::size_t kPortOctet = 1;
constexpr std::size_t kSelectOctet = 2;
/// ClassPortInfo:CapabilityMask, "IsExtendedWidthSupportedNoIETF": without counts of multicast.
constexpr std::uint16_t kExtendedWidth = 1U << 10;

/// A counter in an attribute. It sticks at the largest value that it has room for.
struct Field {
  unsigned select;  ///< its bit in CounterSelect
  std::size_t offset;
  std::size_t octets;
  std::uint64_t PerformanceCounters::*counter;
};
using Counters = PerformanceCounters;
constexpr std::array kPortCounters = {
    Field{3, 8, 2, &Counters::receive_errors},     Field{5, 12, 2, &Counters::relay_errors},
    Field{6, 14, 2, &Counters::transmit_discards}, Field{11, 22, 2, &Counters::vl15_dropped},
    Field{12, 24, 4, &Counters::transmit_data},    Field{13, 28, 4, &Counters::receive_data},
    Field{14, 32, 4, &Counters::transmit_packets}, Field{15, 36, 4, &Counters::receive_packets},
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
  for (const auto octet : data.subspan(field.offset, field.octets)) value = value << 8 | octet;
  return value;
}

void write(const Field& field, std::uint64_t value, ipoib::MutableBytes data) {
  const std::uint64_t most = ~std::uint64_t{0} >> (64 - 8 * field.octets);
  value = std::min(value, most);
  for (std::size_t i = field.octets; i-- > 0; value >>= 8) {
    data[field.offset + i] = static_cast<std::uint8_t>(value);
  }
}

/// IBA 13.4.8.1: | base version 8 | class version 8 | CapabilityMask 16 | -
void write_class_port_info(ipoib::MutableBytes data) {
  std::ranges::fill(data, std::uint8_t{0});
  data[0] = 1;
  data[1] = kClassVersion;
  ipoib::store_be(&data[2], kExtendedWidth);
}

}  // namespace

/// Of the far end of a node's cable, received is what was sent.
PerformanceCounters PerformanceAgents::raw(const Port& port) const {
  auto counters = source_ ? source_(port.node) : PerformanceCounters{};
  if (!port.of_switch) {
    counters.relay_errors = 0;
    return counters;
  }
  PerformanceCounters other;
  other.relay_errors = counters.relay_errors;
  other.transmit_data = counters.receive_data;
  other.receive_data = counters.transmit_data;
  other.transmit_packets = counters.receive_packets;
  other.receive_packets = counters.transmit_packets;
  return other;
}

AgentResult PerformanceAgents::answer(const MadPacket& packet, const SubnetManager& manager) {
  const auto header = MadHeader::parse(packet.mad);
  if (!header || header->management_class != ipoib::wire::mgmt_class::kPerf) return {};
  if (header->is_response()) return {AgentOutcome::unmatched_response, 0, {}, 0};
  const bool is_switch = packet.dlid == manager.the_switch().port.lid;
  // Tables that are written elsewhere may lead to nobody, and lead to the switch as to node 0.
  const auto index = manager.node_at(packet.dlid);
  const Node* const node = manager.node(index);
  const bool is_there = node != nullptr && node->port.state == PortState::active;
  if (!is_switch && !is_there) return {AgentOutcome::unreachable, 0, {}, 0};

  const bool is_set = header->method == method::kSet;
  const auto fields = fields_of(header->attribute_id);
  const bool is_class_info = header->attribute_id == attribute::kClassPortInfo;
  if (header->class_version != kClassVersion) {
    return make_response(packet, *header, mad_status::kUnsupportedVersion);
  }
  if ((header->method != method::kGet && !is_set) || (fields.empty() && !is_class_info)) {
    return make_response(packet, *header, mad_status::kUnsupportedMethodAttribute);
  }
  auto answer = make_response(packet, *header, 0);
  const auto data = ipoib::MutableBytes(answer.packet.mad).subspan(kDataOffset);
  if (is_class_info) {
    write_class_port_info(data);
    return answer;
  }

  // Port 0 of the switch, its own, sends nothing that is counted.
  const std::uint8_t number = data[kPortOctet];
  const bool is_port =
      is_switch ? number <= switch_port_count(manager) : number == node->port.number;
  if (!is_port) return make_response(packet, *header, mad_status::kInvalidField);
  const Port port{is_switch ? static_cast<NodeIndex>(number - 1) : *index, is_switch};
  const bool counts = !is_switch || manager.node(port.node) != nullptr;
  const PerformanceCounters now = counts ? raw(port) : PerformanceCounters{};
  if (is_set && counts) {
    const auto selected = ipoib::load_be<std::uint16_t>(&data[kSelectOctet]);
    for (const auto& field : fields) {
      if ((selected >> field.select & 1) == 0) continue;
      zero_[port].*field.counter = now.*field.counter - read(field, data);
    }
  }
  const auto zero = zero_.find(port);
  std::ranges::fill(data.subspan(kSelectOctet + 2), std::uint8_t{0});
  for (const auto& field : fields) {
    const auto before = zero != zero_.end() ? zero->second.*field.counter : 0;
    write(field, now.*field.counter - before, data);
  }
  return answer;
}

}  // namespace softib::subnet
