// The control thread's side of an interface: passes port and host changes, SA responses and control
// requests to its thread, sends its SA requests, and ends it.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/server.hpp"
#include "daemon/interfaces/host_updates.hpp"
#include "daemon/interfaces/link_local_choice.hpp"
#include "daemon/interfaces/neighbour_store.hpp"
#include "daemon/interfaces/partition_interface.hpp"
#include "daemon/interfaces/pending_messages.hpp"
#include "daemon/process/timer.hpp"
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
    host::HostMirror& host;
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
    std::function<verbs::PortCounters()> of_ports;  ///< sum of the verbs::Devices
    /// Counters of the process that belong to no interface.
    std::function<std::vector<control::Counter>()> of_process;
    /// The interface's thread no longer uses its part on that port that was replaced.
    std::function<void(PortRole)> port_released;
    std::function<void(const control::Event&)> publish;  ///< to subscribers
  };
  explicit InterfaceControl(const Dependencies& dependencies);
  void on_port(PortRole role, const verbs::PortSnapshot& port);
  void replace_port(const PortReplaced& part);  ///< Dependencies::port_released() follows
  void on_client_reregister(PortRole role);
  void on_object_failed(const void* object);
  void on_notice(PortRole role, const wire::Notice& notice);
  void on_response(const wire::SaResponse& response);  ///< to a request of this interface
  void stop(StopReason why);                           ///< the first reason counts
  void reconfigure(const Reconfigured& changes);
  void on_host_name();  ///< HostMirror::interface_name() has changed
  /// Whether the host has the address on the interface.
  [[nodiscard]] bool has_address(const IpAddress& address) const;
  void request_report();         ///< InterfaceOwner::on_report() follows
  void set_mode(PumpMode mode);  ///< InterfaceOwner::on_mode() follows
  void handle(control::InterfaceRequest request, Callback done) override;
  void find_members(const Gid& mgid, Callback done) override;
  void add_interface(const control::AddInterfaceRequest& request, Callback done) override;
  void delete_interface(Callback done) override;

 private:
  void log_partition(PortRole role, const verbs::PortSnapshot& port);
  void follow_host();
  void follow_guid(const verbs::PortSnapshot& port);
  void replace_link_local();
  void on_messages();
  void deliver();
  [[nodiscard]] Callback with_common_counters(Callback done) const;
  void end_if_done();
  void on(wire::SaRequest& message);
  void on(link::HostGroupsChanged& message);
  void on(link::RedirectReceived& message);
  void on(link::ArpReplyCheck& message);
  void on(link::ArpPolicyUsed& message);
  void on(RoutesWanted& message);
  void on(LinkReport& message);
  void on(AdminResponse& message);
  void on(Events& message);
  void on(CacheSaved& message);
  void on(ModeReached& message);
  void on(PortReleased& message) { dependencies_.port_released(message.role); }
  void on(Stopped& message);
  Dependencies dependencies_;
  HostUpdates host_;
  Timer redeliver_timer_;
  Timer leave_timer_;
  Watch inbox_watch_;
  PendingMessages pending_;          ///< to the interface's thread
  std::vector<IpPrefix> addresses_;  ///< of the host on the interface

  enum class State { running, stopping, stopped, ended } state_ = State::running;
  std::optional<StopReason> stop_reason_;
  std::set<wire::SaRequestId> leaves_;                    ///< outstanding
  std::map<wire::SaRequestId, Callback> members_wanted_;  ///< outstanding; one for each client
  PerPort<wire::SaRequestId> next_request_;
  PortRole active_ = PortRole::primary;  ///< as the interface's thread has reported
  PerPort<std::optional<PKey>> entry_;   ///< in the P_Key table; an invalid key if it has none
  std::vector<ToControl> messages_;
};

}  // namespace ipoib::daemon
