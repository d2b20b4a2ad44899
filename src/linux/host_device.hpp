// Seam: the host's side of an interface, with its life: a TUN or TAP, or a VLAN of a TAP.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "linux/network_namespace.hpp"
#include "linux/pollable_tun.hpp"

namespace ipoib::host {

class HostDevice : public PollableTun {
 public:
  /// Readable when the host has packets.
  [[nodiscard]] virtual int descriptor() const = 0;
  /// Of the TUN or TAP; negative if a VLAN has none.
  [[nodiscard]] virtual int tun_descriptor() const = 0;
  [[nodiscard]] virtual int interface_index() const = 0;  ///< 0: a VLAN has no network interface
  /// Whether the network interface existed before.
  [[nodiscard]] virtual bool adopted() const = 0;
  /// The operator may have renamed it.
  [[nodiscard]] virtual std::string current_name() const = 0;
  /// That the interface is in now. nullopt if it was deleted.
  [[nodiscard]] virtual std::optional<NetworkNamespace> network_namespace() const = 0;
  /// What could not be set, and the interface works without.
  [[nodiscard]] virtual const std::vector<std::string>& warnings() const = 0;
  /// Makes the interface stay, or disappear, with this object.
  virtual void keep() = 0;
  virtual void remove() = 0;
  /// Makes the interface disappear at once. Nothing may be read, written or set afterwards.
  virtual void close() = 0;
};

}  // namespace ipoib::host
