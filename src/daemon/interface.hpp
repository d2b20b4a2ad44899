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

/// Names of network interfaces that were left without carrier when the device failed, for the time
/// when it is back.
using KeptInterfaces = std::set<std::string>;

/// What the interfaces of a port share; outlives them.
struct SharedByInterfaces {
  boost::asio::io_context& context;
  const verbs::Device& device;
  std::uint32_t max_mtu = 0;  ///< octets that the port can ever carry
  const Options& options;
  const host::NetworkNamespace& home;  ///< of the network interfaces
  KeptInterfaces& kept;
  Logging& logs;
  TraceRings& rings;
  TraceRing& control_trace;
};

class Interface {
 public:
  struct Identity {
    InterfaceNumber number;
    PKey pkey;
    std::string name;
  };
  /// Makes the interface, or adopts one that was left behind, and starts its thread. Throws
  /// std::runtime_error that says what is missing.
  Interface(const Identity& identity, const SharedByInterfaces& shared, InterfaceOwner& owner,
            SaRequestPort& sa);
  Interface(const Interface&) = delete;
  Interface& operator=(const Interface&) = delete;
  /// Waits for the thread, which it tells to stop if nobody has.
  ~Interface() = default;

  [[nodiscard]] const Identity& identity() const { return identity_; }
  [[nodiscard]] InterfaceControl& control() { return control_; }
  [[nodiscard]] bool adopted() const { return tun_->adopted(); }
  /// The network interface disappears with this object; otherwise it stays, for the next one.
  void remove_at_end() { tun_->remove(); }

 private:
  /// A ring for as long as its thread lives.
  struct OwnRing {
    OwnRing(TraceRings& all, const std::string& name) : rings(all), ring(all.add(name)) {}
    OwnRing(const OwnRing&) = delete;
    OwnRing& operator=(const OwnRing&) = delete;
    ~OwnRing() { rings.release(ring); }
    TraceRings& rings;
    TraceRing& ring;
  };
  void register_pools();
  void receive_large_packets();
  [[nodiscard]] std::unique_ptr<control::Server> serve(const SharedByInterfaces& shared);

  // In the order in which they need each other.
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
