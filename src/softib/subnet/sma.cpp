#include "softib/subnet/sma.hpp"

#include <algorithm>
#include <utility>

#include "softib/core/mad_route.hpp"

namespace softib::subnet {

using ipoib::wire::MadHeader;
namespace method = ipoib::wire::method;
namespace mad_status = ipoib::wire::mad_status;

namespace {

/// Whether a MAD is for an SM and not for the agent of its node.
bool is_for_manager(const MadHeader& header) {
  return header.method == smp_method::kTrap || header.attribute_id == smp_attribute::kSmInfo;
}

/// Whether the M_Key of a request is right (IBA 14.2.4.1). One with the wrong key gets no response.
bool is_authorised(const SmpTarget& target, const MadHeader& header, std::uint64_t m_key) {
  const ManagementKey& key = target.node->key;
  return key.admits(m_key) || (header.method == method::kGet && key.protection < 2);
}

}  // namespace

AgentResult SubnetManagementAgents::receive(const MadPacket& packet) {
  const auto header = MadHeader::parse(packet.mad);
  if (!header) return {};
  const bool is_smp =
      is_directed(*header) || header->management_class == ipoib::wire::mgmt_class::kSubnLid;
  if (!is_smp) return {};
  if (header->is_response()) return {.outcome = AgentOutcome::unmatched_response};
  if (header->method == smp_method::kTrapRepress) {
    const bool is_our_trap = repress(header->transaction_id);
    return {.outcome = is_our_trap ? AgentOutcome::acknowledged : AgentOutcome::unmatched_response};
  }
  const NodeIndex sender = MadRoute::of(header->transaction_id).node;
  if (state_.manager.node(sender) == nullptr) return {.outcome = AgentOutcome::unknown_sender};
  SmpTarget target;
  switch (resolve_target(packet, *header, sender, state_.manager, target)) {
    case SmpRoute::invalid:
      return {};
    case SmpRoute::unreachable:
      return {.outcome = AgentOutcome::unreachable};
    case SmpRoute::found:
      break;
  }
  if (state_.manager.has_own_sm() || target.is_switch() || !is_for_manager(*header)) {
    const bool is_allowed = is_authorised(target, *header, m_key_of(packet.mad));
    return is_allowed ? respond(packet, *header, target)
                      : AgentResult{.outcome = AgentOutcome::wrong_m_key};
  }
  AgentResult forwarded{.outcome = AgentOutcome::forwarded, .packet = packet, .to = target.index};
  finish_route(target, *header, forwarded.packet.mad);
  return forwarded;
}

AgentResult SubnetManagementAgents::respond(const MadPacket& packet, const MadHeader& header,
                                            const SmpTarget& target) {
  std::uint16_t status = 0;
  std::optional<SmpData> data;
  const bool is_set = header.method == method::kSet && !state_.manager.has_own_sm();
  if (header.class_version != kSmpClassVersion) {
    status = mad_status::kUnsupportedVersion;
  } else if (header.method != method::kGet && !is_set) {
    status = mad_status::kUnsupportedMethodAttribute;
  } else {
    if (is_set) {
      const std::span<const std::uint8_t> mad(packet.mad);
      status = set_attribute(target, header, mad.subspan<kSmpDataOffset, kSmpDataSize>(), state_);
      for (const auto index : std::exchange(state_.link_changes, {})) link_changed(index);
    }
    // The response to SubnSet() contains the new value.
    std::uint16_t get_status = 0;
    if (status == 0) data = get_attribute(target, header, m_key_of(packet.mad), state_, get_status);
    if (status == 0 && !data) status = get_status;
  }
  const std::uint16_t direction = is_directed(header) ? kSmpDirectionBit : 0;
  auto result = make_response(packet, header, static_cast<std::uint16_t>(status | direction));
  result.status = status;
  if (data) std::ranges::copy(*data, result.packet.mad.begin() + kSmpDataOffset);
  write_return_path(target, header, result.packet.mad);
  return result;
}

void SubnetManagementAgents::link_changed(SwitchIndex index) {
  if (state_.manager.has_own_sm()) return;
  Switch& at = state_.manager.switches()[index];
  at.settings.links_changed = true;
  at.traps.links_changed();
  next_trap_ = at.traps.next_deadline();
}

void SubnetManagementAgents::link_failed(const Attachment& at, LinkError error) {
  Switch& here = state_.manager.switches()[at.switch_index];
  ++here.ports[at.port].link_errors[static_cast<std::size_t>(error)];
  if (state_.manager.has_own_sm()) return;
  here.traps.link_failed(error, at.port);
  next_trap_ = std::min(next_trap_, here.traps.next_deadline());
}

bool SubnetManagementAgents::repress(std::uint64_t transaction_id) {
  Switches& switches = state_.manager.switches();
  for (SwitchIndex i = 0; i < switches.size(); ++i) {
    if (!switches[i].traps.repress(transaction_id)) continue;
    find_next_trap();
    return true;
  }
  for (auto& [node, keys] : keys_) {
    if (!keys.traps.repress(transaction_id)) continue;
    find_next_trap();
    return true;
  }
  return false;
}

void SubnetManagementAgents::find_next_trap() {
  const Switches& switches = state_.manager.switches();
  next_trap_ = ipoib::kNever;
  for (SwitchIndex i = 0; i < switches.size(); ++i) {
    next_trap_ = std::min(next_trap_, switches[i].traps.next_deadline());
  }
  for (const auto& [node, keys] : keys_) {
    next_trap_ = std::min(next_trap_, keys.traps.next_deadline());
  }
}

std::vector<MadPacket> SubnetManagementAgents::on_time(ipoib::TimePoint now) {
  Switches& switches = state_.manager.switches();
  if (looks() && look_at_ <= now) {
    find_violations();
    if (reports_keys()) find_key_violations();
    find_link_errors();
    find_next_trap();
    look_at_ = now + kTrapInterval;
  }
  std::vector<MadPacket> due;
  if (now < next_trap_) return due;
  for (SwitchIndex i = 0; i < switches.size(); ++i) {
    const auto traps = switches[i].traps.on_time(switches[i].node.port, now);
    due.insert(due.end(), traps.begin(), traps.end());
  }
  for (auto& [index, keys] : keys_) {
    const Node* const node = state_.manager.node(index);
    if (node == nullptr) continue;
    const auto traps = keys.traps.on_time(node->port, now);
    due.insert(due.end(), traps.begin(), traps.end());
  }
  find_next_trap();
  return due;
}

/// Starts a trap of each switch that has dropped packets for their P_Key since the last call. What
/// was there at the first one has happened before this process.
void SubnetManagementAgents::find_violations() {
  if (!violations_.count) return;
  Switches& switches = state_.manager.switches();
  for (const Attachment& at : switches.filters()) {
    const auto now = violations_.count(at);
    auto& known = known_violations_.try_emplace(at, now).first->second;
    if (std::exchange(known, now) == now) continue;
    switches[at.switch_index].traps.pkey_violated(at.port, violations_.last(at));
  }
}

/// Starts traps of the ports of HCAs that have dropped packets for a key since the last call. What
/// was there at the first one has happened before this process.
void SubnetManagementAgents::find_key_violations() {
  for (NodeIndex index = 1; index < kMaxNodes; ++index) {
    if (state_.manager.node(index) == nullptr) {
      keys_.erase(index);
      continue;
    }
    PortKeys& of = keys_.try_emplace(index, index).first->second;
    for (const auto key : kCheckedKeys) {
      auto& known = of.packets[static_cast<std::size_t>(key)];
      const auto now = state_.violations.packets(index, key);
      // The counter may have been reset.
      const bool has_new = has_looked_at_keys_ && now != known && now != 0;
      const auto last = has_new ? state_.violations.last(index, key) : std::nullopt;
      if (has_new && !last) continue;
      known = now;
      if (last) of.traps.violated(key, *last);
    }
  }
  has_looked_at_keys_ = true;
}

/// Counts the errors of a link, less the packets without (IBA 7.12.2), since the last call of this
/// function. What was there at the first one has happened before the fault.
void SubnetManagementAgents::find_link_errors() {
  const Switches& switches = std::as_const(state_.manager).switches();
  for (const Attachment& at : switches.lossy()) {
    const PerformanceCounters now = counters_(at);
    Integrity& link = integrity_.try_emplace(at, Integrity{now.receive_packets, now.receive_errors})
                          .first->second;
    const std::uint64_t packets =
        now.receive_packets - std::exchange(link.packets, now.receive_packets);
    const std::uint64_t errors =
        now.receive_errors - std::exchange(link.errors, now.receive_errors);
    const std::uint64_t right = packets - std::min(packets, errors);
    link.level = link.level + errors - std::min(link.level + errors, right);
    const auto& tuning = switches[at.switch_index].ports[at.port].tuning;
    if (link.level <= tuning.local_physical_errors) continue;
    link.level = 0;
    link_failed(at, LinkError::integrity);
  }
}

}  // namespace softib::subnet
