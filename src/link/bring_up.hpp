// How far the link has come: docs/states.md, "Bring-up". Decides; the Link carries it out.
#pragma once

#include "link/events.hpp"
#include "link/neighbour_info.hpp"

namespace ipoib::link {

class BringUp {
 public:
  /// What a change of the port means.
  enum class Step {
    none,
    join,     ///< all conditions hold: start to join
    go_down,  ///< a condition holds no longer
    restart,  ///< down, and join again: the port is another one to our peers, or to the queue pair
    confirm,  ///< stay up, but confirm what the subnet knows of us
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
