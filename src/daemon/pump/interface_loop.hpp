// The loop of an interface's thread: runs the pumps, exchanges messages with the control thread,
// and polls or sleeps.
//
// One turn: read the clock; take messages; run one turn of each pump; post its messages. When there
// were no packets, the policy (poll_policy.hpp) decides between another turn and sleeping until
// TUN, completion channel or mailbox are readable, or until the link's next deadline. Before it
// sleeps, the loop arms the completion queue and polls it once more, so that it misses no
// completion. Completion events only end a sleep; they are acknowledged before the next one.
//
// An interface with a backup port has a pump on each, and one of them is active. The loop moves the
// interface from one to the other (port_selection.hpp) within a turn: the host sees no change, and
// peers learn the address of the other queue pair from announcements.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "daemon/pump/admin.hpp"
#include "daemon/pump/captures.hpp"
#include "daemon/pump/change_reporter.hpp"
#include "daemon/pump/link_port.hpp"
#include "daemon/pump/poll_policy.hpp"
#include "daemon/pump/port_selection.hpp"
#include "daemon/pump/pump.hpp"
#include "daemon/pump/resolutions.hpp"
#include "daemon/pump/sleeper.hpp"
#include "linux/pollable_tun.hpp"
#include "verbs/recoverable_ud_port.hpp"

namespace ipoib::daemon {

class InterfaceLoop {
 public:
  /// All of these outlive the loop. Only the thread in run() uses the first five, and the backup.
  struct Dependencies {
    Pump& pump;
    linux::PollableTun& tun;
    verbs::RecoverableUdPort& queue_pair;
    RouteFollower& routes;
    Sleeper& sleeper;
    InterfaceMailbox& inbox;
    ControlMailbox& outbox;
    TraceRing& trace;
    Logger& log;
    std::optional<BackupPort> backup = {};
  };
  struct Settings {
    InterfaceIdentity identity;  ///< with the primary port
    PKey pkey;
    PollMode poll = PollMode::adaptive;
  };

  InterfaceLoop(Settings settings, const Dependencies& dependencies);

  /// Returns after the message Stop, or when the interface has failed or was deleted. Posts Stopped
  /// as its last message in either case.
  void run();

 private:
  void turn();
  void sleep();
  [[nodiscard]] bool arm();
  [[nodiscard]] TimePoint next_deadline();
  void end(StopReason why);

  [[nodiscard]] LinkPort& active() { return *ports_[active_]; }
  [[nodiscard]] link::Link& link() { return active().link(); }
  /// Calls `use` with the interface's part on each of its ports.
  template <class Use>
  void for_each_port(Use&& use) {
    for (const PortRole role : kPortRoles) {
      if (ports_[role]) use(*ports_[role]);
    }
  }
  void select_port();
  void replace_port(const PortReplaced& message);
  void retire(LinkPort& port);
  void serve_by(PortRole role);
  void move_to(PortRole role, const std::string& why);
  /// Whether what was reached from a port has the same addresses as seen from the active one.
  [[nodiscard]] bool is_in_one_subnet_with(const PortName& port);
  [[nodiscard]] control::Response fail_over(const control::FailoverRequest& request);

  void take_messages();
  void take(ToInterface& message);
  void on_port(const PortChanged& message);
  void check_mtu();   ///< logs that of an interface that exceeds the link's
  void show_speed();  ///< of the port that serves, to the host
  void report_link();
  void set_neighbours(const SetNeighbours& message);
  void reconfigure(const Reconfigured& changes);
  void save_cache(SaveCache& message);
  void restore_cache(SavedCache&& saved);
  void set_mode(PumpMode mode);
  void serve_stations();
  void prepare_takeover();
  [[nodiscard]] bool is_settled();
  /// Shows all packets to captures_, or no longer.
  void observe_ports();
  void on_admin_request(AdminRequest& message);
  [[nodiscard]] InterfaceState state();
  void report_changes();
  void answer_resolutions();
  void post_messages(LinkPort& port);

  Settings settings_;
  Dependencies dependencies_;
  PollPolicy policy_;
  PerPort<std::unique_ptr<LinkPort>> ports_;  ///< null: there is no backup
  PortRole active_ = PortRole::primary;
  std::optional<PortSelection> selection_;  ///< of two ports
  InterfaceStatus status_;
  RetiredCounters retired_;             ///< of parts that were replaced
  HostChanged host_;                    ///< the last one, with two ports
  std::vector<PortReleased> released_;  ///< to post
  TimePoint now_{};
  std::string awaited_;                      ///< what the link waits for, as logged last
  std::optional<link::LinkState> reported_;  ///< the state of the last LinkReport
  ChangeReporter reporter_;
  Resolutions resolutions_;
  Captures captures_;
  bool is_observed_ = false;  ///< by captures_
  bool admin_up_ = true;      ///< as of the last change of the host, while the reporter is on
  std::optional<SavedCache> saved_;  ///< by another daemon, until the link is up
  std::vector<ethernet::SavedStation> stations_to_serve_;  ///< likewise, until PumpMode::active
  bool knows_host_ = false;
  std::uint32_t host_mtu_ = 0;    ///< of the network interface; 0: unknown
  std::uint32_t excess_mtu_ = 0;  ///< as logged last; 0: it does not exceed the link's
  bool settled_ = false;          ///< and reported
  bool stopping_ = false;
  StopReason stop_reason_;
  std::vector<ToInterface> messages_;  ///< a member, so that its memory is reused
};

}  // namespace ipoib::daemon
