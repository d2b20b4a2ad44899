// The control thread's side of an interface: passes port and host changes, SA responses and control
// requests to its thread, sends its SA requests, and ends it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/server.hpp"
#include "daemon/interfaces/host_follower.hpp"
#include "daemon/interfaces/interface_outbox.hpp"
#include "daemon/interfaces/leave_waiter.hpp"
#include "daemon/interfaces/link_local_choice.hpp"
#include "daemon/interfaces/neighbour_store.hpp"
#include "daemon/interfaces/partition_interface.hpp"
#include "daemon/process/watch.hpp"
#include "daemon/pump/messages.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/trace.hpp"
#include "linux/host_mirror.hpp"
#include "verbs/device.hpp"

namespace ipoib::daemon {

class InterfaceControl final : public control::Handler {
 public:
  using Callback = std::function<void(control::Response)>;
  struct Dependencies {
    boost::asio::io_context& context;
    InterfaceNumber number;
    PKey pkey;
    linux::HostMirror& host;
    InterfaceMailbox& to_interface;
    ControlMailbox& inbox;
    InterfaceOwner& owner;
    SaRequestPort& sa;
    std::shared_ptr<StaticNeighbours> neighbours;  ///< which the interface has from the start
    TraceRing& trace;
    Logger& log;
    std::string interface;  ///< the network interface's name
    LinkLocalChoice link_local;
    std::function<void(const std::string&)> renamed;  ///< called with the interface's new name
    std::function<bool()> has_moved;  ///< to another network namespace; asked when it has gone
    /// Counters of the ports, and counters of the process that belong to no interface.
    std::function<std::vector<control::Counter>()> common_counters;
    /// The interface's thread no longer uses its part on that port that was replaced.
    std::function<void(PortRole)> port_released;
    std::function<void(const control::Event&)> publish;  ///< to subscribers
  };
  explicit InterfaceControl(const Dependencies& dependencies);
  void on_event(const InterfaceEvent& event);
  void replace_port(const PortReplaced& part);      ///< Dependencies::port_released() follows
  void stop(StopReason why);                        ///< the first reason counts
  void on_host_name() { host_.check_interface(); }  ///< HostMirror::interface_name() has changed
  /// Whether the host has the address on the interface.
  [[nodiscard]] bool has_address(const IpAddress& address) const {
    return host_.has_address(address);
  }
  void set_mode(PumpMode mode);  ///< InterfaceOwner::on_mode() follows
  void handle(control::InterfaceRequest request, Callback done) override;
  /// Responds on the connection.
  void start_capture(const control::CaptureRequest& request, FileDescriptor connection);
  void find_members(const Gid& mgid, Callback done) override;
  void add_interface(const control::AddInterfaceRequest& request, Callback done) override;
  void delete_interface(Callback done) override;

 private:
  void on(const PortUpdate& update);
  void on(const SubnetNotice& notice);
  void on(const wire::SaResponse& response);
  void on(const LinkReportRequest& request);
  void on(const ClientReregister& message) { outbox_.post(message); }
  void on(const ObjectFailed& message) { outbox_.post(message); }
  void on(const Reconfigured& message) { outbox_.post(message); }
  void log_partition(PortRole role, const verbs::PortSnapshot& port);
  void on_renamed(const std::string& name);
  [[nodiscard]] Callback with_common_counters(Callback done) const;
  void on_messages();
  void on(wire::SaRequest& message);
  void on(link::HostGroupsChanged& /*message*/) { host_.expect_change(); }
  void on(link::RedirectReceived& /*message*/) { host_.expect_redirect(); }
  void on(link::ArpReplyCheck& message);
  void on(link::ArpPolicyUsed& /*message*/) { host_.check_arp_policy(); }
  void on(RoutesWanted& /*message*/) { host_.expect_view(); }
  void on(LinkReport& message);
  void on(AdminResponse& message) { message.done(std::move(message.response)); }
  void on(Events& message);
  void on(CacheSaved& message) { message.done(std::move(message.page)); }
  void on(ModeReached& message) { dependencies_.owner.on_mode(dependencies_.number, message.mode); }
  void on(PortReleased& message) { dependencies_.port_released(message.role); }
  void on(Stopped& message);

  Dependencies dependencies_;
  InterfaceOutbox outbox_;
  HostFollower host_;
  LeaveWaiter leaves_;
  Watch inbox_watch_;
  std::optional<StopReason> stop_reason_;                 ///< none while the interface runs
  std::map<wire::SaRequestId, Callback> members_wanted_;  ///< outstanding; one for each client
  PerPort<wire::SaRequestId> next_request_;
  PortRole active_ = PortRole::primary;  ///< as the interface's thread has reported
  PerPort<std::optional<PKey>> entry_;   ///< in the P_Key table; an invalid key if it has none
  PerPort<std::vector<PKey>> pkeys_;     ///< the P_Key table
  std::vector<ToControl> messages_;
};

}  // namespace ipoib::daemon
