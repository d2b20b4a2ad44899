// A port of the daemon on the control thread: its events, and its SA.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>

#include "daemon/interfaces/interfaces.hpp"
#include "daemon/port/port_source.hpp"
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
    PortSource& port;
    SaBackend& sa;
    Interfaces& interfaces;
    TraceRing& trace;
    /// The device has failed or was removed; the port no longer does anything. Called once.
    std::function<void(const std::string& reason)> on_lost;
    /// The port's state has changed.
    std::function<void()> on_changed = [] {};
    /// The SA has answered test(), or did not.
    std::function<void(std::uint64_t round, bool answered)> on_tested = [](auto...) {};
  };
  explicit ServedPort(Dependencies dependencies);

  /// Reads the port's events and its state, and passes on what has changed.
  void update();
  void request(const wire::SaRequest& request);
  /// The daemon ends, and needs no more reports.
  void end();
  /// Whether test() can be called.
  [[nodiscard]] bool can_test() const;
  /// Asks the SA something, to find whether the port passes datagrams at all.
  void test(std::uint64_t round);
  /// What the tests have found, for the interfaces.
  void set_silent(bool silent);
  [[nodiscard]] const verbs::PortSnapshot& snapshot() const {
    return dependencies_.port.snapshot();
  }
  void stop();  ///< on_lost() is not called any more
  [[nodiscard]] bool is_lost() const { return is_lost_; }
  [[nodiscard]] sa::Counters counters() const { return dependencies_.sa.counters(); }

 private:
  void look_for_violations();
  void on_sa_readable();
  void on_sa_timer();
  void on_tested(const wire::SaResponse& response);
  void lose(const char* reason);
  void pass_on();
  void dispatch();

  const Dependencies dependencies_;
  Timer sa_timer_;
  Timer port_timer_;
  Timer violations_timer_;
  Watch port_watch_;
  Watch sa_watch_;
  bool is_lost_ = false;
  bool is_silent_ = false;
};

}  // namespace ipoib::daemon
