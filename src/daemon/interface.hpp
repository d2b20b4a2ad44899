// One interface of the daemon, the wiring diagram of a partition:
//
//        kernel ---- TunDevice ----+                      +---- NetlinkView
//                                  |     mailboxes        |
//                     Pump and InterfaceLoop <------> InterfaceControl ---- PortControl
//                                  |                      |
//        fabric --- UdQueuePair ---+                      +---- control::Server ---- ibarp
#pragma once

#include <memory>
#include <set>
#include <string>

#include "control/server.hpp"
#include "daemon/interface_control.hpp"
#include "daemon/interface_loop.hpp"
#include "daemon/interface_thread.hpp"
#include "daemon/ipv6_identity.hpp"
#include "daemon/logging.hpp"
#include "daemon/options.hpp"
#include "daemon/pools.hpp"
#include "daemon/pump.hpp"
#include "linux/network_namespace.hpp"

namespace ipoib::daemon {

/// Names of network interfaces that are kept without carrier while the device is lost.
using KeptInterfaces = std::set<std::string>;

class Interface {
 public:
  /// What the interfaces of a port share; outlives them.
  struct Dependencies {
    boost::asio::io_context& context;
    const verbs::Device& device;
    std::uint32_t max_mtu = 0;  ///< largest MTU of the port, in bytes
    const Options& options;
    const host::NetworkNamespace& home;  ///< namespace of the network interfaces
    KeptInterfaces& kept;
    Logging& logs;
    TraceRings& rings;
    TraceRing& control_trace;
  };
  struct Identity {
    InterfaceNumber number;
    PKey pkey;
    std::string name;
  };
  /// Creates the interface, or adopts a persistent one, and starts its thread. Throws
  /// std::runtime_error that says what is missing.
  Interface(const Identity& identity, const Dependencies& dependencies, InterfaceOwner& owner,
            SaRequestPort& sa);
  Interface(const Interface&) = delete;
  Interface& operator=(const Interface&) = delete;
  /// Stops the thread if it is running, and joins it.
  ~Interface() = default;

  [[nodiscard]] const Identity& identity() const { return identity_; }
  [[nodiscard]] InterfaceControl& control() { return control_; }
  [[nodiscard]] bool adopted() const { return tun_->adopted(); }
  /// Makes the network interface disappear with this object; otherwise it is kept.
  void remove_at_end() { tun_->remove(); }

 private:
  /// Owns a trace ring while the thread lives.
  struct OwnRing {
    OwnRing(TraceRings& all, const std::string& name) : rings(all), ring(all.add(name)) {}
    OwnRing(const OwnRing&) = delete;
    OwnRing& operator=(const OwnRing&) = delete;
    ~OwnRing() { rings.release(ring); }
    TraceRings& rings;
    TraceRing& ring;
  };
  void register_pools();
  void log_start(const verbs::Device& device);
  void receive_large_packets();
  [[nodiscard]] std::unique_ptr<control::Server> serve(const Dependencies& dependencies);

  // In order of their dependencies.
  const Identity identity_;
  InterfaceLogs logs_;
  const OwnRing trace_;
  Pools pools_;
  const std::unique_ptr<verbs::UdQueuePair> queue_pair_;
  const Ipv6Identity ipv6_;
  const std::unique_ptr<host::TunDevice> tun_;
  const std::unique_ptr<host::NetlinkView> netlink_;
  InterfaceMailbox to_interface_;
  ControlMailbox to_control_;
  InterfaceControl control_;
  const std::unique_ptr<control::Server> server_;
  Pump pump_;
  InterfaceLoop loop_;
  InterfaceThread thread_;
};

}  // namespace ipoib::daemon
