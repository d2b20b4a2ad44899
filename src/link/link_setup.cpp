#include "link/link_setup.hpp"

#include <cassert>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/log_event.hpp"
#include "link/membership.hpp"

namespace ipoib::link {

BringUp::Step LinkSetup::on_port(const PortStatus& port) {
  const LinkState before = state();
  const BringUp::Step step = bring_up_.on_port(port);
  if (before != state()) {
    const auto mark =
        before == LinkState::up ? message_id(events::kInterfaceDown) : spdlog::source_loc{};
    log_.log(mark, spdlog::level::info, "{} -> {}", name(before), name(state()));
  }
  return step;
}

void LinkSetup::take_port() {
  port_gid_ = {port().gid, port().gid_index};
  own_.gid = port_gid_.gid;
}

void LinkSetup::on_queue_pair(Qpn qpn) {
  own_.qpn = qpn;
  configured_.reset();
  if (parameters_) configure_queue_pair();
}

bool LinkSetup::on_broadcast_joined(const wire::McMemberRecord& record) {
  const bool has_changed = parameters_ && !has_same_parameters(*parameters_, record);
  parameters_ = record;
  configure_queue_pair();
  return has_changed;
}

void LinkSetup::on_joined() {
  bring_up_.on_joined();
  set_carrier(true);
}

void LinkSetup::go_down() {
  set_carrier(false);
  configured_.reset();
  parameters_.reset();
}

void LinkSetup::set_carrier(bool on) {
  if (std::exchange(carrier_, on) == on) return;
  out_.events.emplace_back(SetCarrier{on});
  if (!on) out_.counters.add(Counter::carrier_losses);
}

void LinkSetup::configure_queue_pair() {
  const auto index = port().pkey_index;
  assert(index.has_value());
  const ConfigureQueuePair wanted{.pkey_index = index.value_or(0), .qkey = parameters_->qkey};
  if (configured_ == wanted) return;
  configured_ = wanted;
  out_.events.emplace_back(wanted);
}

std::string LinkSetup::waiting_for() const {
  switch (state()) {
    case LinkState::port_down:
    case LinkState::port_polling:
    case LinkState::port_init:
    case LinkState::port_armed:
    case LinkState::no_gid: {
      const auto inactive = port().inactive;
      return std::string("the port, which is ").append(text_of(inactive)) +
             std::string(" (").append(remedy_of(inactive)) + ")";
    }
    case LinkState::no_subnet_manager:
      return "a subnet manager: the port is ACTIVE, but knows of none (" +
             std::string(kSubnetManagerRemedy) + ")";
    case LinkState::no_pkey:
      return "the P_Key to appear in the port's table (put the port into the partition, in the "
             "configuration of the subnet manager)";
    case LinkState::joining:
      return {};
    case LinkState::up:
      return "nothing: the link is up";
    case LinkState::stopped:
      return "nothing: the link is shut down";
  }
  return {};
}

}  // namespace ipoib::link
