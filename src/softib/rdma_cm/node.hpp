// What the RDMA connection manager asks its process about the node and the subnet. Answers come at
// once, from memory and locks that all processes of the subnet share.
#pragma once

#include <optional>

#include "softib/core/fabric_types.hpp"
#include "softib/rdma_cm/address.hpp"

namespace softib::rdma_cm {

class Node {
 public:
  virtual ~Node() = default;
  /// Of an HCA of the process, counted from 0.
  [[nodiscard]] virtual PortAttributes port(std::size_t hca) const = 0;
  [[nodiscard]] virtual bool has_address(std::size_t hca, const IpAddress& address) const = 0;
  /// The address of the HCA for connections to `destination`; of the same family.
  [[nodiscard]] virtual IpAddress source(std::size_t hca, const IpAddress& destination) const = 0;
  /// The port with an IP address, on any node of the subnet; nullopt if there is none.
  [[nodiscard]] virtual std::optional<Gid> find(const IpAddress& address) const = 0;

  /// Reserves a port number of the node for this process, at one address, or for the wildcard at
  /// all of them. False: another process has it.
  [[nodiscard]] virtual bool lock_port(PortSpace space, std::uint16_t port,
                                       const Address& address) = 0;
  /// Releases what this process has of the port number, at all addresses.
  virtual void unlock_port(PortSpace space, std::uint16_t port) = 0;
  /// Port numbers below kFirstUnprivilegedPort.
  [[nodiscard]] virtual bool may_use_privileged_ports() const = 0;

  /// Tells the node that this process listens on a service of an HCA. False: it cannot.
  [[nodiscard]] virtual bool announce(std::size_t hca, wire::ServiceId service) = 0;
  virtual void withdraw(std::size_t hca, wire::ServiceId service) = 0;

  /// Tells the node that this process is a member of a group, in the way of `join_state`. False: it
  /// cannot.
  [[nodiscard]] virtual bool hold_group(std::size_t hca, const Gid& mgid,
                                        std::uint8_t join_state) = 0;
  /// The opposite. True if no process of the node is a member any more.
  [[nodiscard]] virtual bool release_group(std::size_t hca, const Gid& mgid,
                                           std::uint8_t join_state) = 0;
};

}  // namespace softib::rdma_cm
