// SubnSet() by an external SM. If a field has an invalid value, the attribute is refused as a whole
// (IBA 14.2.4).
#include <algorithm>

#include "softib/subnet/node_attributes.hpp"
#include "softib/subnet/rates.hpp"
#include "softib/subnet/sma.hpp"
#include "softib/subnet/sma_blocks.hpp"
#include "wire/mad.hpp"
#include "wire/port_info.hpp"

namespace softib::subnet {

using ipoib::wire::MadHeader;
using ipoib::wire::PortInfo;
namespace mad_status = ipoib::wire::mad_status;

namespace {

using SmpView = std::span<const std::uint8_t, kSmpDataSize>;

constexpr std::uint16_t kOk = 0;
/// Writable values of PortPhysicalState (IBA 14.2.5.6).
constexpr std::uint8_t kPolling = 2;
constexpr std::uint8_t kDisabled = 3;
constexpr std::uint8_t kNoChangeOfLanes = 0;  ///< of OperationalVLs

/// The new state of a link; nullopt for an invalid transition (IBA 14.2.5.6). Both ends of a cable
/// share one state, so a transition that was made at the other end is valid, too.
std::optional<PortState> next_state(const PortAttributes& port, const PortInfo& wanted,
                                    bool can_be_up) {
  constexpr std::uint8_t kNoChange = 0;
  if (wanted.physical_state != kNoChange && wanted.physical_state != kPolling &&
      wanted.physical_state != kDisabled) {
    return std::nullopt;
  }
  if (wanted.physical_state == kDisabled) return PortState::down;
  if (port.failed || !can_be_up) return PortState::down;
  if (wanted.physical_state == kPolling) return PortState::init;
  if (wanted.port_state == kNoChange) return port.state;
  // Writing Down retrains the link.
  if (wanted.port_state == static_cast<std::uint8_t>(PortState::down)) {
    return port.state == PortState::down ? PortState::down : PortState::init;
  }
  const auto to = static_cast<PortState>(wanted.port_state);
  if (to == port.state && to != PortState::init) return to;
  if (to == PortState::armed && port.state == PortState::init) return to;
  if (to == PortState::active && port.state == PortState::armed) return to;
  return std::nullopt;
}

/// Whether to send a trap: only if the link went down or came up, since the SM itself writes the
/// other states.
bool is_link_change(PortState before, PortState now) {
  return before != now && (now == PortState::down || now == PortState::init);
}

void set_filter(const Attachment& at, const PartitionFilter& filter, SubnetManager& manager) {
  if (filter == manager.switches()[at.switch_index].ports[at.port].filter) return;
  manager.switches().set_filter(at, filter);
  manager.checks_changed(at);
}

void write_tuning(const PortInfo::Tuning& wanted, PortInfo::Tuning& to) {
  constexpr std::uint8_t kNoChange = 0;  // of LinkDownDefaultState
  const std::uint8_t before = to.link_down_default;
  to = wanted;
  if (wanted.link_down_default == kNoChange) to.link_down_default = before;
}

/// Sets an external port of a switch. Of one to an HCA, only the link state is written; of one to
/// another switch, the MTU, too.
std::uint16_t set_external_port(SwitchIndex index, std::uint8_t number, const PortInfo& wanted,
                                ManagedState& state) {
  SubnetManager& manager = state.manager;
  const Peer peer = manager.switches().peer(index, number);
  const Node* const node = peer.kind == Peer::Kind::node ? manager.node(peer.index) : nullptr;
  PortAttributes port = node != nullptr ? node->port : PortAttributes{};
  const bool is_cable = peer.kind == Peer::Kind::switch_port;
  port.vl_capability = manager.switches()[index].node.port.vl_capability;
  if (wanted.operational_vls > port.vl_capability) return mad_status::kInvalidField;
  if (is_cable) port.state = peer.state;
  const bool can_be_up = manager.switches().can_be_up({index, number});
  const auto next = next_state(port, wanted, can_be_up);
  if (!next || (is_cable && !is_mtu(wanted.neighbor_mtu))) return mad_status::kInvalidField;
  ExternalPort& external = manager.switches()[index].ports[number];
  if (wanted.operational_vls != kNoChangeOfLanes) external.operational_vls = wanted.operational_vls;
  if (is_cable) manager.switches().set_cable_mtu(index, number, wanted.neighbor_mtu);
  PartitionFilter filter = external.filter;
  filter.inbound = wanted.enforces_inbound;
  filter.outbound = wanted.enforces_outbound;
  set_filter({index, number}, filter, manager);
  write_tuning(wanted.tuning, external.tuning);
  if (peer.kind == Peer::Kind::none || port.state == *next) return kOk;
  if (is_link_change(port.state, *next)) {
    state.link_changes.push_back(index);
    if (is_cable) state.link_changes.push_back(peer.index);
  }
  if (is_cable) {
    manager.switches().set_cable(index, number, *next);
    return kOk;
  }
  port.set_state(*next);
  manager.set_port(*node, port);
  return kOk;
}

/// Resets the counters of violations that are written as 0 (IBA 14.2.5.6); other values are
/// ignored.
void reset_violations(const Node& node, const PortInfo& wanted, ManagedState& state) {
  const auto index = state.manager.find(node.port.port_guid);
  if (!state.violations.reset || !index) return;
  if (wanted.pkey_violations == 0) state.violations.reset(*index, CheckedKey::pkey);
  if (wanted.qkey_violations == 0) state.violations.reset(*index, CheckedKey::qkey);
}

/// Sets port 0 of a switch, or a port of an HCA.
std::uint16_t set_end_port(const Node& node, const PortInfo& wanted, ManagedState& state) {
  PortAttributes port = node.port;
  const bool is_switch = node.switch_index.has_value();
  const bool can_be_up = is_switch || state.manager.switches().can_be_up(node.attachment);
  const auto next = is_switch ? port.state : next_state(port, wanted, can_be_up);
  // Port 0 of a switch has no link and thus no NeighborMTU.
  const bool has_mtu =
      is_switch || (is_mtu(wanted.neighbor_mtu) && wanted.neighbor_mtu <= port.max_mtu);
  const bool has_lanes = wanted.operational_vls <= port.vl_capability;
  const bool has_lids = ipoib::is_unicast(wanted.lid) && ipoib::is_unicast(wanted.sm_lid) &&
                        wanted.lid == ipoib::base_lid(wanted.lid, wanted.lmc);
  if (!next || !has_mtu || !has_lanes || !has_lids) {
    return mad_status::kInvalidField;
  }
  if (is_link_change(port.state, *next)) {
    state.link_changes.push_back(node.attachment.switch_index);
  }
  port.set_state(*next);
  port.gid_prefix = wanted.gid_prefix;
  port.lid = wanted.lid;
  port.lmc = wanted.lmc;
  port.sm_lid = wanted.sm_lid;
  port.sm_sl = wanted.sm_sl;
  if (wanted.operational_vls != kNoChangeOfLanes) port.operational_vls = wanted.operational_vls;
  if (!is_switch) port.mtu = wanted.neighbor_mtu;
  if (wanted.client_reregister) ++port.reregister_count;
  state.manager.set_port(node, port);
  write_tuning(wanted.tuning, state.manager.tuning(node));
  state.manager.set_m_key(node, {wanted.m_key, wanted.m_key_protection});
  if (!is_switch) reset_violations(node, wanted, state);
  return kOk;
}

std::uint16_t set_port_info(const SmpTarget& target, std::uint32_t number, SmpView data,
                            ManagedState& state) {
  const auto wanted = PortInfo::parse(data);
  if (!wanted) return mad_status::kInvalidField;
  if (number == 0) return set_end_port(*target.node, *wanted, state);
  if (!target.is_switch()) {
    // A port without a cable cannot be set.
    const Node* const port = state.manager.port_of_hca(*target.node, number);
    return port != nullptr ? set_end_port(*port, *wanted, state) : mad_status::kInvalidField;
  }
  if (number > switch_port_count(state.manager, *target.node)) return mad_status::kInvalidField;
  return set_external_port(*target.node->switch_index, static_cast<std::uint8_t>(number), *wanted,
                           state);
}

std::uint16_t set_pkeys(const SmpTarget& target, std::uint32_t modifier, SmpView data,
                        ManagedState& state) {
  Switches& switches = state.manager.switches();
  const auto index = target.node->switch_index;
  const auto port = PKeyBlock::of(modifier, index ? &switches[*index] : nullptr);
  if (!port) return mad_status::kInvalidField;
  PKeyTable table;
  ipoib::ByteReader reader(data);
  for (auto& key : table) key = PKey(reader.u16());
  if (*port == 0) {
    PortAttributes attributes = target.node->port;
    attributes.pkeys = table;
    state.manager.set_port(*target.node, attributes);
  } else {
    PartitionFilter filter = switches[*index].ports[*port].filter;
    filter.pkeys = table;
    set_filter({*index, *port}, filter, state.manager);
  }
  return kOk;
}

std::uint16_t set_switch_info(SmpView data, SwitchSettings& settings) {
  ipoib::ByteReader reader(data);
  reader.skip(3 * sizeof(std::uint16_t));  // the capacities
  SwitchSettings wanted = settings;
  wanted.linear_top = reader.u16();
  wanted.default_port = reader.u8();
  wanted.default_primary_port = reader.u8();
  wanted.default_not_primary_port = reader.u8();
  const std::uint8_t last = reader.u8();
  wanted.life_time = last >> kLifeTimeShift;
  // Writing 1 clears the bit.
  if ((last & kLinksChangedBit) != 0) wanted.links_changed = false;
  if (wanted.linear_top >= kUnicastLids) return mad_status::kInvalidField;
  settings = wanted;
  return kOk;
}

std::uint16_t set_routes(std::uint32_t block, SmpView data, LinearForwardingTable& routes) {
  if (block >= kUnicastBlocks) return mad_status::kInvalidField;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const bool is_port = data[i] <= kMaxNumberedPort;
    routes.set(Lid(static_cast<std::uint16_t>(block * data.size() + i)),
               is_port ? std::optional<SwitchPort>(data[i]) : std::nullopt);
  }
  return kOk;
}

std::uint16_t set_multicast(std::uint32_t modifier, SmpView data, MulticastForwardingTable& table) {
  const auto block = MulticastBlock::parse(modifier);
  if (!block) return mad_status::kInvalidField;
  ipoib::ByteReader reader(data);
  for (std::size_t i = 0; i < MulticastBlock::kGroups; ++i) {
    const std::uint16_t ports = reader.u16();
    PortSet exits = table.at(block->group(i));
    for (unsigned bit = 0; bit < MulticastBlock::kPorts; ++bit) {
      if (const auto at = block->in_set(bit)) exits[*at] = (ports >> bit & 1) != 0;
    }
    table.set(block->group(i), exits);
  }
  return kOk;
}

std::uint16_t set_lanes(std::uint16_t attribute, const LaneBlock& block, SmpView data,
                        LaneTables& lanes) {
  if (attribute == smp_attribute::kSlToVlMapping) {
    LaneTables::SlToVl to;
    std::copy_n(data.begin(), to.size(), to.begin());
    lanes.set_sl_to_vl(block.in, block.out, to);
  } else {
    LaneTables::Arbitration to;
    std::ranges::copy(data, to.begin());
    lanes.set_arbitration(block.out, block.number, to);
  }
  return kOk;
}

}  // namespace

