#include "softib/subnet/sa_node_records.hpp"

#include <array>
#include <numeric>

#include "softib/subnet/node_attributes.hpp"
#include "wire/class_port_info.hpp"

namespace softib::subnet {

namespace {

using ipoib::wire::ClassPortInfo;
using ipoib::wire::NodeRecord;
using ipoib::wire::PortInfo;
using ipoib::wire::PortInfoRecord;

/// NodeRecord: LID, reserved, base and class version, type, ports; system image, node and port
/// GUID; partition capacity, device, revision, local port, vendor; description.
constexpr std::array<std::uint16_t, 15> kNodeRecordWidths{16, 16, 8,  8,  8, 8,  64, 64,
                                                          64, 16, 16, 32, 8, 24, 512};
static_assert(std::accumulate(kNodeRecordWidths.begin(), kNodeRecordWidths.end(), 0U) ==
              8 * NodeRecord::kSize);

/// PortInfoRecord: LID, port, options; M_Key, GidPrefix, LID, SM LID, CapabilityMask, diagnostics,
/// lease, local port; widths enabled, supported, active; speed supported, state; physical state,
/// default state; protection, reserved, LMC; speed active, enabled; neighbour MTU, SM SL; VLs, init
/// type, three limits, reply, MTU capability; stall count, head-of-queue lifetime; VLs in use, four
/// enforcements; three violation counts, GUIDs; re-register, reserved, SubnetTimeOut; reserved,
/// RespTime; two error thresholds; credits, reserved, latency, CapabilityMask2; extended speeds.
constexpr std::array<std::uint16_t, 58> kPortInfoRecordWidths{
    16, 8,  8, 64, 64, 16, 16, 32, 16, 16, 8,  8, 8,  8,  4, 4, 4, 4, 2, 3,
    3,  4,  4, 4,  4,  4,  4,  8,  8,  8,  4,  4, 3,  5,  4, 1, 1, 1, 1, 16,
    16, 16, 8, 1,  2,  5,  3,  5,  4,  4,  16, 8, 24, 16, 4, 4, 3, 5};
static_assert(std::accumulate(kPortInfoRecordWidths.begin(), kPortInfoRecordWidths.end(), 0U) ==
              8 * PortInfoRecord::kSize);
constexpr std::uint64_t kCapabilityMaskComponent = 1ULL << 7;
constexpr std::size_t kCapabilityMaskOffset = 4 + 20;
/// Attribute modifier: match ports that have all bits of the given CapabilityMask (IBA 15.2.5.3).
constexpr std::uint32_t kMatchCapabilityBits = 1U << 31;

// Values of the SA's ClassPortInfo (IBA 15.2.5.1).
constexpr std::uint16_t kUdMulticast = 1U << 9;
constexpr std::uint16_t kCapabilityMaskMatch = 1U << 13;
constexpr std::uint32_t kSendOnlyFullMember = 1U << 12;
constexpr std::uint8_t kResponseTime = 18;

bool may_see(const SaRequest& request, const Node& node) {
  return &node == &request.from || shared_pkey(request.from, node).is_valid();
}

/// The components to compare. Any LID of a port selects its records, which contain the base LID.
std::uint64_t components(const SaRequest& request, const Node& node) {
  constexpr std::uint64_t kLid = 1;
  const std::uint64_t mask = request.header.component_mask;
  const Lid wanted(ipoib::load_be<std::uint16_t>(request.record.data()));
  return node.port.has(wanted) ? mask & ~kLid : mask;
}

bool matches(const SaRequest& request, const PortInfoRecord& record, std::uint64_t mask) {
  std::array<std::uint8_t, PortInfoRecord::kSize> bytes;
  record.emit(bytes);
  const bool by_bits = (request.header.mad.attribute_modifier & kMatchCapabilityBits) != 0;
  if (by_bits && (mask & kCapabilityMaskComponent) != 0) {
    mask &= ~kCapabilityMaskComponent;
    const auto wanted =
        ipoib::load_be<std::uint32_t>(request.record.data() + kCapabilityMaskOffset);
    if ((record.info.capability_mask & wanted) != wanted) return false;
  }
  return components_equal(request.record, bytes, mask, kPortInfoRecordWidths);
}

}  // namespace

SaResponse query_nodes(const SaRequest& request, const SubnetManager& manager) {
  RecordTable found(NodeRecord::kSize);
  for (const Node* node : manager.end_ports()) {
    if (!may_see(request, *node)) continue;
    NodeRecord record;
    record.lid = node->port.lid;
    record.node = node_info(manager, *node);
    record.description = node_description(*node);
    std::array<std::uint8_t, NodeRecord::kSize> bytes;
    record.emit(bytes);
    const bool matches =
        components_equal(request.record, bytes, components(request, *node), kNodeRecordWidths);
    if (matches) found.add(ConstBytes(bytes));
  }
  return found;
}

SaResponse query_ports(const SaRequest& request, const SubnetManager& manager) {
  RecordTable found(PortInfoRecord::kSize);
  for (const Node* node : manager.end_ports()) {
    if (!may_see(request, *node)) continue;
    const bool is_switch = node->switch_index.has_value();
    // Each port of an HCA is a node.
    const unsigned last = is_switch ? switch_port_count(manager, *node) : node->port.number;
    for (unsigned port = is_switch ? 0 : last; port <= last; ++port) {
      PortInfoRecord record;
      record.lid = node->port.lid;
      record.port = static_cast<std::uint8_t>(port);
      record.info = port_info(manager, *node, record.port);
      if (matches(request, record, components(request, *node))) found.add(record);
    }
  }
  return found;
}

SaResponse query_class_port_info() {
  ClassPortInfo info;
  info.capability_mask = kUdMulticast | kCapabilityMaskMatch;
  info.capability_mask2 = kSendOnlyFullMember;
  info.response_time = kResponseTime;
  info.redirect.qpn = ipoib::wire::kGsiQpn;
  info.redirect.qkey = info.trap.qkey = ipoib::wire::kGsiQKey;
  RecordTable found(ClassPortInfo::kSize);
  found.add(info);
  return found;
}

}  // namespace softib::subnet
