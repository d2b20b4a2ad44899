// The control thread: everything of an interface that is not a packet. Questions to the subnet
// administrator, port and partition, the host's addresses, administrators, signals.
//
// It is the process's first thread, on one io_context, and the only one that speaks to the
// interface's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "control/server.hpp"
#include "daemon/messages.hpp"
#include "daemon/port_watcher.hpp"
#include "daemon/watch.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/trace.hpp"
#include "linux/netlink_view.hpp"
#include "sa/sa_client.hpp"
#include "verbs/umad_port.hpp"

namespace ipoib::daemon {

class ControlThread final : public control::Handler {
 public:
  struct Parts {
    boost::asio::io_context& context;
    PortWatcher& port;
    host::NetlinkView& netlink;
    sa::SaClient& sa;
    const verbs::UmadPort& mads;  ///< what `sa` speaks over
    InterfaceMailbox& to_interface;
    ControlMailbox& inbox;
    TraceRing& trace;
    Logger& log;
  };

  explicit ControlThread(const Parts& parts);

  /// Runs until the interface's thread has ended and the groups are left. Returns why it ended;
  /// empty when it was asked to by a signal.
  [[nodiscard]] std::string run();

  // control::Handler
  void handle(control::InterfaceRequest request,
              std::function<void(control::Response)> done) override;

 private:
  void wait_for_signal();
  void on_port_event();
  void on_host_event();
  void look_at_host();
  void look_at_host_later();
  void on_mad();
  void on_messages();
  void ask_to_stop(const std::string& reason);
  void deliver();
  [[nodiscard]] bool deliver_changes();
  [[nodiscard]] bool deliver_answers();
  void arm_sa_timer();

  void take(link::JoinGroup& message);
  void take(link::AskPath& message);
  void take(link::LeaveGroup& message);
  void take(link::HostGroupsChanged& message);
  void take(AdminResponse& message);
  void take(Stopped& message);

  Parts parts_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer sa_timer_;
  boost::asio::steady_timer port_timer_;
  boost::asio::steady_timer host_timer_;
  boost::asio::steady_timer redeliver_timer_;
  boost::asio::steady_timer finish_timer_;
  Watch port_watch_;
  Watch netlink_watch_;
  Watch mad_watch_;
  Watch inbox_watch_;

  // What the interface's thread still has to be told, because its mailbox was full.
  bool port_undelivered_ = true;
  bool reregister_undelivered_ = false;
  std::optional<HostView> host_undelivered_;
  bool stop_undelivered_ = false;

  bool stopping_ = false;
  bool interface_ended_ = false;
  std::size_t leaves_ = 0;  ///< asked and not answered
  TimePoint sa_timer_due_ = kNever;
  TimePoint host_not_before_{};
  bool host_timer_armed_ = false;
  Retry host_retry_;
  std::string reason_;
  std::vector<ToControl> messages_;
};

}  // namespace ipoib::daemon