std::uint16_t set_attribute(const SmpTarget& target, const MadHeader& header, SmpView data,
                            ManagedState& state) {
  const std::uint32_t modifier = header.attribute_modifier;
  switch (header.attribute_id) {
    case ipoib::wire::attribute::kPortInfo:
      return set_port_info(target, modifier, data, state);
    case smp_attribute::kPKeyTable:
      return set_pkeys(target, modifier, data, state);
    case smp_attribute::kGuidInfo:
      // The only entry is read-only.
      return modifier == 0 ? kOk : mad_status::kInvalidField;
    case smp_attribute::kSlToVlMapping:
    case smp_attribute::kVlArbitration: {
      const auto block = LaneBlock::of(header.attribute_id, modifier, *target.node);
      if (!block) return mad_status::kInvalidField;
      return set_lanes(header.attribute_id, *block, data, state.manager.lanes(*target.node));
    }
    default:
      break;
  }
  if (!target.is_switch()) return mad_status::kUnsupportedMethodAttribute;
  Switch& at = state.manager.switches()[*target.node->switch_index];
  switch (header.attribute_id) {
    case smp_attribute::kSwitchInfo:
      return set_switch_info(data, at.settings);
    case smp_attribute::kLinearForwardingTable:
      return set_routes(modifier, data, at.routes);
    case smp_attribute::kMulticastForwardingTable:
      return set_multicast(modifier, data, at.groups);
    default:
      return mad_status::kUnsupportedMethodAttribute;
  }
}

}  // namespace softib::subnet
