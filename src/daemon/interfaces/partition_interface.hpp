// Seam: an interface of a port, and where interfaces come from. Implemented by Interface and
// InterfaceFactory, and in memory by tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "daemon/pump/messages.hpp"
#include "daemon/pump/sa_requests.hpp"
#include "ipoib/address.hpp"
#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "linux/network_namespace.hpp"
#include "verbs/device.hpp"

namespace ipoib::daemon {

class InterfaceOwner {
 public:
  virtual ~InterfaceOwner() = default;
  /// The interface's thread has ended and has left its groups, if possible. The interface may be
  /// destroyed after this call, but not within.
  virtual void on_ended(InterfaceNumber interface, const StopReason& why) = 0;
  virtual void on_report(InterfaceNumber interface, const LinkReport& report) = 0;
  /// PartitionInterface::set_mode() has taken effect. For PumpMode::held: the interface can be
  /// served at once.
  virtual void on_mode(InterfaceNumber interface, PumpMode mode) = 0;
  /// The operator has renamed the network interface.
  virtual void on_renamed(InterfaceNumber interface, const std::string& name) = 0;
  /// Another daemon has connected to take over.
  virtual void on_handover(FileDescriptor connection) = 0;

  /// The operator adds an interface for a full member's key, in the network namespace of the
  /// interface `beside`. Returns its name; an empty `name` stands for the usual one.
  [[nodiscard]] virtual Result<std::string> add_interface(InterfaceNumber beside, PKey partition,
                                                          const std::string& name) = 0;
  /// The operator deletes an interface. Calls `done` when the network interface has gone and the
  /// groups were left, or at once with the reason why that is not possible.
  virtual void delete_interface(InterfaceNumber interface,
                                std::function<void(Result<void>)> done) = 0;
};

/// A network namespace that interfaces share.
using SharedNamespace = std::shared_ptr<const linux::NetworkNamespace>;

struct InterfaceId {
  InterfaceNumber number;
  PKey pkey;
  std::string name;           ///< when it is created; the operator may rename it
  SharedNamespace home = {};  ///< null: that of the option --netns
};

/// How to find a network interface that is kept without carrier while the device is lost.
struct KeptInterface {
  std::string name;           ///< its current one
  std::string mark = {};      ///< see linux::TunOptions
  SharedNamespace home = {};  ///< where it is; null: in that of the option --netns
};

/// The state of a port, whenever it has changed.
struct PortUpdate {
  PortRole role = PortRole::primary;
  verbs::PortSnapshot port = {};
};
/// What happens to an interface from outside: a response is one to a request of its own, and for a
/// request of a report, InterfaceOwner::on_report() follows if the interface's thread works.
using InterfaceEvent = std::variant<PortUpdate, ClientReregister, ObjectFailed, SubnetNotice,
                                    wire::SaResponse, Reconfigured, LinkReportRequest>;

/// What the end of an interface means for what outlives it. Without any of these, the network
/// interface is kept.
struct Ending {
  bool removes = false;             ///< the network interface, with the object
  bool removes_now = false;         ///< the network interface, at once; the thread has ended
  bool forgets_neighbours = false;  ///< the static neighbours of the partition
};
/// The interface is no longer in the plan, or the daemon ends.
inline constexpr Ending kRemoved{.removes = true};
/// The operator has deleted the interface by a request to the daemon.
inline constexpr Ending kDeletedByDaemon{
    .removes = true, .removes_now = true, .forgets_neighbours = true};
/// The operator has deleted the network interface on the host.
inline constexpr Ending kDeletedOnHost{.forgets_neighbours = true};

class PartitionInterface {
 public:
  virtual ~PartitionInterface() = default;

  [[nodiscard]] virtual const InterfaceId& id() const = 0;
  /// Whether the network interface existed before.
  [[nodiscard]] virtual bool adopted() const = 0;
  /// Decides what becomes of what outlives this object, which then is only destroyed.
  virtual void set_ending(const Ending& ending) = 0;
  /// Whether the network interface is in the network namespace of --netns, where the next daemon
  /// looks for it.
  [[nodiscard]] virtual bool is_at_home() const = 0;
  /// The network namespace that the network interface is in now; null if it was deleted.
  [[nodiscard]] virtual SharedNamespace current_namespace() const = 0;
  [[nodiscard]] virtual KeptInterface kept() const = 0;

  virtual void on_event(const InterfaceEvent& event) = 0;
  /// The device of the port has failed, and is back. Throws std::runtime_error if it cannot be
  /// used.
  virtual void replace_port(PortRole role) = 0;
  /// The TAP that carries this VLAN was renamed, and the name of the VLAN follows.
  virtual void rename(const std::string& name) = 0;
  /// Whether the host has the address on the network interface, at home (is_at_home()).
  [[nodiscard]] virtual bool has_address(const IpAddress& address) const = 0;
  /// Calls `done` once with the response, now or later; not after the interface has ended.
  virtual void resolve(const control::ResolveRequest& request,
                       std::function<void(control::Response)> done) = 0;
  // --- Handover, see handover.hpp ---
  [[nodiscard]] virtual int tun_descriptor() const = 0;
  /// The static neighbours that the operator has set.
  [[nodiscard]] virtual std::vector<control::StaticNeighbour> statics() const = 0;
  /// Calls `done` with a page of the link's cache, unless the interface ends or is too busy.
  virtual void save(link::NeighbourCursor from, std::function<void(SavedCache)> done) = 0;
  /// Only an active interface has control sockets. InterfaceOwner::on_mode() follows.
  virtual void set_mode(PumpMode mode) = 0;

  /// Ends the interface; the first reason counts. InterfaceOwner::on_ended() follows.
  virtual void stop(StopReason why) = 0;
};

class PartitionInterfaces {
 public:
  virtual ~PartitionInterfaces() = default;
  /// Creates an interface, or adopts a persistent one. Throws std::runtime_error that says what is
  /// missing.
  [[nodiscard]] virtual std::unique_ptr<PartitionInterface> create(const InterfaceId& id,
                                                                   InterfaceOwner& owner,
                                                                   SaRequestPort& sa) = 0;
  /// Removes a kept network interface.
  [[nodiscard]] virtual Result<void> discard(const KeptInterface& kept) = 0;
};

}  // namespace ipoib::daemon
