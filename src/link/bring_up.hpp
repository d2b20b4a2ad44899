// The state machine of docs/states.md, "Bring-up". It decides; the Link carries out the decisions.
#pragma once

#include "link/events.hpp"
#include "link/neighbour_info.hpp"

namespace ipoib::link {

class BringUp {
 public:
  /// What the link has to do after a change of the port.
  enum class Step {
    none,
    join,     ///< all conditions hold: start to join
    go_down,  ///< a condition no longer holds
    restart,  ///< go down and join again: GID or P_Key index has changed
    confirm,  ///< stay up, but confirm memberships and paths
  };

  [[nodiscard]] Step on_port(const PortStatus& port);
  void on_joined() { state_ = LinkState::up; }
  void on_setup_failed() { state_ = LinkState::joining; }
  void stop() { state_ = LinkState::stopped; }

  [[nodiscard]] LinkState state() const { return state_; }
  [[nodiscard]] const PortStatus& port() const { return port_; }
  [[nodiscard]] bool is_up() const { return state_ == LinkState::up; }
  [[nodiscard]] bool is_running() const { return is_up() || state_ == LinkState::joining; }

 private:
  [[nodiscard]] Step while_running(const PortStatus& before);
  [[nodiscard]] Step while_waiting();

  LinkState state_ = LinkState::port_down;
  PortStatus port_;
};

}  // namespace ipoib::link
