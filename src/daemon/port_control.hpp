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

#include "daemon/handover_giver.hpp"
#include "daemon/handover_taker.hpp"
#include "daemon/interfaces/interface_factory.hpp"
#include "daemon/interfaces/interfaces.hpp"
#include "daemon/path_test.hpp"
#include "daemon/port/port_watcher.hpp"
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
    PortWatcher& watcher;
    SaBackend& sa;
  };
  struct Dependencies {
    Port primary;
    std::optional<Port> backup;
    /// Opens the device of a port that was lost; nullopt if it is not back. With two ports only.
    /// What the port had before is destroyed later, by the event loop.
    std::function<std::optional<Port>(PortRole)> reopen;
    const HandledSignals& signals;
    std::function<Reloaded()> reload;  ///< Configuration::reload()
    Logger& log;
    /// Called when the interfaces are served: no other daemon has them.
    std::function<void()> on_serving;
  };
  /// Another daemon's end of a handover, and its process.
  struct Predecessor {
    handover::Connection connection;
    std::uint32_t pid = 0;
  };

  /// `kept` and `changes` outlive the device. With a predecessor, the interfaces handed over are
  /// Interface::Dependencies::handed.
  PortControl(const Dependencies& dependencies, const Interface::Dependencies& interfaces,
              KeptInterfaces& kept, OperatorChanges& changes,
              std::optional<Predecessor> predecessor);

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

  void on_signal();
  void reload();
  void on_watchdog();
  void on_lost(PortRole role, const std::string& reason);
  void reopen_lost();
  void test_paths();
  void show_silence();
  void log_silence(PortRole role);
  [[nodiscard]] Interface::Dependencies with_handover(Interface::Dependencies interfaces);
  [[nodiscard]] std::unique_ptr<ServedPort> serve(PortRole role, const Port& port);
  void end_reports();

  Dependencies dependencies_;
  boost::asio::io_context& context_;
  const bool keeps_;  ///< Options::keep
  TraceRing& trace_;
  Timer watchdog_timer_;
  Timer test_timer_;
  Timer reopen_timer_;
  Watch signal_watch_;
  HandedInterfaces& handed_;
  InterfaceFactory factory_;
  Interfaces interfaces_;
  PerPort<std::unique_ptr<ServedPort>> ports_;  ///< null: there is no backup
  PathTest path_test_;                          ///< of both ports
  PerPort<bool> is_silent_;
  handover::Giver giver_;
  std::optional<handover::Taker> taker_;
  bool stopping_ = false;
  Ended ended_;
};

}  // namespace ipoib::daemon
