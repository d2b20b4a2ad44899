#include "link/bring_up.hpp"

#include <utility>

namespace ipoib::link {

namespace {

LinkState state_of(Inactive port) {
  switch (port) {
    case Inactive::down:
      return LinkState::port_down;
    case Inactive::polling:
      return LinkState::port_polling;
    case Inactive::init:
      return LinkState::port_init;
    case Inactive::armed:
      return LinkState::port_armed;
    case Inactive::no_gid:
      return LinkState::no_gid;
  }
  return LinkState::port_down;
}

}  // namespace

BringUp::Step BringUp::on_port(const PortStatus& port) {
  const PortStatus before = std::exchange(port_, port);
  switch (state_) {
    case LinkState::port_down:
    case LinkState::port_polling:
    case LinkState::port_init:
    case LinkState::port_armed:
    case LinkState::no_gid:
    case LinkState::no_subnet_manager:
    case LinkState::no_pkey:
      return while_waiting();
    case LinkState::joining:
    case LinkState::up:
      return while_running(before);
    case LinkState::stopped:
      break;
  }
  return Step::none;
}

BringUp::Step BringUp::while_waiting() {
  if (!port_.active) {
    state_ = state_of(port_.inactive);
  } else if (!port_.sm_known) {
    state_ = LinkState::no_subnet_manager;
  } else if (!port_.pkey_index) {
    state_ = LinkState::no_pkey;
  } else {
    state_ = LinkState::joining;
    return Step::join;
  }
  return Step::none;
}

/// The loss of the subnet manager changes nothing: resolved destinations work without it.
BringUp::Step BringUp::while_running(const PortStatus& before) {
  if (!port_.active) {
    state_ = state_of(port_.inactive);
    return Step::go_down;
  }
  if (!port_.pkey_index) {
    state_ = LinkState::no_pkey;
    return Step::go_down;
  }
  if (port_.pkey_index != before.pkey_index || port_.gid != before.gid ||
      port_.gid_index != before.gid_index || port_.grh_required != before.grh_required) {
    state_ = LinkState::joining;
    return Step::restart;
  }
  const bool is_same = port_.lid == before.lid && port_.lmc == before.lmc;
  return is_same ? Step::none : Step::confirm;
}

}  // namespace ipoib::link
