// The control thread's side of the daemon's ports and their interfaces: what happens to them,
// signals, handovers.
//
// The control thread is the process's main thread and runs one io_context. It does everything but
// packet processing, and is the only one that exchanges messages with the interfaces' threads.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/acm/server.hpp"
#include "daemon/handover_giver.hpp"
#include "daemon/handover_taker.hpp"
#include "daemon/interfaces/interfaces.hpp"
#include "daemon/path_monitor.hpp"
#include "daemon/port/port_source.hpp"
#include "daemon/port/sa_backend.hpp"
#include "daemon/process/service.hpp"
#include "daemon/process/timer.hpp"
#include "daemon/process/watch.hpp"
#include "daemon/served_port.hpp"
#include "ipoib/log_fwd.hpp"

namespace ipoib::daemon {

class PortControl final : private PortOwner, private SaRequestPort {
 public:
  struct Port {
    PortSource& source;
    SaBackend& sa;
  };
  /// All of these outlive it.
  struct Dependencies {
    boost::asio::io_context& context;
    Port primary;
    std::optional<Port> backup;
    /// Opens the device of a port that was lost; nullopt if it is not back. With two ports only.
    /// What the port had before is destroyed later, by the event loop.
    std::function<std::optional<Port>(PortRole)> reopen;
    PartitionInterfaces& factory;
    const Options& options;
    KeptInterfaces& kept;
    OperatorChanges& changes;
    HandedInterfaces& handed;  ///< by the predecessor
    /// What this daemon serves, see handover::Giver::Dependencies.
    std::function<handover::Hello()> own;
    TraceRing& trace;
    const HandledSignals& signals;
    std::function<Reloaded()> reload;  ///< Configuration::reload()
    Logger& log;
    acm::Socket* acm = nullptr;                     ///< null without --acm
    const linux::NetworkNamespace* home = nullptr;  ///< of the clients of `acm`
    /// Called when the interfaces are served: no other daemon has them.
    std::function<void()> on_serving;
  };
  /// Another daemon's end of a handover, and its process.
  struct Predecessor {
    handover::Connection connection;
    std::uint32_t pid = 0;
  };

  PortControl(const Dependencies& dependencies, std::optional<Predecessor> predecessor);

  /// Creates the interfaces for a primary port in this state. Throws std::runtime_error if one of
  /// them cannot be created.
  void start(const verbs::PortSnapshot& port);
  /// Why run() has ended. The reason is empty after a signal, even if the device was lost, too.
  struct Ended {
    std::string reason;
    bool device_lost = false;
  };
  /// Runs until all interfaces have ended and have left their groups.
  [[nodiscard]] Ended run();

 private:
  void send(const wire::SaRequest& request) override;
  [[nodiscard]] sa::Counters counters() const override;
  void on_finished(const std::string& reason) override;
  void on_status() override;
  void on_mode(InterfaceNumber interface, PumpMode mode) override;
  void on_handover(FileDescriptor connection) override;

  void on_signal();
  void reload();
  void on_watchdog();
  void on_lost(PortRole role, const std::string& reason);
  void reopen_lost();
  void test_paths();
  void show_silence();
  void log_silence(PortRole role);
  [[nodiscard]] std::unique_ptr<ServedPort> serve(PortRole role, const Port& port);
  void end_reports();

  Dependencies dependencies_;
  Timer watchdog_timer_;
  Timer test_timer_;
  Timer reopen_timer_;
  Timer ending_timer_;
  Watch signal_watch_;
  Interfaces interfaces_;
  PerPort<std::unique_ptr<ServedPort>> ports_;  ///< null: there is no backup
  PathMonitor path_monitor_;                    ///< of both ports
  PerPort<bool> is_silent_;
  handover::Giver giver_;
  std::optional<handover::Taker> taker_;
  std::optional<acm::Server> acm_;
  bool stopping_ = false;
  Ended ended_;
};

}  // namespace ipoib::daemon
