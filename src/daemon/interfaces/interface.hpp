// One interface of the daemon, the wiring diagram of a partition:
//
//        kernel ---- TunDevice ----+                      +---- NetlinkView
//                                  |     mailboxes        |
//                     Pump and InterfaceLoop <------> InterfaceControl ---- PortControl
//                                  |                      |
//        fabric --- UdQueuePair ---+                      +---- control::Server ---- ibarp
// With a backup port, there is a second UdQueuePair with a second Pump. For VLANs: vlan_port.hpp.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "control/server.hpp"
#include "daemon/acm/socket.hpp"
#include "daemon/interfaces/handover.hpp"
#include "daemon/interfaces/interface_control.hpp"
#include "daemon/interfaces/own_ring.hpp"
#include "daemon/interfaces/port_queue.hpp"
#include "daemon/options/cpus.hpp"
#include "daemon/options/logging.hpp"
#include "daemon/pump/interface_loop.hpp"
#include "daemon/pump/interface_thread.hpp"
#include "linux/tun_device.hpp"
#include "linux/vlan_trunk.hpp"

namespace ipoib::daemon {

class Interface final : public PartitionInterface {
 public:
  struct Dependencies {  ///< what the interfaces of a port share; outlives them
    boost::asio::io_context& context;
    const PortDevices& devices;  ///< null: there is no backup port
    const Options& options;
    const linux::NetworkNamespace& home;  ///< namespace of the network interfaces
    NeighbourStore& neighbours;
    Logging& logs;
    TraceRings& rings;
    TraceRing& control_trace;
    CpuShares& cpus;
    HandedInterfaces& handed;            ///< by another daemon; those that are not taken yet
    linux::VlanTrunk* trunk = nullptr;   ///< for the VLANs of a TAP, if there are any
    const acm::Counters* acm = nullptr;  ///< null without --acm
  };
  /// Creates the interface or adopts one, and starts its thread. May throw std::runtime_error.
  Interface(const InterfaceId& id, const Dependencies& dependencies, InterfaceOwner& owner,
            SaRequestPort& sa);
  ~Interface() override = default;  ///< stops the thread if it is running, and joins it

  [[nodiscard]] const InterfaceId& id() const override { return id_; }
  [[nodiscard]] bool adopted() const override { return device_ != nullptr && device_->adopted(); }
  void set_ending(const Ending& ending) override;
  [[nodiscard]] bool is_at_home() const override;
  [[nodiscard]] SharedNamespace current_namespace() const override;
  [[nodiscard]] KeptInterface kept() const override;

  void on_event(const InterfaceEvent& event) override { control_.on_event(event); }
  void replace_port(PortRole role) override;
  void rename(const std::string& name) override;
  [[nodiscard]] bool has_address(const IpAddress& address) const override {
    return control_.has_address(address) && is_at_home();
  }
  void resolve(const control::ResolveRequest& request,
               std::function<void(control::Response)> done) override {
    control_.handle(request, std::move(done));
  }
  [[nodiscard]] int tun_descriptor() const override {
    return device_ != nullptr ? device_->descriptor() : dependencies_.trunk->tap();
  }
  [[nodiscard]] std::vector<control::StaticNeighbour> statics() const override;
  void save(link::NeighbourCursor from, std::function<void(SavedCache)> done) override;
  void set_mode(PumpMode mode) override;
  void stop(StopReason why) override { control_.stop(std::move(why)); }

 private:
  [[nodiscard]] std::unique_ptr<linux::TunDevice> open_device();
  [[nodiscard]] std::unique_ptr<linux::PollableTun> open_vlan() const;
  [[nodiscard]] std::unique_ptr<linux::HostMirror> open_mirror() const;
  [[nodiscard]] InterfaceControl::Dependencies control_dependencies(
      const Dependencies& dependencies, SaRequestPort& sa);
  Pump& make_pump(PortRole role, PumpMode mode);
  [[nodiscard]] InterfaceLoop::Dependencies loop_dependencies();
  void log_start();
  [[nodiscard]] std::unique_ptr<control::Server> serve(const std::string& name,
                                                       control::Server::IfTaken if_taken);
  void serve_again();
  void on_renamed(const std::string& name);
  [[nodiscard]] std::string current_name() const;
  void run();            ///< the interface's thread
  template <class Open>  // calls `open` in the network namespace of the interface
  auto at_home(Open&& open) const {
    return (id_.home ? *id_.home : dependencies_.home).run(std::forward<Open>(open));
  }

  const InterfaceId id_;  // the members are in order of their dependencies
  const Dependencies dependencies_;
  InterfaceOwner& owner_;
  InterfaceLogs logs_;
  const CpuShares::Share cpu_;
  const OwnRing trace_;
  PortSides sides_;
  const Guid guid_;  ///< of the primary port: what identifies the host
  const Ipv6Identity ipv6_;
  const std::optional<VlanId> vlan_;  ///< of a TAP; none: it has a network interface of its own
  const std::string mark_;            ///< see linux::TunOptions; empty for a VLAN
  std::optional<HandedInterface> handed_;
  PumpMode mode_;
  const std::unique_ptr<linux::TunDevice> device_;       ///< null for a VLAN
  const std::unique_ptr<linux::PollableTun> vlan_port_;  ///< null for others
  linux::PollableTun& tun_;                              ///< one of these
  const std::unique_ptr<linux::HostMirror> mirror_;
  InterfaceMailbox to_interface_;
  ControlMailbox to_control_;
  InterfaceControl control_;
  std::unique_ptr<control::Server> server_;
  RouteFollower follower_;
  EpollSleeper sleeper_;
  InterfaceLoop loop_;
  InterfaceThread thread_;
};

}  // namespace ipoib::daemon
