// A port of the daemon on the control thread: its events, and its SA.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>

#include "daemon/interfaces/interfaces.hpp"
#include "daemon/port/port_watcher.hpp"
#include "daemon/port/sa_backend.hpp"
#include "daemon/process/timer.hpp"
#include "daemon/process/watch.hpp"
#include "ipoib/trace.hpp"

namespace ipoib::daemon {

class ServedPort {
 public:
  /// All of these outlive it.
  struct Dependencies {
    boost::asio::io_context& context;
    PortRole role;
    PortWatcher& port;
    SaBackend& sa;
    Interfaces& interfaces;
    TraceRing& trace;
    /// The device has failed or was removed; the port no longer does anything. Called once.
    std::function<void(const std::string& reason)> on_lost;
  };
  explicit ServedPort(Dependencies dependencies);

  /// Reads the port's events and its state, and passes on what has changed.
  void update();
  void request(const wire::SaRequest& request);
  /// The daemon ends, and needs no more reports.
  void end();
  void stop();  ///< on_lost() is not called any more
  [[nodiscard]] bool is_lost() const { return is_lost_; }
  [[nodiscard]] sa::Counters counters() const { return dependencies_.sa.counters(); }

 private:
  void on_sa_readable();
  void on_sa_timer();
  void lose(const char* reason);
  void dispatch();

  const Dependencies dependencies_;
  Timer sa_timer_;
  Timer port_timer_;
  Watch port_watch_;
  Watch sa_watch_;
  bool is_lost_ = false;
};

}  // namespace ipoib::daemon
