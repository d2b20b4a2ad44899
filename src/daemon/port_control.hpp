// The control thread: everything of the daemon that is not a packet. Here what the interfaces of a
// port share: the requests to its authority, the events of the port, signals.
//
// It is the process's first thread, on one io_context, and the only one that speaks to the threads
// of the interfaces.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <string>

#include "daemon/alarm.hpp"
#include "daemon/authority.hpp"
#include "daemon/interfaces.hpp"
#include "daemon/port_watcher.hpp"
#include "daemon/watch.hpp"
#include "ipoib/log_fwd.hpp"

namespace ipoib::daemon {

class PortControl final : private PortOwner, private SaRequestPort {
 public:
  struct Parts {
    PortWatcher& port;
    Authority& authority;
    Logger& log;
  };

  PortControl(const Parts& parts, const SharedByInterfaces& shared);

  /// Makes the first interfaces, those of a port that is like this. Throws std::runtime_error when
  /// one of them cannot be made.
  void start(const verbs::PortSnapshot& port) { interfaces_.start(port); }
  /// Why run() has ended. The reason is empty when it was asked to by a signal; the device may have
  /// been lost meanwhile.
  struct Ended {
    std::string reason;
    bool device_lost = false;
  };
  /// Runs until the interfaces' threads have ended and their groups are left.
  [[nodiscard]] Ended run();

 private:
  void send(const wire::SaRequest& request) override;
  void on_finished(const std::string& reason) override;

  void wait_for_signal();
  void on_port_event();
  void on_authority_readable();
  void on_authority_time();
  void lose_device(const std::string& reason);
  void settle();

  Parts parts_;
  boost::asio::io_context& context_;
  TraceRing& trace_;
  boost::asio::signal_set signals_;
  Alarm authority_alarm_;
  Alarm port_alarm_;
  Watch port_watch_;
  Watch authority_watch_;
  Interfaces interfaces_;
  bool stopping_ = false;
  Ended ended_;
};

}  // namespace ipoib::daemon
