// Messages to post to an interface's thread as soon as its mailbox has room. Of most kinds, only
// the last one counts.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "daemon/interfaces/neighbour_store.hpp"
#include "daemon/pump/messages.hpp"

namespace ipoib::daemon {

struct PendingMessages {
  /// Posts them in an order in which each makes sense. Returns whether all were posted.
  /// `neighbours` is what a new part of the interface does not know.
  [[nodiscard]] bool post_to(InterfaceMailbox& to, const StaticNeighbours& neighbours);

  PerPort<std::optional<PortReplaced>> parts;
  PerPort<std::optional<link::PortStatus>> ports;
  PerPort<bool> reregister;
  bool has_new_part = false;
  std::vector<ObjectFailed> failures;
  std::optional<std::string> name;
  std::optional<PumpMode> mode;
  std::optional<HostChanged> host;
  std::deque<wire::SaResponse> responses;  ///< bounded by the link's requests
  Reconfigured configuration;
  bool stop = false;

 private:
  [[nodiscard]] bool post_of_port(InterfaceMailbox& to, PortRole role);
};

}  // namespace ipoib::daemon
