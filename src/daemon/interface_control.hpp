// The control thread's part of one interface: brings it the news of port and host, the answers of
// the subnet administrator and the administrators' requests, takes its questions, and sees to its
// orderly end.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/server.hpp"
#include "daemon/alarm.hpp"
#include "daemon/messages.hpp"
#include "daemon/sa_requests.hpp"
#include "daemon/watch.hpp"
#include "ipoib/backoff.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/trace.hpp"
#include "linux/netlink_view.hpp"
#include "verbs/device.hpp"

namespace ipoib::daemon {

/// Whom an interface works for.
class InterfaceOwner {
 public:
  virtual ~InterfaceOwner() = default;
  /// The interface's thread is over, and its groups are left, as far as possible. It may be
  /// destroyed, but not within this call.
  virtual void on_ended(InterfaceNumber interface, const Ending& why) = 0;
};

class InterfaceControl final : public control::Handler {
 public:
  struct Parts {
    boost::asio::io_context& context;
    InterfaceNumber number;
    PKey pkey;
    host::NetlinkView& netlink;
    InterfaceMailbox& to_interface;
    ControlMailbox& inbox;
    InterfaceOwner& owner;
    SaRequestPort& sa;
    TraceRing& trace;
    Logger& log;
  };

  explicit InterfaceControl(const Parts& parts);

  void on_port(const verbs::PortSnapshot& port);
  void on_client_reregister();
  void on_notice(const wire::Notice& notice);
  /// To a request of this interface.
  void on_response(const wire::SaResponse& response);
  /// Ends the interface; the first reason counts.
  void stop(Ending why);

  // control::Handler
  void handle(control::InterfaceRequest request,
              std::function<void(control::Response)> done) override;
  void find_members(const Gid& mgid, std::function<void(control::Response)> done) override;

 private:
  using MembersCallback = std::function<void(control::Response)>;

  void note_partition(const verbs::PortSnapshot& port);
  void on_host_event();
  void look_at_host();
  void on_messages();
  void deliver();
  [[nodiscard]] bool deliver_all();
  void give_members(const wire::SaResult& result, const MembersCallback& done);
  void end_if_over();

  void take(wire::SaRequest& message);
  void take(link::HostGroupsChanged& message);
  void take(AdminResponse& message);
  void take(Stopped& message);

  Parts parts_;
  Alarm host_alarm_;
  Alarm redeliver_alarm_;
  Alarm patience_alarm_;
  Watch netlink_watch_;
  Watch inbox_watch_;

  // What the interface's thread still has to be told, because its mailbox was full.
  std::optional<link::PortStatus> port_undelivered_;
  bool reregister_undelivered_ = false;
  std::optional<HostView> host_undelivered_;
  /// No more than the link has requests outstanding.
  std::deque<wire::SaResponse> responses_undelivered_;
  bool stop_undelivered_ = false;

  enum class Life { running, stopping, over, ended };
  Life life_ = Life::running;
  std::optional<Ending> ending_;
  std::set<wire::SaRequestId> leaves_;  ///< outstanding
  /// Outstanding requests for the members of a group; a client of the control server has one.
  std::map<wire::SaRequestId, MembersCallback> members_wanted_;
  wire::SaRequestId next_request_;
  TimePoint host_not_before_{};
  Retry host_retry_;
  std::optional<PKey> entry_;  ///< in the port's table; an invalid key: none
  std::vector<ToControl> messages_;
};

}  // namespace ipoib::daemon
