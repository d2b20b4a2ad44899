// Creates the interfaces of a port for Interfaces.
#pragma once

#include <memory>
#include <string>

#include "daemon/interfaces/cleanup.hpp"
#include "daemon/interfaces/interface.hpp"
#include "daemon/interfaces/partition_interface.hpp"

namespace ipoib::daemon {

/// Creates interfaces on a port.
class InterfaceFactory final : public PartitionInterfaces {
 public:
  explicit InterfaceFactory(const Interface::Dependencies& dependencies)
      : dependencies_(dependencies) {}
  [[nodiscard]] std::unique_ptr<PartitionInterface> create(const InterfaceId& id,
                                                           InterfaceOwner& owner,
                                                           SaRequestPort& sa) override {
    return std::make_unique<Interface>(id, dependencies_, owner, sa);
  }
  [[nodiscard]] Result<void> discard(const KeptInterface& kept) override {
    if (kept.mark.empty()) return {};  // a VLAN has no network interface
    return daemon::discard(kept, dependencies_.home);
  }

 private:
  const Interface::Dependencies dependencies_;
};

}  // namespace ipoib::daemon
