// The loop of an interface's thread: runs the pump, exchanges messages with the control thread, and
// polls or sleeps.
//
// One turn: read the clock; take messages; run one turn of the pump; post its messages. When there
// were no packets, the policy (poll_policy.hpp) decides between another turn and sleeping until
// TUN, completion channel or mailbox are readable, or until the link's next deadline. Before it
// sleeps, the loop arms the completion queue and polls it once more, so that it misses no
// completion. Completion events only end a sleep; they are acknowledged before the next one.
//
// A queue pair that is broken, or whose sends do not complete (send_watchdog.hpp), is restarted, or
// replaced if the device refuses that. While this fails, the link is down, and the loop tries again
// after a growing pause.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/admin.hpp"
#include "daemon/change_reporter.hpp"
#include "daemon/messages.hpp"
#include "daemon/poll_policy.hpp"
#include "daemon/pump.hpp"
#include "daemon/send_watchdog.hpp"
#include "daemon/sleeper.hpp"
#include "ipoib/backoff.hpp"
#include "linux/pollable_tun.hpp"
#include "verbs/recoverable_ud_port.hpp"

namespace ipoib::daemon {

class InterfaceLoop {
 public:
  /// All of these outlive the loop. Only the thread in run() uses the first four.
  struct Dependencies {
    Pump& pump;
    host::PollableTun& tun;
    verbs::RecoverableUdPort& queue_pair;
    Sleeper& sleeper;
    InterfaceMailbox& inbox;
    ControlMailbox& outbox;
    TraceRing& trace;
    Logger& log;
  };
  struct Settings {
    InterfaceIdentity identity;
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
  [[nodiscard]] bool watch_queue_pair();
  void repair_queue_pair();
  [[nodiscard]] Result<void> recreate_queue_pair();
  [[nodiscard]] TimePoint next_deadline() const;
  void end(StopReason why);

  void take_messages();
  void on_port(const link::PortStatus& status);
  void report_link();
  void set_neighbours(const SetNeighbours& message);
  void reconfigure(const Reconfigured& changes);
  void save_cache(SaveCache& message);
  void set_mode(PumpMode mode);
  void prepare_takeover();
  void on_admin_request(AdminRequest& message);
  [[nodiscard]] InterfaceState state() const;
  void report_changes();
  void post_messages();

  Settings settings_;
  Dependencies dependencies_;
  PollPolicy policy_;
  InterfaceStatus status_;
  TimePoint now_{};
  bool armed_ = false;
  SendWatchdog watchdog_;
  bool needs_repair_ = false;  ///< by the watchdog, or since the last repair has failed
  Retry repair_{Backoff{}};
  TimePoint no_repair_before_{};
  std::string awaited_;  ///< what the link waits for, as logged last
  std::optional<link::LinkState> reported_;  ///< the state of the last LinkReport
  ChangeReporter reporter_;
  bool admin_up_ = true;  ///< as of the last change of the host, while the reporter is on
  std::optional<link::SavedPage> saved_;     ///< by another daemon, until the link is up
  bool knows_host_ = false;
  bool settled_ = false;  ///< and reported
  bool stopping_ = false;
  StopReason stop_reason_;
  std::vector<ToInterface> messages_;  ///< a member, so that its memory is reused
};

}  // namespace ipoib::daemon
