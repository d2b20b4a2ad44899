// Interface: what the RDMA connection manager asks its process about the node and the subnet.
// Answers come at once, but an address that is not known may be found later.
#pragma once

#include <optional>
#include <string>

#include "ipoib/result.hpp"
#include "ipoib/time.hpp"
#include "softib/core/fabric_types.hpp"
#include "softib/core/hca_ports.hpp"
#include "softib/rdma_cm/address.hpp"
#include "softib/rdma_cm/events.hpp"

namespace softib::rdma_cm {

/// The binding of an ID to a port number of a port space.
struct PortRequest {
  IdHandle id;
  PortSpace space = PortSpace::tcp;
  Address address;
  bool reuses_address = false;
  bool is_family_only = false;
};

/// The error if the node cannot be told of a port, a service or a membership.
[[nodiscard]] inline ipoib::Error not_locked(int code, const std::string& what) {
  return {code, what +
                    " cannot be locked in the folder of the node: see whether the subnet still "
                    "runs (softib list)"};
}

class Node {
 public:
  virtual ~Node() = default;
  /// The ports of an HCA of the process.
  [[nodiscard]] virtual HcaPorts ports(std::size_t hca) const = 0;
  [[nodiscard]] PortAttributes port(const LocalPort& at) const { return ports(at.hca)[at.number]; }
  /// The address of a port for connections to `destination`, of the same family.
  [[nodiscard]] virtual IpAddress source(const LocalPort& port,
                                         const IpAddress& destination) const = 0;
  /// An address of the process.
  struct Local {
    LocalPort port;
    PKey pkey;  ///< of the interface with the address; invalid if there is none
    IpAddress address;
  };
  [[nodiscard]] virtual std::optional<Local> find_local(const IpAddress& address) = 0;
  /// The port with an IP address, on any node of the subnet.
  struct Remote {
    Gid gid;
    std::optional<Local> from = {};  ///< where connections to it begin, if it is not any port
  };
  /// Finds the port with an address. If none is known, returns nullopt; if one is found before
  /// `until`, Manager::retry_addresses() is called.
  [[nodiscard]] virtual std::optional<Remote> find(const IpAddress& address,
                                                   ipoib::TimePoint until) = 0;

  /// Reserves a port number of the node for this process, with the rules of Ports for the other
  /// processes of the node. May make a binding exclusive that was shared. After an error, parts of
  /// the port number may be reserved. EADDRINUSE, EADDRNOTAVAIL: another process has it.
  [[nodiscard]] virtual ipoib::Result<void> lock_port(const PortRequest& request,
                                                      std::uint16_t port) = 0;
  /// Releases what this process has of the port number, at all addresses.
  virtual void unlock_port(PortSpace space, std::uint16_t port) = 0;
  /// Whether the process may use port numbers below kFirstUnprivilegedPort.
  [[nodiscard]] virtual bool may_use_privileged_ports() const = 0;

  /// Tells the node that this process listens on a service of a port. Returns false on failure.
  [[nodiscard]] virtual bool announce(const LocalPort& port, wire::ServiceId service) = 0;
  virtual void withdraw(const LocalPort& port, wire::ServiceId service) = 0;

  /// Tells the node that this process is a member of a group, in the way of `join_state`. Returns
  /// false if that is impossible.
  [[nodiscard]] virtual bool hold_group(const LocalPort& port, const Gid& mgid,
                                        std::uint8_t join_state) = 0;
  /// Ends such a membership. Returns true if no process of the node is a member any longer.
  [[nodiscard]] virtual bool release_group(const LocalPort& port, const Gid& mgid,
                                           std::uint8_t join_state) = 0;
};

}  // namespace softib::rdma_cm
